// A 6 x 16 tile: rows were widened to float32 before (GemmKernels::widens), the panel's pairs are
// taken apart in registers, 12 accumulators.
#include <immintrin.h>

#include <cstring>

#include "kernels/gemm/gemm_float_finish_avx2.inl.h"
#include "kernels/gemm/pair_layout.inl.h"

namespace evoq {
namespace {

inline __m256 Even(__m256i pairs) { return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)); }
inline __m256 Odd(__m256i pairs) {
  return _mm256_castsi256_ps(
      _mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
}
inline __m256i LoadPairs(const float* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

// acc[r] += a[r] . b for the even (kHalf 0) or the odd elements.
template <int kRows, int kHalf>
[[gnu::always_inline]] inline void Half(const float* const (&a)[kRows], int64_t at, const float* b,
                                        __m256 (&acc)[kRows][2]) {
  const __m256 b0 = kHalf == 0 ? Even(LoadPairs(b)) : Odd(LoadPairs(b));
  const __m256 b1 = kHalf == 0 ? Even(LoadPairs(b + 8)) : Odd(LoadPairs(b + 8));
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    const __m256 va = _mm256_broadcast_ss(a[r] + at);
    acc[r][0] = _mm256_fmadd_ps(va, b0, acc[r][0]);
    acc[r][1] = _mm256_fmadd_ps(va, b1, acc[r][1]);
  }
}

template <int kRows>
void Tile(const GemmTile& t) {
  __m256 acc[kRows][2];
  const __m256i mask[2] = {ColumnMask(t, 0), ColumnMask(t, 1)};
  Start(t, mask, acc);
  const int64_t depth = t.depth;
  for (int64_t tap = 0; tap < t.tap_count; ++tap) {
    const float* a[kRows];
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) a[r] = t.rows[tap * t.row_stride + r] + t.taps[tap].a;
    const float* b = t.b + t.taps[tap].b;
    for (int64_t k = 0; k < depth; ++k, b += 16) {
      Half<kRows, 0>(a, 2 * k, b, acc);
      Half<kRows, 1>(a, 2 * k + 1, b, acc);
    }
  }
  Finish(t, mask, acc);
}

}  // namespace

const GemmKernels kGemmKernelsBf16Avx2 = {
    .name = "avx2",
    .rows = 6,
    .panels = 1,
    .few_rows = 6,
    .few_rows_panels = 1,
    .one_panel_rows = 6,
    .tile = {{}, {nullptr, Tile<1>, Tile<2>, Tile<3>, Tile<4>, Tile<5>, Tile<6>}},
    .lane_rows = 0,
    .lane_tile = {},
    .widens = true};
const PairLayout kPairLayoutAvx2 = {.pair_rows = PairRows, .copy_runs = CopyRuns};

}  // namespace evoq
