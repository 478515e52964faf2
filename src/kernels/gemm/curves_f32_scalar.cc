#define EVOQ_ISA scalar
#include "kernels/gemm/curves_f32.h"
#include "kernels/math/math.inl.h"

namespace evoq::scalar {
namespace {

template <float (*kFunction)(float)>
void Loop(float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = kFunction(y[i]);
}

}  // namespace

extern const CurveTable kCurveTable;
const CurveTable kCurveTable = {
    .hard_swish = Loop<HardSwishInline>,
    .silu = Loop<SiluInline>,
    .sigmoid = Loop<SigmoidInline>,
    .tanh = Loop<TanhInline>,
    .gelu = Loop<GeluInline>,
};

}  // namespace evoq::scalar
