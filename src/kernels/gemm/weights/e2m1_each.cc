// float4e2m1 weights, two to a byte as those of int4: a table of 16 values.
#include "kernels/gemm/weights/packed.inl.h"

namespace evoq::EVOQ_ISA {
namespace {

struct E2m1 : LookedUp<4> {
  static constexpr bool kZeros = false;

  EVOQ_ALWAYS_INLINE static Panel Numbers(bool) {
    alignas(64) static constexpr float kValues[16] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                                      -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    return LoadAll(kValues);
  }
};

}  // namespace

extern const WeightFormat kWeightsE2m1;
const WeightFormat kWeightsE2m1 = {
    .name = "float4e2m1",
    .layout = "k2n16-matmul-f4",
    .formula =
        "[N/16][K/2][16] bytes: the bits of b[k, n] at (n/16, k/2, n%16), lowest for even k, "
        "highest for odd k; K and N filled up with zeros",
    .bits = 4,
    .dtypes = {DType::kFloat4E2M1},
    .block = 2,
    .zeros = WeightZeros::kNone,
    .panel_bytes = PanelBytes<E2m1>,
    .pack = PackBits<4>,
    .unpack = UnpackBits<4>,
    .real = Real<E2m1>,
    .dot = Dot<E2m1>,
};

}  // namespace evoq::EVOQ_ISA
