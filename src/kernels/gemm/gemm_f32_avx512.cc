// 14 x 32, 28 x 16 and 6 x 64 tiles: 28 or 24 accumulators, the panels' vectors and one broadcast
// fill the 32 registers. Lane tiles of 14 x 16: 14 accumulators and the 14 rows they are computed
// from.
#include <immintrin.h>

#include "kernels/gemm/gemm_f32_tile.h"
#include "kernels/gemm/gemm_float_avx512.inl.h"

namespace evoq {
namespace {

// Not instrumented by sanitizers: 62 unrolled kernels with a check at each access take minutes to
// compile. The AVX2 and plain kernels, which are, have the same accesses.
#define EVOQ_PLAIN_CODE __attribute__((no_sanitize("address", "undefined", "thread")))

// The accumulators start; the lines that are written at the end arrive while the sum is computed.
template <int kRows, int kPanels>
[[gnu::always_inline]] EVOQ_PLAIN_CODE inline void Begin(const GemmTileF32& t,
                                                         const __mmask16 (&mask)[kPanels],
                                                         __m512 (&acc)[kRows][kPanels]) {
  Start(t, kPanels * 16, mask, acc);
  if (t.last) {
    EVOQ_EACH_ACCUMULATOR _mm_prefetch(
        reinterpret_cast<const char*>(t.c + t.row_offset[r] + p * 16), _MM_HINT_T0);
  }
  if (t.last && t.residual != nullptr) {
    EVOQ_EACH_ACCUMULATOR
    _mm_prefetch(reinterpret_cast<const char*>(t.residual + t.row_offset[r] + p * 16), _MM_HINT_T0);
  }
}

// The sums go where they belong.
template <int kRows, int kPanels>
[[gnu::always_inline]] EVOQ_PLAIN_CODE inline void End(const GemmTileF32& t,
                                                       const __mmask16 (&mask)[kPanels],
                                                       __m512 (&acc)[kRows][kPanels]) {
  if (!t.last) {
    EVOQ_EACH_ACCUMULATOR _mm512_storeu_ps(t.sums + (r * kPanels + p) * 16, acc[r][p]);
    return;
  }
  if (t.residual != nullptr) {
    EVOQ_EACH_ACCUMULATOR {
      const float* residual = t.residual + t.row_offset[r] + p * 16;
      acc[r][p] = _mm512_add_ps(acc[r][p], _mm512_maskz_loadu_ps(mask[p], residual));
    }
  }
  Activate(t, acc);
  EVOQ_EACH_ACCUMULATOR _mm512_mask_storeu_ps(t.c + t.row_offset[r] + p * 16, mask[p], acc[r][p]);
}

template <int kRows, int kPanels>
EVOQ_PLAIN_CODE void Tile(const GemmTileF32& t) {
  __m512 acc[kRows][kPanels];
  __mmask16 mask[kPanels];
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p) mask[p] = ColumnMask(t, p);
  Begin(t, mask, acc);
  const float* ahead = t.ahead;
  const int64_t ahead_step = t.ahead_step;
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
      _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T1);
      if (kRows > 16) _mm_prefetch(reinterpret_cast<const char*>(ahead + 16), _MM_HINT_T1);
      ahead += ahead_step;
#pragma GCC unroll 28
      for (int r = 0; r < kRows; ++r) {
        const __m512 va = _mm512_set1_ps(a[r][k]);
#pragma GCC unroll 4
        for (int p = 0; p < kPanels; ++p) acc[r][p] = _mm512_fmadd_ps(va, vb[p], acc[r][p]);
      }
    }
  }
  End(t, mask, acc);
}

// Each row's channels lie in one register, from which every column takes its own group's k.
template <int kRows>
EVOQ_PLAIN_CODE void LaneTile(const GemmTileF32& t) {
  __m512 acc[kRows][1];
  const __mmask16 mask[1] = {ColumnMask(t, 0)};
  Begin(t, mask, acc);
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
  End(t, mask, acc);
}

}  // namespace

const GemmKernelsF32 kGemmKernelsF32Avx512 = {
    "avx512 14x32",
    14,
    2,
    6,
    4,
    28,
    {{},
     {nullptr,     Tile<1, 1>,  Tile<2, 1>,  Tile<3, 1>,  Tile<4, 1>,  Tile<5, 1>,
      Tile<6, 1>,  Tile<7, 1>,  Tile<8, 1>,  Tile<9, 1>,  Tile<10, 1>, Tile<11, 1>,
      Tile<12, 1>, Tile<13, 1>, Tile<14, 1>, Tile<15, 1>, Tile<16, 1>, Tile<17, 1>,
      Tile<18, 1>, Tile<19, 1>, Tile<20, 1>, Tile<21, 1>, Tile<22, 1>, Tile<23, 1>,
      Tile<24, 1>, Tile<25, 1>, Tile<26, 1>, Tile<27, 1>, Tile<28, 1>},
     {nullptr, Tile<1, 2>, Tile<2, 2>, Tile<3, 2>, Tile<4, 2>, Tile<5, 2>, Tile<6, 2>, Tile<7, 2>,
      Tile<8, 2>, Tile<9, 2>, Tile<10, 2>, Tile<11, 2>, Tile<12, 2>, Tile<13, 2>, Tile<14, 2>},
     {},
     {nullptr, Tile<1, 4>, Tile<2, 4>, Tile<3, 4>, Tile<4, 4>, Tile<5, 4>, Tile<6, 4>}},
    14,
    {nullptr, LaneTile<1>, LaneTile<2>, LaneTile<3>, LaneTile<4>, LaneTile<5>, LaneTile<6>,
     LaneTile<7>, LaneTile<8>, LaneTile<9>, LaneTile<10>, LaneTile<11>, LaneTile<12>, LaneTile<13>,
     LaneTile<14>}};

}  // namespace evoq
