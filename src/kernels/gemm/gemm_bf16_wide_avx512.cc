// Products of bfloat16 in float32: 14 x 32, 14 x 16 and 6 x 64 tiles of fused multiply-adds, for
// processors without vdpbf16ps and those where it is slow. Rows were widened before
// (GemmKernels::widens), the panels' vectors are in registers, an instruction for 16 elements that
// 14 rows share.
#include <immintrin.h>

#include "kernels/gemm/gemm_float_finish_avx512.inl.h"

namespace evoq {
namespace {

// Not instrumented by sanitizers: 34 unrolled kernels with a check at each access take minutes to
// compile. The AVX2 and plain kernels, which are, have the same accesses.
#define EVOQ_PLAIN_CODE __attribute__((no_sanitize("address", "undefined", "thread")))

// The first (0) or the second elements of 16 pairs.
template <int kHalf>
[[gnu::always_inline]] inline __m512 Elements(const float* pairs) {
  if (kHalf == 0) return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(pairs), 16));
  // From memory once more: there is no register to keep the pairs in.
  __m512i second;
  asm("vpandd %2, %1, %0"
      : "=v"(second)
      : "v"(_mm512_set1_epi32(static_cast<int>(0xffff0000u))),
        "m"(*reinterpret_cast<const __m512i_u*>(pairs)));
  return _mm512_castsi512_ps(second);
}

// To nearest, ties to even.
[[gnu::always_inline]] inline __m256i RoundToBf16(__m512 v) {
  const __m512i bits = _mm512_castps_si512(v), high = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_srli_epi32(
      _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(rounded, nan, high, _mm512_set1_epi32(0x40)));
}

// acc[r] += a[r] . b for one half of a pair.
template <int kHalf, int kRows, int kPanels>
[[gnu::always_inline]] inline void Half(const float* const (&a)[kRows], int64_t at, const float* b,
                                        int64_t panel_stride, __m512 (&acc)[kRows][kPanels]) {
  __m512 vb[kPanels];
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p) vb[p] = Elements<kHalf>(b + p * panel_stride);
#pragma GCC unroll 28
  for (int r = 0; r < kRows; ++r) {
    const __m512 va = _mm512_set1_ps(a[r][at]);
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) acc[r][p] = _mm512_fmadd_ps(va, vb[p], acc[r][p]);
  }
}

template <int kRows, int kPanels>
EVOQ_PLAIN_CODE void Tile(const GemmTile& t) {
  __m512 acc[kRows][kPanels];
  __mmask16 mask[kPanels];
  Start(t, mask, acc);
  const float* ahead = t.ahead;
  const int64_t ahead_step = t.ahead_step, ahead_line = t.ahead_line;
  const int64_t depth = t.depth, panel_stride = t.panel_stride;
  for (int64_t tap = 0; tap < t.tap_count; ++tap) {
    const float* a[kRows];
#pragma GCC unroll 28
    for (int r = 0; r < kRows; ++r) a[r] = t.rows[tap * t.row_stride + r] + t.taps[tap].a;
    const float* b = t.b + t.taps[tap].b;
    for (int64_t k = 0; k < depth; ++k, b += 16) {
      FetchAhead<kRows, kPanels>(ahead, ahead_line);
      ahead += ahead_step;
      Half<0>(a, 2 * k, b, panel_stride, acc);
      Half<1>(a, 2 * k + 1, b, panel_stride, acc);
    }
  }
  if (!FinishFloats(t, mask, acc)) return;
  uint16_t* y = static_cast<uint16_t*>(t.y);
  EVOQ_EACH_ACCUMULATOR
  _mm256_mask_storeu_epi16(y + t.row_offset[r] + p * 16, mask[p], RoundToBf16(acc[r][p]));
}

}  // namespace

// Tiles of one panel are no taller than those of two: 14 kernels less in each binary.
const GemmKernels kGemmKernelsBf16WideAvx512 = {.name = "avx512",
                                                .rows = 14,
                                                .panels = 2,
                                                .few_rows = 6,
                                                .few_rows_panels = 4,
                                                .one_panel_rows = 14,
                                                .tile = {{},
                                                         {nullptr, EVOQ_TILES_TO_14(Tile, 1)},
                                                         {nullptr, EVOQ_TILES_TO_14(Tile, 2)},
                                                         {},
                                                         {nullptr, EVOQ_TILES_TO_6(Tile, 4)}},
                                                .lane_rows = 0,
                                                .lane_tile = {},
                                                .widens = true};

}  // namespace evoq
