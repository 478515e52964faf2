// 14 x 32, 28 x 16 and 6 x 64 tiles of vdpbf16ps: 28 or 24 accumulators, the panels' vectors and
// one broadcast fill the 32 registers. Only called where the processor reports AVX512_BF16.
#include <immintrin.h>

#include <cstring>

#include "kernels/gemm/gemm_bf16_tile.h"
#include "kernels/gemm/gemm_float_avx512.inl.h"

#define EVOQ_BF16 __attribute__((target("avx512bf16")))

namespace evoq {
namespace {

[[gnu::always_inline]] inline __m512i LoadPairs(const float* p) { return _mm512_loadu_si512(p); }
[[gnu::always_inline]] inline __m512i BroadcastPair(const float* p) {
  int32_t pair;
  std::memcpy(&pair, p, sizeof(pair));
  return _mm512_set1_epi32(pair);
}
[[gnu::always_inline]] inline __m512 Widen(__m256i v) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
}

template <int kRows, int kPanels>
[[gnu::always_inline]] inline void AddResidual(const GemmTileBf16& t,
                                               const __mmask16 (&mask)[kPanels],
                                               __m512 (&acc)[kRows][kPanels]) {
  if (t.residual_bf16) {
    EVOQ_EACH_ACCUMULATOR {
      const uint16_t* residual =
          static_cast<const uint16_t*>(t.residual) + t.row_offset[r] + p * 16;
      acc[r][p] = _mm512_add_ps(acc[r][p], Widen(_mm256_maskz_loadu_epi16(mask[p], residual)));
    }
  } else {
    EVOQ_EACH_ACCUMULATOR {
      const float* residual = static_cast<const float*>(t.residual) + t.row_offset[r] + p * 16;
      acc[r][p] = _mm512_add_ps(acc[r][p], _mm512_maskz_loadu_ps(mask[p], residual));
    }
  }
}

// The lines that are read and written at the end arrive while the sum is computed.
template <int kRows, int kPanels>
[[gnu::always_inline]] inline void FetchLines(const GemmTileBf16& t) {
  const int shift = t.output == TileOutputBf16::kBfloat16 ? 1 : 2;
  if (t.output != TileOutputBf16::kSums) {
    EVOQ_EACH_ACCUMULATOR _mm_prefetch(
        static_cast<const char*>(t.y) + ((t.row_offset[r] + p * 16) << shift), _MM_HINT_T0);
  }
  if (t.last && t.residual != nullptr) {
    const int size = t.residual_bf16 ? 1 : 2;
    EVOQ_EACH_ACCUMULATOR
    _mm_prefetch(static_cast<const char*>(t.residual) + ((t.row_offset[r] + p * 16) << size),
                 _MM_HINT_T0);
  }
}

// Not instrumented by sanitizers: 48 unrolled kernels with a check at each access take minutes to
// compile. The AVX2 and plain kernels, which are, have the same accesses.
template <int kRows, int kPanels>
EVOQ_BF16 __attribute__((no_sanitize("address", "undefined", "thread"))) void Tile(
    const GemmTileBf16& t) {
  __m512 acc[kRows][kPanels];
  __mmask16 mask[kPanels];
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p) mask[p] = ColumnMask(t, p);
  Start(t, t.sums_step, mask, acc);
  FetchLines<kRows, kPanels>(t);
  const float* ahead = t.ahead;
  const int64_t ahead_step = t.ahead_step;
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
      _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T1);
      ahead += ahead_step;
#pragma GCC unroll 28
      for (int r = 0; r < kRows; ++r) {
        const __m512bh va = (__m512bh)BroadcastPair(a[r] + k);
#pragma GCC unroll 4
        for (int p = 0; p < kPanels; ++p) acc[r][p] = _mm512_dpbf16_ps(acc[r][p], va, vb[p]);
      }
    }
  }
  if (t.last) {
    if (t.residual != nullptr) AddResidual<kRows, kPanels>(t, mask, acc);
    Activate(t, acc);
  }
  if (t.output == TileOutputBf16::kSums) {
    EVOQ_EACH_ACCUMULATOR _mm512_storeu_ps(t.sums + r * t.sums_step + p * 16, acc[r][p]);
  } else if (t.output == TileOutputBf16::kFloat32) {
    float* y = static_cast<float*>(t.y);
    EVOQ_EACH_ACCUMULATOR _mm512_mask_storeu_ps(y + t.row_offset[r] + p * 16, mask[p], acc[r][p]);
  } else {
    uint16_t* y = static_cast<uint16_t*>(t.y);
    EVOQ_EACH_ACCUMULATOR
    _mm256_mask_storeu_epi16(y + t.row_offset[r] + p * 16, mask[p],
                             (__m256i)_mm512_cvtneps_pbh(acc[r][p]));
  }
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

const GemmKernelsBf16 kGemmKernelsBf16Avx512 = {
    "avx512bf16 14x32",
    14,
    2,
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
    PairRows,
    CopyRuns};

}  // namespace evoq
