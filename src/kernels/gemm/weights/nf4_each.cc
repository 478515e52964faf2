// NF4 weights, two to a byte as those of int4: a table of 16 values.
#include "kernels/gemm/weights/packed.inl.h"
#include "tensor/normal_float.h"

namespace evoq::EVOQ_ISA {
namespace {

struct Nf4 : LookedUp<4> {
  static constexpr bool kZeros = false;

  EVOQ_ALWAYS_INLINE static Panel Numbers(bool) { return LoadAll(kNormalFloat4Values); }
};

}  // namespace

extern const WeightFormat kWeightsNf4;
const WeightFormat kWeightsNf4 = {
    .name = "nf4",
    .layout = "k2n16-matmul-nf4",
    .formula =
        "[N/16][K/2][16] bytes: the place of b[k, n] in the table at (n/16, k/2, n%16), in the low "
        "4 bits for even k, the high ones for odd k; K and N filled up with zero bits",
    .bits = 4,
    .dtypes = {kNormalFloat4},
    .block = 2,
    .zeros = WeightZeros::kNone,
    .panel_bytes = PanelBytes<Nf4>,
    .pack = PackBits<4>,
    .unpack = UnpackBits<4>,
    .real = Real<Nf4>,
    .dot = Dot<Nf4>,
};

}  // namespace evoq::EVOQ_ISA
