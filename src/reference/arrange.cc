// Along an axis: CumSum, CumProd, ReverseSequence; and OneHot, Trilu.
#include "ops/arrange.h"

#include <algorithm>
#include <cstring>

#include "reference/arithmetic.h"
#include "reference/definition.h"
#include "reference/indexing.h"
#include "reference/util.h"

namespace evoq {
namespace {

// ---- CumSum(x, axis), CumProd(x, axis): y[i] = x[0] op ... op x[i]; exclusive: up to i - 1;
// reverse: from the end

template <typename F, int kStart>
EvalResult EvaluateCumulative(const EvalArgs& args) {
  EVOQ_TRY(InferFromValues(args));
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

EvalResult EvaluateReverse(const EvalArgs& args) {
  EVOQ_TRY(InferFromValues(args));
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(int64_t block, ElementBytes(x));
  EVOQ_ASSIGN(const SequenceAxes axes, SequenceAxesOf(args.node, x.shape().rank()));
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

EvalResult EvaluateOneHot(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args));
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

EvalResult EvaluateTrilu(const EvalArgs& args) {
  EVOQ_TRY(InferFromValues(args));
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

namespace reference {

extern const Definition kCumSum = {.name = "CumSum", .evaluate = EvaluateCumulative<AddFn, 0>};
extern const Definition kCumProd = {.name = "CumProd", .evaluate = EvaluateCumulative<MulFn, 1>};
extern const Definition kReverseSequence = {.name = "ReverseSequence", .evaluate = EvaluateReverse};
extern const Definition kOneHot = {.name = "OneHot", .evaluate = EvaluateOneHot};
extern const Definition kTrilu = {.name = "Trilu", .evaluate = EvaluateTrilu};

}  // namespace reference
}  // namespace evoq
