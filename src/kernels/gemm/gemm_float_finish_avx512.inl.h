// How AVX-512 tiles of floating-point products start and end. Included inside instruction-set files
// only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/gemm/gemm_float_tile.h"
#include "kernels/gemm/walk.h"

namespace evoq {
namespace {

// Unrolled: for every row r and panel p of the tile.
#define EVOQ_EACH_ACCUMULATOR                              \
  _Pragma("GCC unroll 28") for (int r = 0; r < kRows; ++r) \
      _Pragma("GCC unroll 4") for (int p = 0; p < kPanels; ++p)

// Fetches what GemmTile::ahead says of one k.
template <int kRows, int kPanels>
[[gnu::always_inline]] inline void FetchAhead(const float* ahead, int64_t line) {
  FetchLines<kRows, kPanels, kRows <= 16 ? 1 : 2>(ahead,
                                                  line * static_cast<int64_t>(sizeof(float)));
}

// The columns of a panel that the tile may touch.
[[gnu::always_inline]] inline __mmask16 ColumnMask(const GemmTile& t, int panel) {
  const int64_t begin = t.column_begin - panel * 16, end = t.column_end - panel * 16;
  const uint32_t below_end = end >= 16 ? 0xffffu : end <= 0 ? 0u : (1u << end) - 1u;
  const uint32_t below_begin = begin >= 16 ? 0xffffu : begin <= 0 ? 0u : (1u << begin) - 1u;
  return static_cast<__mmask16>(below_end & ~below_begin);
}

// Sets the masks, and the accumulators to what they start from. The lines that are read and written
// at the end arrive while the sums are computed.
template <int kRows, int kPanels>
[[gnu::always_inline]] inline void Start(const GemmTile& t, __mmask16 (&mask)[kPanels],
                                         __m512 (&acc)[kRows][kPanels]) {
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p) mask[p] = ColumnMask(t, p);
  if (t.accumulate) {
    EVOQ_EACH_ACCUMULATOR acc[r][p] = _mm512_loadu_ps(t.sums + r * t.sums_step + p * 16);
  } else {
    __m512 start[kPanels];
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p)
      start[p] =
          t.bias == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask[p], t.bias + p * 16);
    EVOQ_EACH_ACCUMULATOR acc[r][p] = start[p];
  }
  if (t.output != TileOutput::kSums) {
    const int shift = t.output == TileOutput::kBfloat16 ? 1 : 2;
    EVOQ_EACH_ACCUMULATOR _mm_prefetch(
        static_cast<const char*>(t.y) + ((t.row_offset[r] + p * 16) << shift), _MM_HINT_T0);
  }
  if (t.last && t.residual != nullptr) {
    const int shift = t.residual_bf16 ? 1 : 2;
    EVOQ_EACH_ACCUMULATOR
    _mm_prefetch(static_cast<const char*>(t.residual) + ((t.row_offset[r] + p * 16) << shift),
                 _MM_HINT_T0);
  }
}

template <int kRows, int kPanels>
[[gnu::always_inline]] inline void AddResidual(const GemmTile& t, const __mmask16 (&mask)[kPanels],
                                               __m512 (&acc)[kRows][kPanels]) {
  if (t.residual_bf16) {
    EVOQ_EACH_ACCUMULATOR {
      const uint16_t* residual =
          static_cast<const uint16_t*>(t.residual) + t.row_offset[r] + p * 16;
      const __m512i bits = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask[p], residual));
      acc[r][p] = _mm512_add_ps(acc[r][p], _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16)));
    }
  } else {
    EVOQ_EACH_ACCUMULATOR {
      const float* residual = static_cast<const float*>(t.residual) + t.row_offset[r] + p * 16;
      acc[r][p] = _mm512_add_ps(acc[r][p], _mm512_maskz_loadu_ps(mask[p], residual));
    }
  }
}

// The accumulator stands second in max and min, where they keep a NaN.
template <int kRows, int kPanels>
[[gnu::always_inline]] inline void Activate(const GemmTile& t, __m512 (&acc)[kRows][kPanels]) {
  const __m512 zero = _mm512_setzero_ps(), low = _mm512_set1_ps(t.low),
               high = _mm512_set1_ps(t.high);
  if (t.activation == TileActivation::kRelu) {
    EVOQ_EACH_ACCUMULATOR acc[r][p] = _mm512_max_ps(zero, acc[r][p]);
  } else if (t.activation == TileActivation::kClamp) {
    EVOQ_EACH_ACCUMULATOR acc[r][p] = _mm512_min_ps(high, _mm512_max_ps(low, acc[r][p]));
  } else if (t.activation == TileActivation::kLeaky) {
    EVOQ_EACH_ACCUMULATOR {
      const __mmask16 negative = _mm512_cmp_ps_mask(acc[r][p], zero, _CMP_LT_OQ);
      acc[r][p] = _mm512_mask_mul_ps(acc[r][p], negative, acc[r][p], low);
    }
  }
}

// From the sums to what the tile writes; bfloat16 is left to the caller: returns whether it is to
// be written.
template <int kRows, int kPanels>
[[gnu::always_inline]] inline bool FinishFloats(const GemmTile& t, const __mmask16 (&mask)[kPanels],
                                                __m512 (&acc)[kRows][kPanels]) {
  if (t.last) {
    if (t.residual != nullptr) AddResidual(t, mask, acc);
    Activate(t, acc);
  }
  if (t.output == TileOutput::kBfloat16) return true;
  if (t.output == TileOutput::kSums) {
    EVOQ_EACH_ACCUMULATOR _mm512_storeu_ps(t.sums + r * t.sums_step + p * 16, acc[r][p]);
  } else {
    float* y = static_cast<float*>(t.y);
    EVOQ_EACH_ACCUMULATOR _mm512_mask_storeu_ps(y + t.row_offset[r] + p * 16, mask[p], acc[r][p]);
  }
  return false;
}

// Tiles of 1 to 6, or 14, rows of so many panels.
#define EVOQ_TILES_TO_6(Tile, panels)                                                  \
  Tile<1, panels>, Tile<2, panels>, Tile<3, panels>, Tile<4, panels>, Tile<5, panels>, \
      Tile<6, panels>
#define EVOQ_TILES_TO_14(Tile, panels)                                              \
  EVOQ_TILES_TO_6(Tile, panels), Tile<7, panels>, Tile<8, panels>, Tile<9, panels>, \
      Tile<10, panels>, Tile<11, panels>, Tile<12, panels>, Tile<13, panels>, Tile<14, panels>

// GemmKernels::tile: 1 to 28 rows of one panel, to 14 of two and to 6 of four.
#define EVOQ_GEMM_TILES(Tile)                       \
  {                                                 \
    {}, {nullptr,     EVOQ_TILES_TO_14(Tile, 1),    \
         Tile<15, 1>, Tile<16, 1>,                  \
         Tile<17, 1>, Tile<18, 1>,                  \
         Tile<19, 1>, Tile<20, 1>,                  \
         Tile<21, 1>, Tile<22, 1>,                  \
         Tile<23, 1>, Tile<24, 1>,                  \
         Tile<25, 1>, Tile<26, 1>,                  \
         Tile<27, 1>, Tile<28, 1>},                 \
        {nullptr, EVOQ_TILES_TO_14(Tile, 2)}, {}, { \
      nullptr, EVOQ_TILES_TO_6(Tile, 4)             \
    }                                               \
  }

}  // namespace
}  // namespace evoq
