// Along an axis: CumSum, CumProd, ReverseSequence; and OneHot, Trilu.
#include <algorithm>
#include <cstring>

#include "ops/arithmetic.h"
#include "ops/indexing.h"
#include "ops/op.h"
#include "ops/util.h"

namespace evoq {
namespace {

// ---- CumSum(x, axis), CumProd(x, axis): y[i] = x[0] op ... op x[i]; exclusive: up to i - 1;
// reverse: from the end

InferResult InferCumulative(const InferArgs& args) {
  EVOQ_TRY(IntAttr(args.node, "exclusive", 0));
  EVOQ_TRY(IntAttr(args.node, "reverse", 0));
  const TensorType& x = args.inputs[0];
  if (!IsFloat(x.dtype) && !IsInteger(x.dtype))
    return InvalidInput("input 0 is {}, expected a number", x.ToString());
  EVOQ_TRY(CheckIndexType(args, 1));
  EVOQ_ASSIGN(const auto axis, ConstantInts(args, 1));
  if (axis && axis->size() != 1)
    return InvalidInput("input 1 (axis) has {} values, expected 1", axis->size());
  if (axis && x.shape.ranked()) EVOQ_TRY(NormalizeAxis((*axis)[0], x.shape.rank()));
  return SameAsInput0(args);
}

template <typename F, int kStart>
EvalResult EvaluateCumulative(const EvalArgs& args) {
  EVOQ_TRY(InferFromValues(args, InferCumulative));
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const std::vector<int64_t> axes, ToInt64s(args.inputs[1]));
  EVOQ_ASSIGN(const int axis, NormalizeAxis(axes[0], x.shape().rank()));
  const bool exclusive = args.node.attrs.Int("exclusive") != 0,
             reverse = args.node.attrs.Int("reverse") != 0;
  const AxisSplit split = SplitAt(x.sizes(), axis);
  return DispatchNumber(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    EVOQ_ASSIGN(Tensor y, AllocateOutput(x.type()));
    for (int64_t o = 0; o < split.outer; ++o) {
      for (int64_t i = 0; i < split.inner; ++i) {
        T total = kStart;
        for (int64_t step = 0; step < split.size; ++step) {
          const int64_t k = reverse ? split.size - 1 - step : step;
          const int64_t at = (o * split.size + k) * split.inner + i;
          const T before = total;
          total = F()(total, x.data<T>()[at]);
          y.mutable_data<T>()[at] = exclusive ? before : total;
        }
      }
    }
    return One(std::move(y));
  });
}

// ---- ReverseSequence(x, lengths): the first lengths[b] steps of each batch entry in reverse order

struct SequenceAxes {
  int batch, time;
};

Result<SequenceAxes> AxesOf(const Node& node, int rank) {
  EVOQ_ASSIGN(const int64_t batch, IntAttr(node, "batch_axis", 1));
  EVOQ_ASSIGN(const int64_t time, IntAttr(node, "time_axis", 0));
  if (rank < 2 || batch < 0 || batch > 1 || time != 1 - batch)
    return InvalidInput("batch_axis {} and time_axis {} of rank {}, expected 0 and 1 or 1 and 0",
                        batch, time, rank);
  return SequenceAxes{static_cast<int>(batch), static_cast<int>(time)};
}

InferResult InferReverse(const InferArgs& args) {
  EVOQ_TRY(CheckIndexType(args, 1));
  EVOQ_TRY(CheckRank(args, 1, 1));
  const Shape& x = args.inputs[0].shape;
  if (!x.ranked()) return SameAsInput0(args);
  EVOQ_ASSIGN(const SequenceAxes axes, AxesOf(args.node, x.rank()));
  const Shape& lengths = args.inputs[1].shape;
  if (lengths.is_static() && x[axes.batch].known() && lengths[0].value != x[axes.batch].value)
    return InvalidInput("{} lengths for a batch of {}", lengths[0].value, x[axes.batch].value);
  return SameAsInput0(args);
}

EvalResult EvaluateReverse(const EvalArgs& args) {
  EVOQ_TRY(InferFromValues(args, InferReverse));
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(int64_t block, ElementBytes(x));
  EVOQ_ASSIGN(const SequenceAxes axes, AxesOf(args.node, x.shape().rank()));
  EVOQ_ASSIGN(const std::vector<int64_t> lengths, ToInt64s(args.inputs[1]));
  const std::vector<int64_t> sizes = x.sizes();
  for (size_t i = 2; i < sizes.size(); ++i) block *= sizes[i];
  EVOQ_ASSIGN(Tensor y, AllocateOutput(x.type()));
  for (int64_t b = 0; b < sizes[axes.batch]; ++b) {
    if (lengths[b] < 0 || lengths[b] > sizes[axes.time])
      return InvalidInput("length {} of batch entry {} is outside [0, {}]", lengths[b], b,
                          sizes[axes.time]);
    const auto offset = [&](int64_t t) {
      return (axes.batch == 0 ? b * sizes[1] + t : t * sizes[1] + b) * block;
    };
    for (int64_t t = 0; t < sizes[axes.time]; ++t) {
      const int64_t from = t < lengths[b] ? lengths[b] - 1 - t : t;
      std::memcpy(y.mutable_raw() + offset(t), x.raw() + offset(from), static_cast<size_t>(block));
    }
  }
  return One(std::move(y));
}

// ---- OneHot(indices, depth, values = [off, on]): a new axis of `depth` with `on` at the index; an
// index outside
// [-depth, depth) gives all `off`

// One value of a numeric tensor as int64, truncated and cut to +-2^62.
Result<std::vector<int64_t>> Truncated(const Tensor& x) {
  if (!IsFloat(x.dtype())) return ToInt64s(x);
  EVOQ_ASSIGN(const Tensor real, ToFloat32(x));
  std::vector<int64_t> values;
  for (float v : real.values<float>())
    values.push_back(v == v ? static_cast<int64_t>(std::clamp(v, -0x1p62f, 0x1p62f)) : 0);
  return values;
}

InferResult InferOneHot(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t axis_attr, IntAttr(args.node, "axis", -1));
  EVOQ_TRY(CheckRank(args, 2, 1));
  if (args.inputs[2].shape.is_static() && args.inputs[2].shape.elements() != 2)
    return InvalidInput("input 2 (values) is {}, expected two values", args.inputs[2].ToString());
  Dim depth;
  if (args.constant(1)) {
    EVOQ_ASSIGN(const std::vector<int64_t> values, Truncated(*args.constant(1)));
    if (values.size() != 1 || values[0] < 0) return InvalidInput("input 1 (depth) is not one size");
    depth = Dim(values[0]);
  }
  const Shape& indices = args.inputs[0].shape;
  if (!indices.ranked())
    return std::vector<TensorType>{TensorType(args.inputs[2].dtype, Shape::UnknownRank())};
  EVOQ_ASSIGN(const int axis, NormalizeAxis(axis_attr, indices.rank() + 1));
  std::vector<Dim> dims = indices.dims();
  dims.insert(dims.begin() + axis, depth);
  return std::vector<TensorType>{TensorType(args.inputs[2].dtype, Shape(std::move(dims)))};
}

EvalResult EvaluateOneHot(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args, InferOneHot));
  EVOQ_ASSIGN(const std::vector<int64_t> indices, Truncated(args.inputs[0]));
  const Tensor& values = args.inputs[2];
  EVOQ_ASSIGN(const int axis,
              NormalizeAxis(args.node.attrs.Int("axis", -1), types[0].shape.rank()));
  return DispatchWidth(values.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    EVOQ_ASSIGN(Tensor y, AllocateGrown(types[0]));
    const AxisSplit split = SplitAt(y.sizes(), axis);
    T* out = y.mutable_data<T>();
    std::fill(out, out + y.elements(), values.data<T>()[0]);
    for (int64_t i = 0; i < static_cast<int64_t>(indices.size()) && split.size > 0; ++i) {
      const int64_t index = indices[i] < 0 ? indices[i] + split.size : indices[i];
      if (index < 0 || index >= split.size) continue;
      out[(i / split.inner * split.size + index) * split.inner + i % split.inner] =
          values.data<T>()[1];
    }
    return One(std::move(y));
  });
}

// ---- Trilu(x, k?): the upper (or lower) triangle of the last two axes, counted from diagonal k; 0
// elsewhere

InferResult InferTrilu(const InferArgs& args) {
  EVOQ_TRY(IntAttr(args.node, "upper", 1));
  EVOQ_ASSIGN(const auto k, ConstantInts(args, 1));
  if (k && k->size() != 1) return InvalidInput("input 1 (k) has {} values, expected 1", k->size());
  if (args.inputs[0].shape.ranked() && args.inputs[0].shape.rank() < 2)
    return InvalidInput("input 0 has rank {}, expected 2 or more", args.inputs[0].shape.rank());
  return SameAsInput0(args);
}

EvalResult EvaluateTrilu(const EvalArgs& args) {
  EVOQ_TRY(InferFromValues(args, InferTrilu));
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const int64_t width, ElementBytes(x));
  int64_t k = 0;
  const std::vector<int64_t> sizes = x.sizes();
  const int64_t columns = sizes.back(), rows = sizes[sizes.size() - 2];
  if (args.has(1)) {
    EVOQ_ASSIGN(const std::vector<int64_t> values, ToInt64s(args.inputs[1]));
    k = std::clamp(values[0], -rows - 1, columns + 1);
  }
  const bool upper = args.node.attrs.Int("upper", 1) != 0;
  EVOQ_ASSIGN(Tensor y, AllocateOutput(x.type()));
  for (int64_t line = 0; columns > 0 && line < x.elements() / columns; ++line) {
    // The diagonal meets this row at column `split`: upper keeps [split, columns), lower keeps [0,
    // split].
    const int64_t split = line % rows + k;
    const int64_t begin = upper ? std::clamp<int64_t>(split, 0, columns) : 0;
    const int64_t end = upper ? columns : std::clamp<int64_t>(split + 1, 0, columns);
    const int64_t at = (line * columns + begin) * width;
    std::memcpy(y.mutable_raw() + at, x.raw() + at, static_cast<size_t>((end - begin) * width));
  }
  return One(std::move(y));
}

}  // namespace

extern const OpDef kCumSum = {.name = "CumSum",
                              .min_inputs = 2,
                              .max_inputs = 2,
                              .infer = InferCumulative,
                              .evaluate = EvaluateCumulative<AddFn, 0>};
extern const OpDef kCumProd = {.name = "CumProd",
                               .min_inputs = 2,
                               .max_inputs = 2,
                               .infer = InferCumulative,
                               .evaluate = EvaluateCumulative<MulFn, 1>};
extern const OpDef kReverseSequence = {.name = "ReverseSequence",
                                       .min_inputs = 2,
                                       .max_inputs = 2,
                                       .quant = QuantTrait::kMove,
                                       .infer = InferReverse,
                                       .evaluate = EvaluateReverse};
extern const OpDef kOneHot = {.name = "OneHot",
                              .min_inputs = 3,
                              .max_inputs = 3,
                              .infer = InferOneHot,
                              .evaluate = EvaluateOneHot};
extern const OpDef kTrilu = {
    .name = "Trilu", .max_inputs = 2, .infer = InferTrilu, .evaluate = EvaluateTrilu};

}  // namespace evoq
