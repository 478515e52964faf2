// A 6 x 16 tile: 24 accumulators, the panel's four vectors and one element of a of the 32
// registers.
#include "kernels/gemm/gemm_float_neon.inl.h"

namespace evoq {
namespace {

struct Float32 {
  using Vector = float32x4_t;
  static Vector Load(const float* p) { return vld1q_f32(p); }
  static Vector Broadcast(const float* p) { return vld1q_dup_f32(p); }
  static float32x4_t MulAdd(float32x4_t sum, Vector x, Vector w) { return vfmaq_f32(sum, x, w); }
};

}  // namespace

const GemmKernels kGemmKernelsF32Neon = NeonKernels<Float32>("neon", 6);

}  // namespace evoq
