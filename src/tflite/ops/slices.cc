// Operators that pick elements: SLICE, STRIDED_SLICE, REVERSE_V2, GATHER, GATHER_ND, ...
#include "tflite/translator.h"

namespace evoq::tflite {
namespace {

// size -1 is all that is left.
Status Slice(Translator& to) {
  ValueId ends;
  if (to.is_constant(1) && to.is_constant(2)) {
    EVOQ_ASSIGN(const std::vector<int64_t> begin, to.Ints(1));
    EVOQ_ASSIGN(std::vector<int64_t> size, to.Ints(2));
    if (begin.size() != size.size())
      return InvalidInput("{} begins and {} sizes", begin.size(), size.size());
    for (size_t i = 0; i < size.size(); ++i) {
      if (begin[i] < 0 || size[i] < -1 || begin[i] > INT32_MAX || size[i] > INT32_MAX)
        return InvalidInput("{} elements from {} on axis {}", size[i], begin[i], i);
      size[i] = size[i] == -1 ? INT64_MAX : begin[i] + size[i];
    }
    ends = to.Int64Constant(size);
  } else {
    const ValueId begin = to.Int64s(1), size = to.Int64s(2);
    const ValueId all = to.Apply("Equal", {size, to.Int64Constant({-1})});
    ends = to.Apply("Where", {all, to.Int64Constant({INT64_MAX}), to.Apply("Add", {begin, size})});
  }
  return to.Set(0, to.Apply("Slice", {to.Real(0), to.Int64s(1), ends}));
}

// One axis of a strided slice: bit i of each mask is about entry i.
struct StridedAxes {
  std::vector<int64_t> starts, ends, axes, steps, added, dropped;
};

Result<StridedAxes> StridedAxesOf(Translator& to, const fb::StridedSliceOptions& o) {
  EVOQ_ASSIGN(const std::vector<int64_t> begin, to.Ints(1));
  EVOQ_ASSIGN(const std::vector<int64_t> end, to.Ints(2));
  EVOQ_ASSIGN(const std::vector<int64_t> stride, to.Ints(3));
  if (begin.size() != end.size() || begin.size() != stride.size() || begin.size() > 16)
    return InvalidInput("{} begins, {} ends and {} strides", begin.size(), end.size(),
                        stride.size());
  const auto bit = [](int mask, size_t i) { return (mask >> i & 1) != 0; };
  int64_t named = 0;
  for (size_t i = 0; i < begin.size(); ++i)
    named += !bit(o.new_axis_mask(), i) && !bit(o.ellipsis_mask(), i);
  StridedAxes s;
  int64_t axis = 0, out = 0;  // of the input; of the result with new axes
  for (size_t i = 0; i < begin.size(); ++i) {
    if (bit(o.ellipsis_mask(), i)) {
      const int64_t skipped = to.input(0).rank() - named;
      if (skipped < 0) return InvalidInput("{} entries for rank {}", named, to.input(0).rank());
      axis += skipped;
      out += skipped;
      continue;
    }
    if (bit(o.new_axis_mask(), i)) {
      s.added.push_back(out++);
      continue;
    }
    if (stride[i] == 0 || stride[i] < -INT32_MAX || stride[i] > INT32_MAX)
      return InvalidInput("stride {}", stride[i]);
    const bool drops = bit(o.shrink_axis_mask(), i), forward = stride[i] > 0 || drops;
    int64_t last = end[i];
    if (o.offset()) last += begin[i];  // ends count from the begin
    s.axes.push_back(axis++);
    s.steps.push_back(drops ? 1 : stride[i]);
    s.starts.push_back(bit(o.begin_mask(), i) && !drops ? (forward ? 0 : INT64_MAX) : begin[i]);
    s.ends.push_back(drops                  ? (begin[i] == -1 ? INT64_MAX : begin[i] + 1)
                     : bit(o.end_mask(), i) ? (forward ? INT64_MAX : INT64_MIN)
                                            : last);
    if (drops) s.dropped.push_back(out);
    ++out;
  }
  return s;
}

// Bounds that are computed, but for those that the mask says to leave at the end of the axis.
ValueId Bounds(Translator& to, size_t i, int mask, const std::vector<int64_t>& strides,
               int64_t forward, int64_t backward) {
  const auto entries = static_cast<int64_t>(strides.size());
  Tensor masked = Tensor::Allocate(TensorType(DType::kBool, Shape{entries}));
  std::vector<int64_t> ends;
  for (size_t k = 0; k < strides.size(); ++k) {
    masked.mutable_data<bool>()[k] = (mask >> k & 1) != 0;
    ends.push_back(strides[k] > 0 ? forward : backward);
  }
  return to.Apply("Where", {to.Constant(std::move(masked)), to.Int64Constant(ends), to.Int64s(i)});
}

Status ComputedSlice(Translator& to, const fb::StridedSliceOptions& o) {
  EVOQ_ASSIGN(const std::vector<int64_t> strides, to.Ints(3));
  if (o.ellipsis_mask() != 0 || o.new_axis_mask() != 0 || o.shrink_axis_mask() != 0 || o.offset())
    return Unsupported("computed bounds with an ellipsis, new, dropped or relative axes");
  if (strides.size() > static_cast<size_t>(to.input(0).rank()))
    return InvalidInput("{} strides for rank {}", strides.size(), to.input(0).rank());
  const std::vector<int64_t> entries = {static_cast<int64_t>(strides.size())};
  if (to.input(1).sizes != entries || to.input(2).sizes != entries)
    return InvalidInput("begins {} and ends {} for {} strides", Shape(to.input(1).sizes).ToString(),
                        Shape(to.input(2).sizes).ToString(), strides.size());
  std::vector<int64_t> axes(strides.size());
  for (size_t k = 0; k < axes.size(); ++k) {
    axes[k] = static_cast<int64_t>(k);
    if (strides[k] == 0 || strides[k] < -INT32_MAX || strides[k] > INT32_MAX)
      return InvalidInput("stride {}", strides[k]);
  }
  const ValueId begins = Bounds(to, 1, o.begin_mask(), strides, 0, INT64_MAX),
                ends = Bounds(to, 2, o.end_mask(), strides, INT64_MAX, INT64_MIN);
  return to.Set(0, to.Apply("Slice", {to.Real(0), begins, ends, to.Int64Constant(axes),
                                      to.Int64Constant(strides)}));
}

Status StridedSlice(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::StridedSliceOptions>());
  if (!to.is_constant(1) || !to.is_constant(2)) return ComputedSlice(to, *o);
  EVOQ_ASSIGN(const StridedAxes s, StridedAxesOf(to, *o));
  ValueId y = to.Apply("Slice", {to.Real(0), to.Int64Constant(s.starts), to.Int64Constant(s.ends),
                                 to.Int64Constant(s.axes), to.Int64Constant(s.steps)});
  if (!s.added.empty()) y = to.Apply("Unsqueeze", {y, to.Int64Constant(s.added)});
  if (!s.dropped.empty()) y = to.Apply("Squeeze", {y, to.Int64Constant(s.dropped)});
  return to.Set(0, y);
}

Status Reverse(Translator& to) {
  EVOQ_ASSIGN(const std::vector<int64_t> axes, to.Ints(1));
  const std::vector<int64_t> starts(axes.size(), INT64_MAX), ends(axes.size(), INT64_MIN),
      steps(axes.size(), -1);
  return to.Set(0, to.Apply("Slice", {to.Real(0), to.Int64Constant(starts), to.Int64Constant(ends),
                                      to.Int64Constant(axes), to.Int64Constant(steps)}));
}

// The first `given` axes of the values and of the indices are the same: with the axis right behind
// them this is GatherND; what lies between is moved behind the axis, and back in the result.
Status BatchGather(Translator& to, int64_t axis, int given) {
  const int rank = to.input(0).rank(), index_rank = to.input(1).rank();
  const int64_t batch = given < 0 ? given + index_rank : given;
  if (batch < 0 || batch > index_rank || batch > axis)
    return InvalidInput("batch dimensions {} for axis {} and indices of rank {}", given, axis,
                        index_rank);
  std::vector<int64_t> in, out;
  for (int64_t d = 0; d < rank; ++d)
    in.push_back(d < batch || d > axis ? d : d == batch ? axis : d - 1);
  const int64_t picked = index_rank - batch, between = axis - batch;
  for (int64_t d = 0; d < rank - 1 + picked; ++d)
    out.push_back(d < batch || d >= axis + picked ? d : d < axis ? d + picked : d - between);
  ValueId x = to.Real(0);
  if (between > 0) x = to.Transposed(x, in);
  const ValueId indices = to.Apply("Unsqueeze", {to.Int64s(1), to.Int64Constant({-1})});
  ValueId y = to.Apply("GatherND", {x, indices}, Attrs::Of("batch_dims", batch));
  if (between > 0) y = to.Transposed(y, out);
  return to.Set(0, y);
}

Status Gather(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::GatherOptions>());
  EVOQ_ASSIGN(const int64_t axis, to.AxisOf(o->axis(), to.input(0).rank()));
  if (o->batch_dims() != 0) return BatchGather(to, axis, o->batch_dims());
  return to.Set(0, to.Apply("Gather", {to.Real(0), to.Int64s(1)}, Attrs::Of("axis", axis)));
}

// Rows of a table (input 1) by number.
Status EmbeddingLookup(Translator& to) {
  return to.Set(0, to.Apply("Gather", {to.Real(1), to.Int64s(0)}, Attrs::Of("axis", 0)));
}

Status GatherNd(Translator& to) {
  return to.Set(0, to.Apply("GatherND", {to.Real(0), to.Int64s(1)}));
}

Status TopK(Translator& to) {
  const ValueId k = to.Apply("Reshape", {to.Int64s(1), to.Int64Constant({1})});
  const std::vector<ValueId> y = to.ApplyMany("TopK", {to.Real(0), k}, 2);
  EVOQ_TRY(to.Set(0, y[0]));
  return to.Set(1, to.Apply("Cast", {y[1]}, Attrs::Of("to", static_cast<int>(to.output(1).dtype))));
}

constexpr OpRow Row(const char* name, int number, int inputs, Status (*translate)(Translator&),
                    int outputs = 1) {
  return {.name = name,
          .number = number,
          .least_inputs = inputs,
          .most_inputs = inputs,
          .outputs = outputs,
          .translate = translate};
}

}  // namespace

extern const OpRow kEmbeddingLookup = Row("EMBEDDING_LOOKUP", 7, 2, EmbeddingLookup);
extern const OpRow kGather = Row("GATHER", 36, 2, Gather);
extern const OpRow kStridedSlice = {.name = "STRIDED_SLICE",
                                    .number = 45,
                                    .least_inputs = 4,
                                    .most_inputs = 4,
                                    .translate = StridedSlice,
                                    .sizes = SizesOfStridedSlice};
extern const OpRow kTopK = Row("TOPK_V2", 48, 2, TopK, 2);
extern const OpRow kSlice = Row("SLICE", 65, 3, Slice);
extern const OpRow kReverse = Row("REVERSE_V2", 105, 2, Reverse);
extern const OpRow kGatherNd = Row("GATHER_ND", 107, 2, GatherNd);

}  // namespace evoq::tflite
