// Sparse tiles with AVX-512 VNNI: 48 rows x 4 columns. They end as dense tiles do.
#include "kernels/gemm/gemm_int8_sparse.inl.h"

namespace evoq {
namespace {

struct Avx512 {
  using Vec = __m512i;
  static constexpr int kUnits = 2, kRegisters = 3;
  static constexpr bool kWide = false;
  static constexpr int kMostBlocks = 42, kMostBlocksWinograd = 30, kLongBlocksAs = 143,
                       kTurningDepth = 24;  // two products a cycle, as on a Zen 5

  static Vec Zero() { return _mm512_setzero_si512(); }

  template <int kCount>
  static inline void Add(Vec* acc, const __m256i* x, const int8_t* w) {
    int32_t bytes;
    __builtin_memcpy(&bytes, w, 4);
    const __m512i four = _mm512_set1_epi32(bytes);
#pragma GCC unroll 3
    for (int v = 0; v < kCount; ++v)
      acc[v] = _mm512_dpbusd_epi32(acc[v], _mm512_loadu_si512(x + 2 * v), four);
  }
  template <int kCount>
  static inline void AddFour(Vec (&acc)[4][kCount], const __m256i* x, const int8_t* w) {
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) Add<kCount>(acc[c], x, w + 4 * c);
  }
  template <int kCount>
  static inline void AddAlong(Vec* acc, const __m256i* x, const int8_t* w) {
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) Add<kCount>(acc, x + q * kCount * kUnits, w + 4 * q);
  }

  template <int kUnits>
  static void Finish(const Int8Tile& tile, const __m256i* columns) {
    constexpr int kRows = 8 * kUnits;
    alignas(64) int32_t sums[kRows * 4 * 16];  // [row][panel][16]
    for (int p = 0; p < tile.panel_count; ++p, columns += 16 * kUnits) {
      for (int half = 0; half < 2; ++half) {
        const __m256i bias =
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tile.bias + 16 * p + 8 * half));
        for (int unit = 0; unit < kUnits; ++unit) {
          __m256i from[8], to[8];
          for (int n = 0; n < 8; ++n) from[n] = columns[(8 * half + n) * kUnits + unit];
          Transpose8(from, to);
          int32_t* at = sums + 16 * (8 * unit * tile.panel_count + p) + 8 * half;
          for (int r = 0; r < 8; ++r, at += 16 * tile.panel_count)
            _mm256_store_si256(reinterpret_cast<__m256i*>(at), _mm256_add_epi32(to[r], bias));
        }
      }
    }
    FinishInt8Avx512(tile, sums);
  }
};

}  // namespace

const Int8TileDef kInt8SparseAvx512 = SparseDef<Avx512>("avx512 sparse", &kInt8RowsAvx512);

}  // namespace evoq
