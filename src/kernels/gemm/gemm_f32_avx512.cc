// 14 x 32, 28 x 16 and 6 x 64 tiles: 28 or 24 accumulators, the panels' vectors and one broadcast
// fill the 32 registers. Lane tiles of 14 x 16: 14 accumulators and the 14 rows they are computed
// from.
#include <immintrin.h>

#include "kernels/gemm/gemm_float_finish_avx512.inl.h"

namespace evoq {
namespace {

// Not instrumented by sanitizers: 62 unrolled kernels with a check at each access take minutes to
// compile. The AVX2 and plain kernels, which are, have the same accesses.
#define EVOQ_PLAIN_CODE __attribute__((no_sanitize("address", "undefined", "thread")))

template <int kRows, int kPanels>
EVOQ_PLAIN_CODE void Tile(const GemmTile& t) {
  __m512 acc[kRows][kPanels];
  __mmask16 mask[kPanels];
  Start(t, mask, acc);
  const float* ahead = t.ahead;
  const int64_t ahead_step = t.ahead_step, ahead_line = t.ahead_line;
  const int64_t depth = t.depth, b_step = t.b_step, panel_stride = t.panel_stride;
  for (int64_t tap = 0; tap < t.tap_count; ++tap) {
    const float* a[kRows];
#pragma GCC unroll 28
    for (int r = 0; r < kRows; ++r) a[r] = t.rows[tap * t.row_stride + r] + t.taps[tap].a;
    const float* b = t.b + t.taps[tap].b;
    for (int64_t k = 0; k < depth; ++k) {
      __m512 vb[kPanels];
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) vb[p] = _mm512_loadu_ps(b + p * panel_stride);
      b += b_step;
      FetchAhead<kRows, kPanels>(ahead, ahead_line);
      ahead += ahead_step;
#pragma GCC unroll 28
      for (int r = 0; r < kRows; ++r) {
        const __m512 va = _mm512_set1_ps(a[r][k]);
#pragma GCC unroll 4
        for (int p = 0; p < kPanels; ++p) acc[r][p] = _mm512_fmadd_ps(va, vb[p], acc[r][p]);
      }
    }
  }
  FinishFloats(t, mask, acc);
}

// Each row's channels lie in one register, from which every column takes its own group's k.
template <int kRows>
EVOQ_PLAIN_CODE void LaneTile(const GemmTile& t) {
  __m512 acc[kRows][1];
  __mmask16 mask[1];
  Start(t, mask, acc);
  const __mmask16 words = static_cast<__mmask16>((1u << t.lane_words) - 1);
  const __m512i lanes = _mm512_loadu_si512(t.lanes), one = _mm512_set1_epi32(1);
  for (int64_t tap = 0; tap < t.tap_count; ++tap) {
    __m512 a[kRows];
#pragma GCC unroll 14
    for (int r = 0; r < kRows; ++r)
      a[r] = _mm512_maskz_loadu_ps(words, t.rows[tap * t.row_stride + r] + t.taps[tap].a);
    const float* b = t.b + t.taps[tap].b;
    __m512i lane = lanes;
    for (int64_t k = 0; k < t.depth; ++k, b += t.b_step) {
      const __m512 vb = _mm512_loadu_ps(b);
#pragma GCC unroll 14
      for (int r = 0; r < kRows; ++r)
        acc[r][0] = _mm512_fmadd_ps(_mm512_permutexvar_ps(lane, a[r]), vb, acc[r][0]);
      lane = _mm512_add_epi32(lane, one);
    }
  }
  FinishFloats(t, mask, acc);
}

}  // namespace

const GemmKernels kGemmKernelsF32Avx512 = {
    .name = "avx512",
    .rows = 14,
    .panels = 2,
    .few_rows = 6,
    .few_rows_panels = 4,
    .one_panel_rows = 28,
    .tile = EVOQ_GEMM_TILES(Tile),
    .lane_rows = 14,
    .lane_tile = {nullptr, LaneTile<1>, LaneTile<2>, LaneTile<3>, LaneTile<4>, LaneTile<5>,
                  LaneTile<6>, LaneTile<7>, LaneTile<8>, LaneTile<9>, LaneTile<10>, LaneTile<11>,
                  LaneTile<12>, LaneTile<13>, LaneTile<14>}};

}  // namespace evoq
