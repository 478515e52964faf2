// A 5 x 16 tile of dot products of bfloat16 pairs: 20 accumulators, the panel's four vectors and
// the rows' pairs of the 32 registers. The unit adds the two products, then the sum, rounding to
// odd and without denormals (Arm's architecture manual, BFDOT; with FEAT_EBF16 the rounding may be
// set).
#include "kernels/gemm/gemm_float_neon.inl.h"

namespace evoq {
namespace {

// Pointers are to pairs.
struct Pairs {
  using Vector = bfloat16x8_t;
  static Vector Load(const float* p) {
    return vreinterpretq_bf16_u32(vld1q_u32(reinterpret_cast<const uint32_t*>(p)));
  }
  static Vector Broadcast(const float* p) {
    return vreinterpretq_bf16_u32(vld1q_dup_u32(reinterpret_cast<const uint32_t*>(p)));
  }
  static float32x4_t MulAdd(float32x4_t sum, Vector x, Vector w) { return vbfdotq_f32(sum, w, x); }
};

}  // namespace

const GemmKernels kGemmKernelsBf16Neon = NeonKernels<Pairs>("neon_bf16", 5, 2);

}  // namespace evoq
