// Slice(x, starts, ends, axes?, steps?): y[i] = x[start + i * step] along each named axis.
#include "ops/slice.h"

#include "reference/definition.h"
#include "reference/strided.h"
#include "reference/util.h"

namespace evoq {
namespace {

EvalResult Evaluate(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const int64_t width, ElementBytes(x));
  EVOQ_ASSIGN(const std::vector<int64_t> starts, ToInt64s(args.inputs[1]));
  EVOQ_ASSIGN(const std::vector<int64_t> ends, ToInt64s(args.inputs[2]));
  std::vector<int64_t> axes, steps;
  if (args.has(3)) {
    EVOQ_ASSIGN(axes, ToInt64s(args.inputs[3]));
  }
  if (args.has(4)) {
    EVOQ_ASSIGN(steps, ToInt64s(args.inputs[4]));
  }
  EVOQ_ASSIGN(const std::vector<SliceRange> ranges,
              SliceRanges(starts, ends, args.has(3) ? &axes : nullptr,
                          args.has(4) ? &steps : nullptr, x.shape().rank()));
  std::vector<int64_t> sizes = x.sizes(), strides = RowMajorStrides(sizes);
  int64_t offset = 0;
  for (const SliceRange& r : ranges) {
    const SliceExtent extent = Resolve(r, sizes[r.axis]);
    offset += extent.start * strides[r.axis];
    sizes[r.axis] = extent.count;
    strides[r.axis] *= extent.step;
  }
  EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(x.dtype(), Shape(sizes))));
  CopyFromStrided(x.raw() + offset * width, strides, sizes, width, y.mutable_raw());
  return One(std::move(y));
}

}  // namespace

namespace reference {

extern const Definition kSlice = {.name = "Slice", .evaluate = Evaluate};

}  // namespace reference
}  // namespace evoq
