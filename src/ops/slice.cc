// Slice(x, starts, ends, axes?, steps?): y[i] = x[start + i * step] along each named axis.
#include "ops/slice.h"

#include <algorithm>

#include "base/math.h"
#include "ops/op.h"
#include "ops/util.h"

namespace evoq {

SliceExtent Resolve(const SliceRange& r, int64_t size) {
  const int64_t limit = std::max<int64_t>(size, 1);
  const int64_t step = std::clamp(r.step, -limit, limit);
  int64_t start = r.start < 0 ? r.start + size : r.start, end = r.end < 0 ? r.end + size : r.end;
  if (step > 0) {
    start = std::clamp<int64_t>(start, 0, size);
    end = std::clamp<int64_t>(end, 0, size);
    return {start, std::max<int64_t>(0, CeilDiv(end - start, step)), step};
  }
  start = std::clamp<int64_t>(start, 0, size - 1 < 0 ? 0 : size - 1);
  end = std::clamp<int64_t>(end, -1, size - 1);
  return {start, size == 0 ? 0 : std::max<int64_t>(0, CeilDiv(start - end, -step)), step};
}

Result<std::vector<SliceRange>> SliceRanges(const std::vector<int64_t>& starts,
                                            const std::vector<int64_t>& ends,
                                            const std::vector<int64_t>* axes,
                                            const std::vector<int64_t>* steps, int rank) {
  const size_t count = starts.size();
  if (ends.size() != count || (axes && axes->size() != count) || (steps && steps->size() != count))
    return InvalidInput("{} starts, {} ends, {} axes, {} steps: expected equal counts", count,
                        ends.size(), axes ? axes->size() : count, steps ? steps->size() : count);
  std::vector<int64_t> wanted;
  for (size_t i = 0; i < count; ++i) wanted.push_back(axes ? (*axes)[i] : static_cast<int64_t>(i));
  EVOQ_ASSIGN(const std::vector<int> normal, NormalizeAxes(wanted, rank));
  std::vector<SliceRange> ranges;
  for (size_t i = 0; i < count; ++i) {
    const int64_t step = steps ? (*steps)[i] : 1;
    if (step == 0) return InvalidInput("input 4 (steps) is 0 for axis {}", normal[i]);
    ranges.push_back({normal[i], starts[i], ends[i], step});
  }
  return ranges;
}

namespace {

// The size after slicing, keeping a symbol where the slice takes everything.
Dim SlicedDim(const Dim& dim, const SliceRange& r) {
  if (dim.known()) return Dim(Resolve(r, dim.value).count);
  const bool whole_forward =
      r.step == 1 && r.start == 0 && r.end >= std::numeric_limits<int32_t>::max();
  const bool whole_backward = r.step == -1 &&
                              (r.start == -1 || r.start >= std::numeric_limits<int32_t>::max()) &&
                              r.end <= std::numeric_limits<int32_t>::min() + 1;
  return whole_forward || whole_backward ? dim : Dim();
}

InferResult Infer(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  if (!x.shape.ranked()) return std::vector<TensorType>{TensorType(x.dtype, x.shape)};
  EVOQ_ASSIGN(const auto starts, ConstantInts(args, 1));
  EVOQ_ASSIGN(const auto ends, ConstantInts(args, 2));
  EVOQ_ASSIGN(const auto axes, ConstantInts(args, 3));
  EVOQ_ASSIGN(const auto steps, ConstantInts(args, 4));
  std::vector<Dim> dims = x.shape.dims();
  const bool axes_known = axes || !args.has(3);
  if (starts && ends && axes_known && (steps || !args.has(4))) {
    EVOQ_ASSIGN(const std::vector<SliceRange> ranges,
                SliceRanges(*starts, *ends, axes ? &*axes : nullptr, steps ? &*steps : nullptr,
                            x.shape.rank()));
    for (const SliceRange& r : ranges) dims[r.axis] = SlicedDim(dims[r.axis], r);
  } else if (axes) {
    EVOQ_ASSIGN(const std::vector<int> normal, NormalizeAxes(*axes, x.shape.rank()));
    for (int axis : normal) dims[axis] = Dim();
  } else {
    dims.assign(dims.size(), Dim());
  }
  return std::vector<TensorType>{TensorType(x.dtype, Shape(std::move(dims)))};
}

}  // namespace

extern const OpDef kSlice = {
    .name = "Slice",
    .min_inputs = 3,
    .max_inputs = 5,
    .quant = QuantTrait::kMove,
    .infer = Infer,
    .roles = {Role::kData, Role::kParameter, Role::kParameter, Role::kParameter, Role::kParameter},
    .axes = AxisUse::kFirstListed};

}  // namespace evoq
