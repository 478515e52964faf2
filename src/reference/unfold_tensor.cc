// com.microsoft::UnfoldTensor: y[.., i, .., k] = x[.., i * step + k, ..], k being a new last axis.
#include "reference/definition.h"
#include "reference/util.h"

namespace evoq {
namespace {

EvalResult Evaluate(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const int axis,
              NormalizeAxis(args.node.attrs.Int("dim", -1), static_cast<int>(x.sizes().size())));
  const int64_t step = args.node.attrs.Int("step", 1);
  EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(x.dtype(), args.output_types[0].shape)));
  const AxisSplit in = SplitAt(x.sizes(), axis), out = SplitAt(y.sizes(), axis);
  const int64_t size = y.sizes().back(), inner = in.inner;
  return DispatchWidth(x.dtype(), [&](auto zero) -> EvalResult {
    using T = decltype(zero);
    const T* from = reinterpret_cast<const T*>(x.raw());
    T* to = reinterpret_cast<T*>(y.mutable_raw());
    for (int64_t o = 0; o < out.outer; ++o) {
      for (int64_t i = 0; i < out.size; ++i) {
        for (int64_t j = 0; j < inner; ++j) {
          for (int64_t k = 0; k < size; ++k) *to++ = from[(o * in.size + i * step + k) * inner + j];
        }
      }
    }
    return One(std::move(y));
  });
}

}  // namespace

namespace reference {

extern const Definition kUnfoldTensor = {
    .name = "UnfoldTensor", .domain = "com.microsoft", .evaluate = Evaluate};

}  // namespace reference
}  // namespace evoq
