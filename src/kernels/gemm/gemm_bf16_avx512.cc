// 14 x 32, 28 x 16 and 6 x 64 tiles of vdpbf16ps: 28 or 24 accumulators, the panels' vectors and
// one broadcast fill the 32 registers. Only called where the processor reports AVX512_BF16.
#include <immintrin.h>

#include <cstring>

#include "kernels/gemm/gemm_float_finish_avx512.inl.h"

#define EVOQ_BF16 __attribute__((target("avx512bf16")))

namespace evoq {
namespace {

[[gnu::always_inline]] inline __m512i LoadPairs(const float* p) { return _mm512_loadu_si512(p); }
[[gnu::always_inline]] inline __m512i BroadcastPair(const float* p) {
  int32_t pair;
  std::memcpy(&pair, p, sizeof(pair));
  return _mm512_set1_epi32(pair);
}

// Not instrumented by sanitizers: 48 unrolled kernels with a check at each access take minutes to
// compile. The AVX2 and plain kernels, which are, have the same accesses.
template <int kRows, int kPanels>
EVOQ_BF16 __attribute__((no_sanitize("address", "undefined", "thread"))) void Tile(
    const GemmTile& t) {
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
    for (int64_t k = 0; k < depth; ++k) {
      __m512bh vb[kPanels];
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) vb[p] = (__m512bh)LoadPairs(b + p * panel_stride);
      b += 16;
      FetchAhead<kRows, kPanels>(ahead, ahead_line);
      ahead += ahead_step;
#pragma GCC unroll 28
      for (int r = 0; r < kRows; ++r) {
        const __m512bh va = (__m512bh)BroadcastPair(a[r] + k);
#pragma GCC unroll 4
        for (int p = 0; p < kPanels; ++p) acc[r][p] = _mm512_dpbf16_ps(acc[r][p], va, vb[p]);
      }
    }
  }
  if (!FinishFloats(t, mask, acc)) return;
  uint16_t* y = static_cast<uint16_t*>(t.y);
  EVOQ_EACH_ACCUMULATOR
  _mm256_mask_storeu_epi16(y + t.row_offset[r] + p * 16, mask[p],
                           (__m256i)_mm512_cvtneps_pbh(acc[r][p]));
}

void PairRows(const uint16_t* even, const uint16_t* odd, int count, float* y) {
  const auto mask = static_cast<__mmask16>((1u << count) - 1u);
  const __m256i e = even == nullptr ? _mm256_setzero_si256() : _mm256_maskz_loadu_epi16(mask, even);
  const __m256i o = odd == nullptr ? _mm256_setzero_si256() : _mm256_maskz_loadu_epi16(mask, odd);
  _mm512_storeu_si512(y, _mm512_or_si512(_mm512_cvtepu16_epi32(e),
                                         _mm512_slli_epi32(_mm512_cvtepu16_epi32(o), 16)));
}

void CopyRuns(const uint16_t* x, int64_t step, int64_t runs, int64_t n, uint16_t* y) {
  const auto tail = static_cast<__mmask32>(n % 32 == 0 ? 0xffffffffu : (1u << (n % 32)) - 1u);
  for (int64_t r = 0; r < runs; ++r, x += step, y += n) {
    int64_t i = 0;
    for (; i + 32 < n; i += 32) _mm512_storeu_si512(y + i, _mm512_loadu_si512(x + i));
    if (i < n) _mm512_mask_storeu_epi16(y + i, tail, _mm512_maskz_loadu_epi16(tail, x + i));
  }
}

}  // namespace

const GemmKernels kGemmKernelsBf16Avx512 = {.name = "avx512bf16",
                                            .rows = 14,
                                            .panels = 2,
                                            .few_rows = 6,
                                            .few_rows_panels = 4,
                                            .one_panel_rows = 28,
                                            .tile = EVOQ_GEMM_TILES(Tile),
                                            .lane_rows = 0,
                                            .lane_tile = {},
                                            .speed = 2};
const PairLayout kPairLayoutAvx512 = {.pair_rows = PairRows, .copy_runs = CopyRuns};

}  // namespace evoq
