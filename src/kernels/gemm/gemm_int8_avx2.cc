// AVX2 tiles without VNNI: bytes widen to int16 and vpmaddwd adds pairs exactly (vpmaddubsw would saturate). A register
// holds four columns x (channels 0+1, channels 2+3); the two halves of a column are added at the end.
#include <immintrin.h>

#include <cstdint>

#include "kernels/gemm/gemm_int8_tile.h"

namespace evoq {
namespace {

inline __m256 AddResidual(const Int8Tile& tile, int row, int column, __m256 v) {
  const uint8_t* r = tile.residual + row * tile.residual_stride;
  if (tile.residual_type == Int8Residual::kFloat32)
    return _mm256_add_ps(v, _mm256_loadu_ps(reinterpret_cast<const float*>(r) + column));
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(r + column));
  __m256i q = tile.residual_type == Int8Residual::kUint8 ? _mm256_cvtepu8_epi32(bytes) : _mm256_cvtepi8_epi32(bytes);
  q = _mm256_sub_epi32(q, _mm256_set1_epi32(tile.residual_zero));
  return _mm256_add_ps(v, _mm256_mul_ps(_mm256_cvtepi32_ps(q), _mm256_set1_ps(tile.residual_multiplier)));
}

// One row x 8 whole columns: from the sum to the stored output.
inline void Finish(const Int8Tile& tile, int row, int column, __m256i sum) {
  uint8_t* y = tile.y + row * tile.y_stride;
  sum = _mm256_add_epi32(sum, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tile.bias + column)));
  if (tile.w_zero != nullptr) {
    const __m256i zero = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tile.w_zero + column));
    sum = _mm256_sub_epi32(sum, _mm256_mullo_epi32(zero, _mm256_set1_epi32(tile.row_sums[row])));
  }
  if (tile.output == Int8Output::kInt32) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y) + column / 8, sum);
    return;
  }
  __m256 v = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_loadu_ps(tile.multiplier + column));
  if (tile.residual_type != Int8Residual::kNone) v = AddResidual(tile, row, column, v);
  if (tile.leaky) {
    const __m256 negative = _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_LT_OQ);
    v = _mm256_blendv_ps(v, _mm256_mul_ps(v, _mm256_set1_ps(tile.leaky_alpha)), negative);
  }
  if (tile.clamp) {
    v = _mm256_max_ps(v, _mm256_set1_ps(tile.low));
    v = _mm256_min_ps(v, _mm256_set1_ps(tile.high));
  }
  if (tile.output == Int8Output::kFloat32) {
    _mm256_storeu_ps(reinterpret_cast<float*>(y) + column, v);
    return;
  }
  __m256i q = _mm256_add_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(tile.y_zero));
  q = _mm256_shuffle_epi8(q, _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,  //
                                              0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
  const __m128i bytes = _mm_unpacklo_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(y + column), bytes);
}

// The epilogue of sums of rows x 16 columns x two halves. Out of line: it would cost the tile its registers.
__attribute__((noinline)) void FinishTile(const Int8Tile& tile, const __m256i* halves) {
  const uint32_t mask = tile.first_mask & tile.last_mask & 0xffff;
  for (int r = 0; r < tile.row_count; ++r, halves += 4) {
    // hadd leaves the columns in the order 0 1, 4 5, 2 3, 6 7.
    const __m256i low = _mm256_permute4x64_epi64(_mm256_hadd_epi32(halves[0], halves[1]), 0xd8);
    const __m256i high = _mm256_permute4x64_epi64(_mm256_hadd_epi32(halves[2], halves[3]), 0xd8);
    if (mask == 0xffff) {
      Finish(tile, r, 0, low);
      Finish(tile, r, 8, high);
      continue;
    }
    alignas(32) int32_t sums[16];
    _mm256_store_si256(reinterpret_cast<__m256i*>(sums), low);
    _mm256_store_si256(reinterpret_cast<__m256i*>(sums) + 1, high);
    for (int n = 0; n < 16; ++n) {
      if (mask >> n & 1) FinishInt8Row(tile, r, sums, n, n + 1);
    }
  }
}

template <int kRows>
void Tile(const Int8Tile& tile) {
  __m256i acc[kRows * 4];
#pragma GCC unroll 12
  for (int i = 0; i < kRows * 4; ++i) acc[i] = _mm256_setzero_si256();
  const int8_t* w = tile.weights;
  const int64_t bytes = 4 * tile.groups_of_4;
  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    const uint8_t* x[kRows];
#pragma GCC unroll 3
    for (int r = 0; r < kRows; ++r) x[r] = tile.rows[tap * tile.row_stride + r] + tile.x_offset;
    for (int64_t k = 0; k < bytes; k += 4, w += 64) {
      __m256i a[kRows];
#pragma GCC unroll 3
      for (int r = 0; r < kRows; ++r) {
        int32_t four;
        __builtin_memcpy(&four, x[r] + k, 4);
        a[r] = _mm256_cvtepu8_epi16(_mm_set1_epi32(four));
      }
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const __m256i b = _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(w) + j));
#pragma GCC unroll 3
        for (int r = 0; r < kRows; ++r) acc[4 * r + j] = _mm256_add_epi32(acc[4 * r + j], _mm256_madd_epi16(a[r], b));
      }
    }
  }
  __m256i halves[kRows * 4];
#pragma GCC unroll 12
  for (int i = 0; i < kRows * 4; ++i) halves[i] = acc[i];
  FinishTile(tile, halves);
}

void RunTile(const Int8Tile& tile) {
  switch (tile.row_count) {
    case 1:
      return Tile<1>(tile);
    case 2:
      return Tile<2>(tile);
    default:
      return Tile<3>(tile);
  }
}

// An activation fills the low half of a 32-bit lane, so that vpmaddwd gives one exact product per lane.
void Depthwise(int32_t* acc, const uint8_t* const* x, const int16_t* w, int64_t taps, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    __m256i sum = _mm256_setzero_si256();
    for (int64_t t = 0; t < taps; ++t) {
      const __m256i a = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(x[t] + i)));
      const __m256i b = _mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(w + t * count + i)));
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(acc + i), sum);
  }
  for (; i < count; ++i) {
    acc[i] = 0;
    for (int64_t t = 0; t < taps; ++t) acc[i] += x[t][i] * w[t * count + i];
  }
}

void Expand3(const uint8_t* from, uint8_t* to, int64_t pixels, uint8_t flip) {
  const __m128i order = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
  const __m128i flips = _mm_set1_epi32(flip * 0x10101);
  for (; pixels >= 6; pixels -= 4, from += 12, to += 16) {
    const __m128i bytes = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)), order);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_xor_si128(bytes, flips));
  }
  kInt8TileScalar.expand3(from, to, pixels, flip);
}

void Pointers(const Int8PointerRun& run) {
  const uint8_t** to = run.to;
  for (int64_t a = 0; a < run.outer_taps; ++a) {
    for (int64_t b = 0; b < run.inner_taps; ++b, to += run.tile) {
      const int64_t* inner = run.inner + b * run.width;
      for (int64_t i = 0; i < run.count; ++i)
        to[i] = (run.outer[a] | inner[i]) < 0 ? run.padding : run.x + (run.outer[a] + inner[i]);
    }
  }
}

}  // namespace

const Int8TileDef kInt8TileAvx2 = {"avx2", 1, {0, 3, 0, 0, 0}, false, RunTile, Depthwise, Pointers, Expand3};

}  // namespace evoq
