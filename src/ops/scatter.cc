// ScatterElements (and its old name Scatter) and ScatterND: a copy of the data with updates
// written, or combined by `reduction` (none, add, mul, max, min), at index positions. Updates are
// applied in index order.
#include <algorithm>

#include "ops/arithmetic.h"
#include "ops/indexing.h"
#include "ops/op.h"
#include "ops/util.h"

namespace evoq {
namespace {

enum class Reduction { kNone, kAdd, kMul, kMax, kMin };

Result<Reduction> ReductionOf(const Node& node) {
  EVOQ_ASSIGN(const std::string name, StringAttr(node, "reduction", "none"));
  if (name == "none") return Reduction::kNone;
  if (name == "add") return Reduction::kAdd;
  if (name == "mul") return Reduction::kMul;
  if (name == "max") return Reduction::kMax;
  if (name == "min") return Reduction::kMin;
  return InvalidInput("reduction is '{}', expected none, add, mul, max or min", name);
}

template <typename T>
T Reduced(Reduction reduction, T old, T update) {
  if constexpr (std::is_same_v<T, bool>) {
    switch (reduction) {
      case Reduction::kNone: return update;
      case Reduction::kAdd:
      case Reduction::kMax: return old || update;
      default: return old && update;
    }
  } else {
    switch (reduction) {
      case Reduction::kNone: return update;
      case Reduction::kAdd: return AddFn()(old, update);
      case Reduction::kMul: return MulFn()(old, update);
      case Reduction::kMax: return MaxFn()(old, update);
      case Reduction::kMin: return MinFn()(old, update);
    }
    return update;
  }
}

Status CheckInputs(const InferArgs& args) {
  EVOQ_TRY(ReductionOf(args.node));
  EVOQ_TRY(CheckIndexType(args, 1));
  return CheckDType(args, 2, std::array{args.inputs[0].dtype});
}

InferResult InferElements(const InferArgs& args) {
  EVOQ_TRY(CheckInputs(args));
  EVOQ_ASSIGN(const int64_t axis_attr, IntAttr(args.node, "axis", 0));
  const Shape &data = args.inputs[0].shape, &indices = args.inputs[1].shape,
              &updates = args.inputs[2].shape;
  if (data.ranked()) {
    EVOQ_ASSIGN(const int axis, NormalizeAxis(axis_attr, data.rank()));
    EVOQ_TRY(CheckElementIndices(data, indices, axis));
  }
  if (indices.is_static() && updates.is_static() && !(indices == updates))
    return InvalidInput("updates {} differ from indices {}", updates.ToString(),
                        indices.ToString());
  return SameAsInput0(args);
}

EvalResult EvaluateElements(const EvalArgs& args) {
  EVOQ_TRY(InferFromValues(args, InferElements));
  const Tensor &data = args.inputs[0], &updates = args.inputs[2];
  EVOQ_ASSIGN(const Reduction reduction, ReductionOf(args.node));
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

// indices [b..., depth] name blocks data[i_0, ..., i_depth-1]; updates are [b..., block...].
InferResult InferND(const InferArgs& args) {
  EVOQ_TRY(CheckInputs(args));
  const Shape &data = args.inputs[0].shape, &indices = args.inputs[1].shape,
              &updates = args.inputs[2].shape;
  if (!data.ranked() || !indices.ranked()) return SameAsInput0(args);
  if (data.rank() == 0 || indices.rank() == 0)
    return InvalidInput("has a scalar input, expected rank 1 or more");
  if (!data.is_static() || !indices.is_static() || !updates.is_static()) return SameAsInput0(args);
  const int64_t depth = indices[indices.rank() - 1].value;
  if (depth > data.rank())
    return InvalidInput("indices {} are deeper than the data {}", indices.ToString(),
                        data.ToString());
  std::vector<Dim> wanted(indices.dims().begin(), indices.dims().end() - 1);
  wanted.insert(wanted.end(), data.dims().begin() + depth, data.dims().end());
  if (!(updates == Shape(wanted)))
    return InvalidInput("updates are {}, expected {}", updates.ToString(),
                        Shape(wanted).ToString());
  return SameAsInput0(args);
}

EvalResult EvaluateND(const EvalArgs& args) {
  EVOQ_TRY(InferFromValues(args, InferND));
  const Tensor &data = args.inputs[0], &updates = args.inputs[2];
  EVOQ_ASSIGN(const Reduction reduction, ReductionOf(args.node));
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
      for (int64_t i = 0; i < block; ++i)
        out[to * block + i] = Reduced(reduction, out[to * block + i], update[i]);
    }
    return One(std::move(y));
  });
}

}  // namespace

extern const OpDef kScatter = {.name = "Scatter",
                               .min_inputs = 3,
                               .max_inputs = 3,
                               .infer = InferElements,
                               .evaluate = EvaluateElements};
extern const OpDef kScatterElements = {.name = "ScatterElements",
                                       .min_inputs = 3,
                                       .max_inputs = 3,
                                       .infer = InferElements,
                                       .evaluate = EvaluateElements};
extern const OpDef kScatterND = {.name = "ScatterND",
                                 .min_inputs = 3,
                                 .max_inputs = 3,
                                 .infer = InferND,
                                 .evaluate = EvaluateND};

}  // namespace evoq
