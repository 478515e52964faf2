// Sparse tiles with AVX2: exact products of int16 (vpmaddwd). The bytes of a group split into the
// pairs 0, 2 and 1, 3 in registers; weights were widened when they were prepared. vpmaddubsw, which
// saturates, would save one addition in two and need each pair of weights to be small
// (gemm_int8_bounded_avx2.cc): of weights that are left after pruning few are.
#include "kernels/gemm/gemm_int8_sparse_finish_avx2.inl.h"

namespace evoq {
namespace {

struct Avx2 {
  using Vec = __m256i;
  // 8 sums, 4 halves of groups and a column's weights fit the 16 registers.
  static constexpr int kUnits = 1, kRegisters = 2;
  static constexpr bool kWide = true;
  static constexpr int kMostBlocks = 50, kMostBlocksWinograd = 30, kLongBlocksAs = 125,
                       kTurningDepth = 3;

  static Vec Zero() { return _mm256_setzero_si256(); }

  template <int kCount>
  struct Halves {
    Vec even[kCount], odd[kCount];

    explicit Halves(const __m256i* x) {
#pragma GCC unroll 2
      for (int v = 0; v < kCount; ++v) {
        even[v] = _mm256_and_si256(x[v], _mm256_set1_epi16(0xff));
        odd[v] = _mm256_srli_epi16(x[v], 8);
      }
    }
    // acc[v] += the products of group v and the four weights at w.
    inline void AddTo(Vec* acc, const int8_t* w) const {
      const __m256i first = BroadcastFour(w), second = BroadcastFour(w + 4);
#pragma GCC unroll 2
      for (int v = 0; v < kCount; ++v) {
        acc[v] = _mm256_add_epi32(acc[v], _mm256_madd_epi16(even[v], first));
        asm("" : "+x"(acc[v]));  // not reordered: compilers would hold products and spill sums
      }
#pragma GCC unroll 2
      for (int v = 0; v < kCount; ++v) {
        acc[v] = _mm256_add_epi32(acc[v], _mm256_madd_epi16(odd[v], second));
        asm("" : "+x"(acc[v]));
      }
    }
  };

  template <int kCount>
  static inline void AddFour(Vec (&acc)[4][kCount], const __m256i* x, const int8_t* w) {
    const Halves<kCount> halves(x);
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) halves.AddTo(acc[c], w + 8 * c);
  }
  template <int kCount>
  static inline void AddAlong(Vec* acc, const __m256i* x, const int8_t* w) {
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) Halves<kCount>(x + q * kCount).AddTo(acc, w + 8 * q);
  }

  template <int kUnits>
  static void Finish(const Int8Tile& tile, const __m256i* columns) {
    FinishColumns<kUnits>(tile, columns);
  }
};

}  // namespace

const Int8TileDef kInt8SparseAvx2 = SparseDef<Avx2>("avx2 sparse", &kInt8RowsAvx2);

}  // namespace evoq
