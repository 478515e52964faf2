// Operators that place values: ONE_HOT, SCATTER_ND, segment sums, DYNAMIC_UPDATE_SLICE, diagonals,
// and those that change the order: REVERSE_SEQUENCE, UNIQUE.
#include <algorithm>

#include "base/budget_scope.h"
#include "tflite/translator.h"

namespace evoq::tflite {
namespace {

ValueId Flat(Translator& to, ValueId value) {
  return to.Apply("Reshape", {value, to.Int64Constant({1})});
}

// Indices out of 0 to depth - 1 choose nothing; ONNX counts negative ones from the end.
Status OneHot(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::OneHotOptions>());
  EVOQ_ASSIGN(const int64_t axis, to.AxisOf(o->axis(), to.input(0).rank() + 1));
  const ValueId depth = to.Apply("Reshape", {to.Int64s(1), to.Int64Constant({})});
  const ValueId indices = to.Int64s(0);
  const ValueId below = to.Apply("Less", {indices, to.Constant(Tensor::Scalar<int64_t>(0))});
  const ValueId values =
      to.Apply("Concat", {Flat(to, to.Real(3)), Flat(to, to.Real(2))}, Attrs::Of("axis", 0));
  return to.Set(0, to.Apply("OneHot", {to.Apply("Where", {below, depth, indices}), depth, values},
                            Attrs::Of("axis", axis)));
}

// Zeros of a shape, with the updates added at their places.
ValueId Scattered(Translator& to, ValueId shape, ValueId indices, ValueId updates) {
  const ValueId zeros =
      to.Apply("ConstantOfShape", {shape}, Attrs::Of("value", ZeroOf(to.output(0), Shape{1})));
  return to.Apply("ScatterND", {zeros, indices, updates}, Attrs::Of("reduction", "add"));
}

Status ScatterNd(Translator& to) {
  return to.Set(0, Scattered(to, to.Int64s(2), to.Int64s(0), to.Real(1)));
}

// Row ids[i] of the result is the sum of such rows i; there are `count` rows.
Status SetSegmentSum(Translator& to, ValueId count) {
  EVOQ_TRY(to.CheckRank(1, 1));
  const ValueId data = to.Real(0);
  const ValueId rest = to.Apply(
      "Slice", {to.Apply("Shape", {data}), to.Int64Constant({1}), to.Int64Constant({INT64_MAX})});
  const ValueId shape = to.Apply("Concat", {count, rest}, Attrs::Of("axis", 0));
  const ValueId rows = to.Apply("Unsqueeze", {to.Int64s(1), to.Int64Constant({-1})});
  return to.Set(0, Scattered(to, shape, rows, data));
}

// As many rows as the largest number, which is the last one, says.
Status SegmentSum(Translator& to) {
  const ValueId last = to.Apply("ReduceMax", {to.Int64s(1), to.Int64Constant({0})});
  return SetSegmentSum(to, to.Apply("Add", {last, to.Int64Constant({1})}));
}
Status UnsortedSegmentSum(Translator& to) { return SetSegmentSum(to, Flat(to, to.Int64s(2))); }

// `update` at the places that begin at `starts`, moved so far that it lies within x. Of each axis
// where it is shorter than x, the place in the update and whether it is there.
Status DynamicUpdateSlice(Translator& to) {
  const std::vector<int64_t>&sizes = to.input(0).sizes, &part = to.input(1).sizes;
  if (sizes.size() != part.size())
    return InvalidInput("an update of rank {} for rank {}", part.size(), sizes.size());
  const ValueId starts = to.Int64s(2), zero = to.Constant(Tensor::Scalar<int64_t>(0));
  ValueId y = to.Real(1), all;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    const int64_t size = sizes[axis], own = part[axis];
    if (size < 0 || own < 0) return Unsupported("open sizes");
    if (own == size) continue;
    if (own < 1 || own > size)
      return InvalidInput("an update of size {} on axis {} of size {}", own, axis, size);
    EVOQ_TRY(SpendMemory(size * 8, "places"));
    std::vector<int64_t> numbers(static_cast<size_t>(size));
    for (int64_t i = 0; i < size; ++i) numbers[static_cast<size_t>(i)] = i;
    const auto scalar = [&](int64_t n) { return to.Constant(Tensor::Scalar(n)); };
    const ValueId start =
        to.Apply("Clip", {to.Apply("Gather", {starts, scalar(static_cast<int64_t>(axis))}), zero,
                          scalar(size - own)});
    const ValueId place = to.Apply("Sub", {to.Int64Constant(numbers), start});
    const ValueId bounded = to.Apply("Clip", {place, zero, scalar(own - 1)});
    y = to.Apply("Gather", {y, bounded}, Attrs::Of("axis", static_cast<int64_t>(axis)));
    std::vector<int64_t> shape(sizes.size(), 1);
    shape[axis] = size;
    const ValueId there =
        to.Apply("Reshape", {to.Apply("Equal", {place, bounded}), to.Int64Constant(shape)});
    all = all.valid() ? to.Apply("And", {all, there}) : there;
  }
  return to.Set(0, all.valid() ? to.Apply("Where", {all, y, to.Real(0)}) : y);
}

// True on the diagonal.
Result<ValueId> Diagonal(Translator& to, int64_t rows, int64_t columns) {
  if (rows < 0 || columns < 0) return Unsupported("open sizes");
  if (rows > INT32_MAX || columns > INT32_MAX)
    return InvalidInput("a matrix of {} rows of {}", rows, columns);
  EVOQ_TRY(SpendMemory(rows * columns, "diagonals"));
  Tensor eye = Tensor::Allocate(TensorType(DType::kBool, Shape{rows, columns}));
  for (int64_t i = 0; i < std::min(rows, columns); ++i)
    eye.mutable_data<bool>()[i * columns + i] = true;
  return to.Constant(std::move(eye));
}

Status MatrixDiag(Translator& to) {
  if (to.input(0).rank() < 1) return InvalidInput("input 0 has rank 0, expected at least 1");
  const int64_t size = to.input(0).sizes.back();
  EVOQ_ASSIGN(const ValueId eye, Diagonal(to, size, size));
  const ValueId x = to.Apply("Unsqueeze", {to.Real(0), to.Int64Constant({-1})});
  return to.Set(0, to.Apply("Where", {eye, x, to.Constant(ZeroOf(to.output(0), Shape()))}));
}

// Input 1 has an element for each row, or for each column where these are fewer.
Status MatrixSetDiag(Translator& to) {
  const std::vector<int64_t>& sizes = to.input(0).sizes;
  if (sizes.size() < 2)
    return InvalidInput("input 0 has rank {}, expected at least 2", sizes.size());
  const int64_t rows = sizes[sizes.size() - 2], columns = sizes.back();
  EVOQ_ASSIGN(const ValueId eye, Diagonal(to, rows, columns));
  const ValueId diagonal =
      to.Apply("Unsqueeze", {to.Real(1), to.Int64Constant({rows <= columns ? -1 : -2})});
  return to.Set(0, to.Apply("Where", {eye, diagonal, to.Real(0)}));
}

// ONNX has the axes 0 and 1 for batch and sequence: others are moved there and back.
Status ReverseSequence(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::ReverseSequenceOptions>());
  const int rank = to.input(0).rank();
  EVOQ_ASSIGN(const int64_t time, to.AxisOf(o->seq_dim(), rank));
  EVOQ_ASSIGN(const int64_t batch, to.AxisOf(o->batch_dim(), rank));
  if (time == batch) return InvalidInput("sequences and batch on axis {}", time);
  std::vector<int64_t> perm = {batch, time}, back(static_cast<size_t>(rank));
  for (int64_t d = 0; d < rank; ++d) {
    if (d != batch && d != time) perm.push_back(d);
  }
  for (size_t d = 0; d < perm.size(); ++d)
    back[static_cast<size_t>(perm[d])] = static_cast<int64_t>(d);
  Attrs attrs;
  attrs.Set("batch_axis", 0);
  attrs.Set("time_axis", 1);
  const ValueId y = to.Apply("ReverseSequence", {to.Transposed(to.Real(0), perm), to.Int64s(1)},
                             std::move(attrs));
  return to.Set(0, to.Transposed(y, back));
}

// In the order in which they occur, and the place of each element among them.
Status Unique(Translator& to) {
  const std::vector<ValueId> y = to.ApplyMany("Unique", {to.Real(0)}, 3, Attrs::Of("sorted", 0));
  EVOQ_TRY(to.Set(0, y[0]));
  return to.Set(1, to.Apply("Cast", {y[2]}, Attrs::Of("to", static_cast<int>(to.output(1).dtype))));
}

// The shape that two shapes broadcast to.
Status BroadcastArgs(Translator& to) {
  EVOQ_TRY(to.CheckRank(0, 1));
  EVOQ_TRY(to.CheckRank(1, 1));
  const int64_t ranks[] = {to.input(0).sizes[0], to.input(1).sizes[0]};
  if (ranks[0] < 0 || ranks[1] < 0) return Unsupported("shapes of open ranks");
  ValueId shapes[2];
  for (const size_t i : {0, 1}) {
    shapes[i] = to.Int64s(i);
    const int64_t less = ranks[1 - i] - ranks[i];
    if (less > 8) return InvalidInput("shapes of ranks {} and {}", ranks[0], ranks[1]);
    if (less > 0)
      shapes[i] = to.Apply(
          "Concat",
          {to.Int64Constant(std::vector<int64_t>(static_cast<size_t>(less), 1)), shapes[i]},
          Attrs::Of("axis", 0));
  }
  const ValueId single = to.Apply("Equal", {shapes[0], to.Int64Constant({1})});
  return to.Set(0, to.Apply("Cast", {to.Apply("Where", {single, shapes[1], shapes[0]})},
                            Attrs::Of("to", static_cast<int>(to.output(0).dtype))));
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

extern const OpRow kOneHot = Row("ONE_HOT", 85, 4, OneHot);
extern const OpRow kUnique = Row("UNIQUE", 103, 1, Unique, 2);
extern const OpRow kReverseSequence = Row("REVERSE_SEQUENCE", 112, 2, ReverseSequence);
extern const OpRow kMatrixDiag = Row("MATRIX_DIAG", 113, 1, MatrixDiag);
extern const OpRow kMatrixSetDiag = Row("MATRIX_SET_DIAG", 115, 2, MatrixSetDiag);
extern const OpRow kScatterNd = Row("SCATTER_ND", 122, 3, ScatterNd);
extern const OpRow kSegmentSum = Row("SEGMENT_SUM", 125, 2, SegmentSum);
extern const OpRow kBroadcastArgs = Row("BROADCAST_ARGS", 145, 2, BroadcastArgs);
extern const OpRow kDynamicUpdateSlice = Row("DYNAMIC_UPDATE_SLICE", 151, 3, DynamicUpdateSlice);
extern const OpRow kUnsortedSegmentSum = Row("UNSORTED_SEGMENT_SUM", 155, 3, UnsortedSegmentSum);

}  // namespace evoq::tflite
