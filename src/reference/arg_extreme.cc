// ArgMax and ArgMin: the index of the largest or smallest element along an axis, the first one of
// equals by default. A NaN is better than any number and equals another NaN, as in numpy.
#include "reference/arithmetic.h"
#include "reference/definition.h"
#include "reference/util.h"

namespace evoq {
namespace {

template <bool kMaximum>
EvalResult Evaluate(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args));
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

namespace reference {

extern const Definition kArgMax = {.name = "ArgMax", .evaluate = Evaluate<true>};
extern const Definition kArgMin = {.name = "ArgMin", .evaluate = Evaluate<false>};

}  // namespace reference
}  // namespace evoq
