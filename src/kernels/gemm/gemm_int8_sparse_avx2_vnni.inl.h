// Sparse tiles with AVX-VNNI: included by instruction-set files, which define EVOQ_DPBUSD, that
// instruction, the table EVOQ_TABLE and its name EVOQ_TABLE_NAME.
#include "kernels/gemm/gemm_int8_sparse_finish_avx2.inl.h"

namespace evoq {
namespace {

struct Avx2Vnni {
  using Vec = __m256i;
  static constexpr int kUnits = 1, kRegisters = 3;
  static constexpr bool kWide = false;
  static constexpr int kMostBlocks = 42, kMostBlocksWinograd = 30, kLongBlocksAs = 125,
                       kTurningDepth = 3;

  static Vec Zero() { return _mm256_setzero_si256(); }

  template <int kCount>
  static inline void Add(Vec* acc, const __m256i* x, const int8_t* w) {
    const __m256i four = BroadcastFour(w);
#pragma GCC unroll 3
    for (int v = 0; v < kCount; ++v) acc[v] = EVOQ_DPBUSD(acc[v], x[v], four);
  }
  template <int kCount>
  static inline void AddFour(Vec (&acc)[4][kCount], const __m256i* x, const int8_t* w) {
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) Add<kCount>(acc[c], x, w + 4 * c);
  }
  template <int kCount>
  static inline void AddAlong(Vec* acc, const __m256i* x, const int8_t* w) {
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) Add<kCount>(acc, x + q * kCount, w + 4 * q);
  }

  template <int kUnits>
  static void Finish(const Int8Tile& tile, const __m256i* columns) {
    FinishColumns<kUnits>(tile, columns);
  }
};

}  // namespace

const Int8TileDef EVOQ_TABLE = SparseDef<Avx2Vnni>(EVOQ_TABLE_NAME, &kInt8RowsAvx2);

}  // namespace evoq
