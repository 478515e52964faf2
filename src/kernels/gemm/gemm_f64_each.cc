#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <array>
#include <cstring>
#include <utility>

#include "kernels/gemm/gemm_f64.h"
#include "kernels/vec.h"

namespace evoq::EVOQ_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 8, kRows = 14;  // 28 accumulators of 32 registers
using Doubles = __m512d;
EVOQ_ALWAYS_INLINE Doubles Load(const double* p) { return _mm512_loadu_pd(p); }
EVOQ_ALWAYS_INLINE Doubles MulAdd(double a, Doubles b, Doubles c) {
  return _mm512_fmadd_pd(_mm512_set1_pd(a), b, c);
}
#elif defined(__AVX2__)
constexpr int kLanes = 4, kRows = 3;  // 12 of 16
using Doubles = __m256d;
EVOQ_ALWAYS_INLINE Doubles Load(const double* p) { return _mm256_loadu_pd(p); }
EVOQ_ALWAYS_INLINE Doubles MulAdd(double a, Doubles b, Doubles c) {
  return _mm256_fmadd_pd(_mm256_set1_pd(a), b, c);
}
#else
#if defined(__aarch64__)
constexpr int kLanes = 2, kRows = 3;  // 24 of 32
#else
constexpr int kLanes = 2, kRows = 1;  // 8 of 16
#endif
using Doubles = Vec<double, 2>;
EVOQ_ALWAYS_INLINE Doubles Load(const double* p) { return LoadVec<double, 2>(p); }
EVOQ_ALWAYS_INLINE Doubles MulAdd(double a, Doubles b, Doubles c) { return a * b + c; }
#endif
constexpr int kVectors = kPanelF64 / kLanes;
static_assert(kRows <= kMaxTileRowsF64);

EVOQ_ALWAYS_INLINE void Store(double* p, Doubles v) { std::memcpy(p, &v, sizeof(v)); }

template <int kTileRows>
void Tile(const TileF64& t) {
  Doubles acc[kTileRows][kVectors] = {};
  const double* b = t.b;
  for (int64_t k = 0; k < t.depth; ++k, b += t.b_step) {
    Doubles w[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) w[v] = Load(b + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r) {
      const double a = t.a[r * t.a_stride + k];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) acc[r][v] = MulAdd(a, w[v], acc[r][v]);
    }
  }
  for (int r = 0; r < kTileRows; ++r) {
    double* const y = t.y + r * t.y_stride;
    double sums[kPanelF64];
    for (int v = 0; v < kVectors; ++v) Store(sums + v * kLanes, acc[r][v]);
    for (int n = 0; n < t.columns; ++n) y[n] = t.accumulate ? y[n] + sums[n] : sums[n];
  }
}

template <int... kRow>
constexpr auto TilesOf(std::integer_sequence<int, kRow...>) {
  return std::array<void (*)(const TileF64&), kRows>{Tile<kRow + 1>...};
}

void Run(const TileF64& tile) {
  static constexpr auto kTiles = TilesOf(std::make_integer_sequence<int, kRows>());
  kTiles[tile.rows - 1](tile);
}

}  // namespace

extern const GemmTableF64 kGemmTableF64;
const GemmTableF64 kGemmTableF64 = {.rows = kRows, .run = Run};

}  // namespace evoq::EVOQ_ISA
