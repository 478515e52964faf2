// int2 and uint2 weights, four to a byte: k in the lowest bits, k + 1 in the next ones.
#include "kernels/gemm/weights/packed.inl.h"

namespace evoq::EVOQ_ISA {
namespace {

struct Int2 : LookedUp<2> {
  static constexpr bool kZeros = true;

  EVOQ_ALWAYS_INLINE static Panel Numbers(bool is_signed) {
    // The table's index has four bits, of which two count.
    alignas(64) static constexpr float kSigned[16] = {0, 1, -2, -1, 0, 1, -2, -1,
                                                      0, 1, -2, -1, 0, 1, -2, -1},
                                       kUnsigned[16] = {0, 1, 2, 3, 0, 1, 2, 3,
                                                        0, 1, 2, 3, 0, 1, 2, 3};
    return LoadAll(is_signed ? kSigned : kUnsigned);
  }
};

}  // namespace

extern const WeightFormat kWeightsInt2;
const WeightFormat kWeightsInt2 = {
    .name = "int2",
    .layout = "k4n16-matmul-w2",
    .formula =
        "[N/16][K/4][16] bytes: b[k, n] at (n/16, k/4, n%16), in its two bits from 2 (k%4) on; K "
        "and N filled up with zeros",
    .bits = 2,
    .dtypes = {DType::kInt2, DType::kUint2},
    .block = 4,
    .zeros = WeightZeros::kBlocks,
    .panel_bytes = PanelBytes<Int2>,
    .pack = PackBits<2>,
    .unpack = UnpackBits<2>,
    .real = Real<Int2>,
    .dot = Dot<Int2>,
};

}  // namespace evoq::EVOQ_ISA
