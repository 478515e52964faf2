// Pad(x, pads, value?, axes?): pads = the counts before each axis, then those after; negative
// counts crop. mode constant (value, 0 by default), edge (the nearest element), reflect (mirrored
// without repeating the edge), wrap.
#include <algorithm>
#include <cstring>

#include "base/math.h"
#include "ops/indexing.h"
#include "ops/op.h"
#include "ops/util.h"

namespace evoq {
namespace {

enum class Mode { kConstant, kEdge, kReflect, kWrap };

Result<Mode> ModeOf(const Node& node) {
  EVOQ_ASSIGN(const std::string mode, StringAttr(node, "mode", "constant"));
  if (mode == "constant") return Mode::kConstant;
  if (mode == "edge") return Mode::kEdge;
  if (mode == "reflect") return Mode::kReflect;
  if (mode == "wrap") return Mode::kWrap;
  return InvalidInput("mode is '{}', expected constant, edge, reflect or wrap", mode);
}

// Counts before and after every axis of a tensor of this rank.
struct Pads {
  std::vector<int64_t> before, after;
};

Result<Pads> MakePads(const std::vector<int64_t>& pads, const std::vector<int64_t>* axes,
                      int rank) {
  const size_t count = axes ? axes->size() : static_cast<size_t>(rank);
  if (pads.size() != 2 * count)
    return InvalidInput("input 1 (pads) has {} values, expected {}", pads.size(), 2 * count);
  Pads result{std::vector<int64_t>(rank, 0), std::vector<int64_t>(rank, 0)};
  std::vector<int> normal;
  if (axes) {
    EVOQ_ASSIGN(normal, NormalizeAxes(*axes, rank));
  } else {
    for (int i = 0; i < rank; ++i) normal.push_back(i);
  }
  for (int64_t pad : pads) {
    constexpr int64_t kLimit = int64_t{1} << 40;  // keeps the sums below far from overflow
    if (pad > kLimit || pad < -kLimit)
      return Fail(ErrorCode::kTooLarge, "input 1 (pads) has the value {}", pad);
  }
  for (size_t i = 0; i < count; ++i) {
    result.before[normal[i]] = pads[i];
    result.after[normal[i]] = pads[i + count];
  }
  return result;
}

InferResult Infer(const InferArgs& args) {
  EVOQ_ASSIGN(const Mode mode, ModeOf(args.node));
  const TensorType& x = args.inputs[0];
  if (args.has(2)) EVOQ_TRY(CheckDType(args, 2, std::array{x.dtype}));
  if (!x.shape.ranked()) return std::vector<TensorType>{TensorType(x.dtype, x.shape)};
  EVOQ_ASSIGN(const auto pads, ConstantInts(args, 1));
  EVOQ_ASSIGN(const auto axes, ConstantInts(args, 3));
  std::vector<Dim> dims = x.shape.dims();
  if (pads && (axes || !args.has(3))) {
    EVOQ_ASSIGN(const Pads p, MakePads(*pads, axes ? &*axes : nullptr, x.shape.rank()));
    for (size_t i = 0; i < dims.size(); ++i) {
      if (p.before[i] == 0 && p.after[i] == 0) continue;
      if (!dims[i].known()) {
        dims[i] = Dim();
        continue;
      }
      const auto size = CheckedAdd(dims[i].value, p.before[i] + p.after[i]);
      if (!size || *size < 0)
        return InvalidInput("pads {} and {} on axis {} of {}", p.before[i], p.after[i], i,
                            x.shape.ToString());
      if (dims[i].value == 0 && *size > 0 && mode != Mode::kConstant)
        return InvalidInput("axis {} is empty: only mode constant can pad it", i);
      dims[i] = Dim(*size);
    }
  } else if (axes) {
    EVOQ_ASSIGN(const std::vector<int> normal, NormalizeAxes(*axes, x.shape.rank()));
    for (int axis : normal) dims[axis] = Dim();
  } else {
    dims.assign(dims.size(), Dim());
  }
  return std::vector<TensorType>{TensorType(x.dtype, Shape(std::move(dims)))};
}

// The index of x that position i shows, x standing at [0, size); -1 for the fill value.
int64_t SourceIndex(int64_t i, int64_t size, Mode mode) {
  if (i >= 0 && i < size) return i;
  switch (mode) {
    case Mode::kConstant: return -1;
    case Mode::kEdge: return i < 0 ? 0 : size - 1;
    case Mode::kWrap: return (i % size + size) % size;
    case Mode::kReflect: {
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
  Mode mode;
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
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args, Infer));
  EVOQ_ASSIGN(const Mode mode, ModeOf(args.node));
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

// Quantized: the fill is the quantized `value`.
extern const OpDef kPad = {.name = "Pad",
                           .min_inputs = 2,
                           .max_inputs = 4,
                           .quant = QuantTrait::kMove,
                           .infer = Infer,
                           .evaluate = Evaluate,
                           .roles = {Role::kData, Role::kParameter, Role::kFill, Role::kParameter},
                           .axes = AxisUse::kAllListed};

}  // namespace evoq
