// What the AVX-512 tiles of float32 and bfloat16 products share. Included inside instruction-set
// files only; TileT is GemmTileF32 or GemmTileBf16.
#include <immintrin.h>

#include "kernels/gemm/gemm_f32_tile.h"

namespace evoq {
namespace {

// Unrolled: for every row r and panel p of the tile.
#define EVOQ_EACH_ACCUMULATOR                              \
  _Pragma("GCC unroll 28") for (int r = 0; r < kRows; ++r) \
      _Pragma("GCC unroll 4") for (int p = 0; p < kPanels; ++p)

// The columns of a panel that the tile may touch.
template <typename TileT>
[[gnu::always_inline]] inline __mmask16 ColumnMask(const TileT& t, int panel) {
  const int64_t begin = t.column_begin - panel * 16, end = t.column_end - panel * 16;
  const uint32_t below_end = end >= 16 ? 0xffffu : end <= 0 ? 0u : (1u << end) - 1u;
  const uint32_t below_begin = begin >= 16 ? 0xffffu : begin <= 0 ? 0u : (1u << begin) - 1u;
  return static_cast<__mmask16>(below_end & ~below_begin);
}

// What the accumulators start from: the sums so far, sums[r * sums_step + n], or the bias.
template <typename TileT, int kRows, int kPanels>
[[gnu::always_inline]] inline void Start(const TileT& t, int64_t sums_step,
                                         const __mmask16 (&mask)[kPanels],
                                         __m512 (&acc)[kRows][kPanels]) {
  if (t.accumulate) {
    EVOQ_EACH_ACCUMULATOR acc[r][p] = _mm512_loadu_ps(t.sums + r * sums_step + p * 16);
    return;
  }
  __m512 start[kPanels];
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p)
    start[p] =
        t.bias == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask[p], t.bias + p * 16);
  EVOQ_EACH_ACCUMULATOR acc[r][p] = start[p];
}

// The accumulator stands second in max and min, where they keep a NaN.
template <typename TileT, int kRows, int kPanels>
[[gnu::always_inline]] inline void Activate(const TileT& t, __m512 (&acc)[kRows][kPanels]) {
  const __m512 zero = _mm512_setzero_ps(), low = _mm512_set1_ps(t.low),
               high = _mm512_set1_ps(t.high);
  if (t.activation == TileActivationF32::kRelu) {
    EVOQ_EACH_ACCUMULATOR acc[r][p] = _mm512_max_ps(zero, acc[r][p]);
  } else if (t.activation == TileActivationF32::kClamp) {
    EVOQ_EACH_ACCUMULATOR acc[r][p] = _mm512_min_ps(high, _mm512_max_ps(low, acc[r][p]));
  } else if (t.activation == TileActivationF32::kLeaky) {
    EVOQ_EACH_ACCUMULATOR {
      const __mmask16 negative = _mm512_cmp_ps_mask(acc[r][p], zero, _CMP_LT_OQ);
      acc[r][p] = _mm512_mask_mul_ps(acc[r][p], negative, acc[r][p], low);
    }
  }
}

}  // namespace
}  // namespace evoq
