// ArgMax and ArgMin: the index of the largest or smallest element along an axis, the first one of
// equals by default. A NaN is better than any number and equals another NaN, as in numpy.
#include "ops/arithmetic.h"
#include "ops/op.h"
#include "ops/util.h"

namespace evoq {
namespace {

InferResult Infer(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t axis_attr, IntAttr(args.node, "axis", 0));
  EVOQ_ASSIGN(const int64_t keepdims, IntAttr(args.node, "keepdims", 1));
  EVOQ_TRY(IntAttr(args.node, "select_last_index", 0));
  const TensorType& x = args.inputs[0];
  if (!IsFloat(x.dtype) && !IsInteger(x.dtype))
    return InvalidInput("input 0 is {}, expected a number", x.ToString());
  if (!x.shape.ranked())
    return std::vector<TensorType>{TensorType(DType::kInt64, Shape::UnknownRank())};
  EVOQ_ASSIGN(const int axis, NormalizeAxis(axis_attr, x.shape.rank()));
  std::vector<Dim> dims = x.shape.dims();
  if (dims[axis] == Dim(0)) return InvalidInput("axis {} of {} is empty", axis, x.shape.ToString());
  if (keepdims != 0)
    dims[axis] = Dim(1);
  else
    dims.erase(dims.begin() + axis);
  return std::vector<TensorType>{TensorType(DType::kInt64, Shape(std::move(dims)))};
}

template <bool kMaximum>
EvalResult Evaluate(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args, Infer));
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const int axis, NormalizeAxis(args.node.attrs.Int("axis"), x.shape().rank()));
  const bool last = args.node.attrs.Int("select_last_index") != 0;
  const AxisSplit split = SplitAt(x.sizes(), axis);
  return DispatchNumber(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    EVOQ_ASSIGN(Tensor y, AllocateOutput(types[0]));
    int64_t* out = y.mutable_data<int64_t>();
    for (int64_t o = 0; o < split.outer; ++o) {
      for (int64_t i = 0; i < split.inner; ++i) {
        const T* in = x.data<T>() + o * split.size * split.inner + i;
        int64_t best = 0;
        for (int64_t k = 1; k < split.size; ++k) {
          const T value = in[k * split.inner], found = in[best * split.inner];
          const bool better =
              !IsNan(found) && (IsNan(value) || (kMaximum ? value > found : value < found));
          if (better || (last && (value == found || (IsNan(value) && IsNan(found))))) best = k;
        }
        out[o * split.inner + i] = best;
      }
    }
    return One(std::move(y));
  });
}

}  // namespace

extern const OpDef kArgMax = {.name = "ArgMax",
                              .infer = Infer,
                              .evaluate = Evaluate<true>,
                              .axes = AxisUse::kAttributeReduced};
extern const OpDef kArgMin = {.name = "ArgMin",
                              .infer = Infer,
                              .evaluate = Evaluate<false>,
                              .axes = AxisUse::kAttributeReduced};

}  // namespace evoq
