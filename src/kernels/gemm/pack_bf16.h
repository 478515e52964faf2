// Packed bfloat16 weights, B of gemm_bf16.h: panels of 16 output columns, two neighbouring elements
// along K beside each other, the last panel and an odd K filled up with zeros. K runs over the taps
// in row-major order and, within each, over the channels:
//   k2n16-matmul-bf16         [K, N]               -> [N / 16][K / 2][16][2]
//   k2n16-conv-bf16           [M, C / group, k...] -> [M / 16][taps * C / group / 2][16][2]
//   k2n16-convtranspose-bf16  [C, M / group, k...] -> [(M / group) / 16][taps * C / 2][16][2]
#pragma once

#include <string_view>

#include "kernels/gemm/gemm_float_tile.h"
#include "tensor/tensor.h"

namespace evoq {

inline constexpr char kMatMulLayoutBf16[] = "k2n16-matmul-bf16";
inline constexpr char kConvLayoutBf16[] = "k2n16-conv-bf16";
inline constexpr char kConvTransposeLayoutBf16[] = "k2n16-convtranspose-bf16";

// Pairs of one panel for sums over k elements.
inline int64_t PairPanelStride(int64_t k) { return (k + 1) / 2 * kPanelF32; }

// Panels [begin, end) of b [k, n], whose rows are `stride` elements apart.
void PackPairsOfMatrix(const PairLayout& layout, const uint16_t* b, int64_t stride, int64_t k,
                       int64_t n, int64_t begin, int64_t end, float* packed);

// The panels of a constant in this layout. Errors: kInvalidInput for another layout or size.
Result<const float*> PairPanelsOf(const Tensor& constant, const char* layout);

// KernelDef::pack of these kernels.
Result<Tensor> PackWeightBf16(const char* layout, const Tensor* weight);

}  // namespace evoq
