// Pad(x, pads, value?, axes?): pads = the counts before each axis, then those after; negative
// counts crop. mode constant (value, 0 by default), edge (the nearest element), reflect (mirrored
// without repeating the edge), wrap.
#include "ops/pad.h"

#include <cstring>

#include "reference/definition.h"
#include "reference/indexing.h"
#include "reference/util.h"

namespace evoq {
namespace {

// The index of x that position i shows, x standing at [0, size); -1 for the fill value.
int64_t SourceIndex(int64_t i, int64_t size, PadMode mode) {
  if (i >= 0 && i < size) return i;
  switch (mode) {
    case PadMode::kConstant: return -1;
    case PadMode::kEdge: return i < 0 ? 0 : size - 1;
    case PadMode::kWrap: return (i % size + size) % size;
    case PadMode::kReflect: {
      if (size == 1) return 0;
      const int64_t period = 2 * (size - 1), m = (i % period + period) % period;
      return m < size ? m : period - m;
    }
  }
  return -1;
}

struct Job {
  const std::byte* x;
  std::byte* y;
  const std::byte* fill;
  int64_t width;
  std::vector<int64_t> sizes, out_sizes, before;
  PadMode mode;
};

void FillWith(const Job& job, int64_t first, int64_t count) {
  for (int64_t i = first; i < first + count; ++i)
    std::memcpy(job.y + i * job.width, job.fill, job.width);
}

// Writes the block of y at element `to` that spans axes `axis` and up, from the block of x at
// element `from`.
void FillPadded(const Job& job, size_t axis, int64_t from, int64_t to) {
  if (axis == job.sizes.size()) {
    std::memcpy(job.y + to * job.width, job.x + from * job.width, job.width);
    return;
  }
  int64_t block = 1, out_block = 1;
  for (size_t i = axis + 1; i < job.sizes.size(); ++i) {
    block *= job.sizes[i];
    out_block *= job.out_sizes[i];
  }
  for (int64_t i = 0; i < job.out_sizes[axis]; ++i) {
    const int64_t source = SourceIndex(i - job.before[axis], job.sizes[axis], job.mode);
    if (source < 0) {
      FillWith(job, to + i * out_block, out_block);
    } else {
      FillPadded(job, axis + 1, from + source * block, to + i * out_block);
    }
  }
}

EvalResult Evaluate(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args));
  EVOQ_ASSIGN(const PadMode mode, PadModeOf(args.node));
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const int64_t width, ElementBytes(x));
  EVOQ_ASSIGN(const std::vector<int64_t> pads, ToInt64s(args.inputs[1]));
  std::vector<int64_t> axes;
  if (args.has(3)) {
    EVOQ_ASSIGN(axes, ToInt64s(args.inputs[3]));
  }
  EVOQ_ASSIGN(const Pads p, MakePads(pads, args.has(3) ? &axes : nullptr, x.shape().rank()));
  std::byte fill[8] = {};
  if (args.has(2)) {
    const Tensor& value = args.inputs[2];
    if (value.elements() != 1)
      return InvalidInput("input 2 (value) is {}, expected one value", value.type().ToString());
    std::memcpy(fill, value.raw(), width);
  }
  EVOQ_ASSIGN(Tensor y, AllocateGrown(types[0]));
  if (y.elements() > 0)
    FillPadded({x.raw(), y.mutable_raw(), fill, width, x.sizes(), y.sizes(), p.before, mode}, 0, 0,
               0);
  return One(std::move(y));
}

}  // namespace

namespace reference {

extern const Definition kPad = {.name = "Pad", .evaluate = Evaluate};

}  // namespace reference
}  // namespace evoq
