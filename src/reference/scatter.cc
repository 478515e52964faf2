// ScatterElements (and its old name Scatter) and ScatterND: a copy of the data with updates
// written, or combined by `reduction` (none, add, mul, max, min), at index positions. Updates are
// applied in index order.
#include "ops/scatter.h"

#include <algorithm>
#include <type_traits>

#include "ops/indexing.h"
#include "reference/arithmetic.h"
#include "reference/definition.h"
#include "reference/indexing.h"
#include "reference/util.h"

namespace evoq {
namespace {

template <ScatterReduction kReduction>
using Fixed = std::integral_constant<ScatterReduction, kReduction>;

template <typename T>
T Reduced(ScatterReduction reduction, T old, T update) {
  if constexpr (std::is_same_v<T, bool>) {
    switch (reduction) {
      case ScatterReduction::kNone: return update;
      case ScatterReduction::kAdd:
      case ScatterReduction::kMax: return old || update;
      default: return old && update;
    }
  } else {
    switch (reduction) {
      case ScatterReduction::kNone: return update;
      case ScatterReduction::kAdd: return AddFn()(old, update);
      case ScatterReduction::kMul: return MulFn()(old, update);
      case ScatterReduction::kMax: return MaxFn()(old, update);
      case ScatterReduction::kMin: return MinFn()(old, update);
    }
    return update;
  }
}

// to[i] = the reduction of to[i] and update[i].
template <typename T>
void ReduceInto(ScatterReduction reduction, T* to, const T* update, int64_t count) {
  const auto each = [&](auto fixed) {
    for (int64_t i = 0; i < count; ++i) to[i] = Reduced(decltype(fixed)::value, to[i], update[i]);
  };
  switch (reduction) {
    case ScatterReduction::kNone: std::copy_n(update, count, to); break;
    case ScatterReduction::kAdd: each(Fixed<ScatterReduction::kAdd>()); break;
    case ScatterReduction::kMul: each(Fixed<ScatterReduction::kMul>()); break;
    case ScatterReduction::kMax: each(Fixed<ScatterReduction::kMax>()); break;
    case ScatterReduction::kMin: each(Fixed<ScatterReduction::kMin>()); break;
  }
}

EvalResult EvaluateElements(const EvalArgs& args) {
  EVOQ_TRY(InferFromValues(args));
  const Tensor &data = args.inputs[0], &updates = args.inputs[2];
  EVOQ_ASSIGN(const ScatterReduction reduction, ScatterReductionOf(args.node));
  EVOQ_ASSIGN(const int axis, NormalizeAxis(args.node.attrs.Int("axis"), data.shape().rank()));
  EVOQ_ASSIGN(const std::vector<int64_t> indices, IndicesInput(args, 1, data.shape()[axis].value));
  return DispatchElement(data.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    Tensor y = data.Clone();
    T* out = y.mutable_data<T>();
    std::vector<int64_t> walk = RowMajorStrides(data.sizes());
    const int64_t stride = walk[axis];
    walk[axis] = 0;
    ForEachIndex<1>(updates.sizes(), {walk}, [&](int64_t i, const auto& offset) {
      T& element = out[offset[0] + indices[i] * stride];
      element = Reduced(reduction, element, updates.data<T>()[i]);
    });
    return One(std::move(y));
  });
}

EvalResult EvaluateND(const EvalArgs& args) {
  EVOQ_TRY(InferFromValues(args));
  const Tensor &data = args.inputs[0], &updates = args.inputs[2];
  EVOQ_ASSIGN(const ScatterReduction reduction, ScatterReductionOf(args.node));
  EVOQ_ASSIGN(const std::vector<int64_t> indices, ToInt64s(args.inputs[1]));
  const std::vector<int64_t> sizes = data.sizes(), index_sizes = args.inputs[1].sizes();
  const int64_t depth = index_sizes.back();
  int64_t rows = 1, block = 1;
  for (size_t i = 0; i + 1 < index_sizes.size(); ++i) rows *= index_sizes[i];
  for (size_t i = depth; i < sizes.size(); ++i) block *= sizes[i];
  return DispatchElement(data.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    Tensor y = data.Clone();
    T* out = y.mutable_data<T>();
    const T* update = updates.data<T>();
    for (int64_t row = 0; row < rows; ++row, update += block) {
      int64_t to = 0;
      for (int64_t k = 0; k < depth; ++k) {
        EVOQ_ASSIGN(const int64_t index, NormalizeIndex(indices[row * depth + k], sizes[k]));
        to = to * sizes[k] + index;
      }
      ReduceInto(reduction, out + to * block, update, block);
    }
    return One(std::move(y));
  });
}

}  // namespace

namespace reference {

extern const Definition kScatter = {.name = "Scatter", .evaluate = EvaluateElements};
extern const Definition kScatterElements = {.name = "ScatterElements",
                                            .evaluate = EvaluateElements};
extern const Definition kScatterND = {.name = "ScatterND", .evaluate = EvaluateND};

}  // namespace reference
}  // namespace evoq
