#include "kernels/gemm/gemm_int8_avx2.inl.h"
#include "kernels/gemm/gemm_int8_finish_avx2.inl.h"
#include "kernels/gemm/int8_winograd_tile.h"

namespace evoq {
namespace {

template <bool kSigned>
inline __m256i Widen(const uint8_t* x) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
  return kSigned ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
}

// B^T of four values.
inline void Transform4(const __m256i* d, __m256i* v) {
  v[0] = _mm256_sub_epi16(d[0], d[2]);
  v[1] = _mm256_add_epi16(d[1], d[2]);
  v[2] = _mm256_sub_epi16(d[2], d[1]);
  v[3] = _mm256_sub_epi16(d[1], d[3]);
}

template <bool kSigned>
void TransformInput(const uint8_t* const* pixels, int64_t channels, int32_t zero,
                    int64_t position_stride, int16_t* v) {
  // Only one row of B^T has a sum other than 0, so that a zero point matters at one position.
  const __m256i zeros = _mm256_set1_epi16(static_cast<int16_t>(4 * zero));
  for (int64_t c = 0; c < channels; c += 16) {
    __m256i rows[4][4];  // each row of pixels transformed
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      __m256i d[4];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) d[j] = Widen<kSigned>(pixels[4 * i + j] + c);
      Transform4(d, rows[i]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const __m256i column[4] = {rows[0][j], rows[1][j], rows[2][j], rows[3][j]};
      __m256i out[4];
      Transform4(column, out);
      if (j == 1) out[1] = _mm256_sub_epi16(out[1], zeros);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i)
        _mm256_store_si256(reinterpret_cast<__m256i*>(v + (4 * i + j) * position_stride + c),
                           out[i]);
    }
  }
}

void Input(const uint8_t* const* pixels, int64_t channels, bool is_signed, int32_t zero,
           int64_t position_stride, int16_t* v) {
  (is_signed ? TransformInput<true> : TransformInput<false>)(pixels, channels, zero,
                                                             position_stride, v);
}

template <int kRows>
inline void ProductRows(const int16_t* v, int64_t v_stride, int64_t channels, const int16_t* u,
                        int32_t* out, int64_t out_stride) {
  __m256i acc[kRows][2];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) acc[r][0] = acc[r][1] = _mm256_setzero_si256();
  for (int64_t c = 0; c < channels; c += 2, u += 32) {
    const __m256i u0 = _mm256_load_si256(reinterpret_cast<const __m256i*>(u));
    const __m256i u1 = _mm256_load_si256(reinterpret_cast<const __m256i*>(u + 16));
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      int32_t pair;
      __builtin_memcpy(&pair, v + r * v_stride + c, 4);
      const __m256i a = _mm256_set1_epi32(pair);
      AddProduct(acc[r][0], a, u0);
      AddProduct(acc[r][1], a, u1);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(out + r * out_stride), acc[r][0]);
    _mm256_store_si256(reinterpret_cast<__m256i*>(out + r * out_stride) + 1, acc[r][1]);
  }
}

void Product(const int16_t* v, int64_t v_stride, int64_t rows, int64_t channels, const int16_t* u,
             int32_t* out, int64_t out_stride) {
  constexpr decltype(&ProductRows<1>) kRows[] = {nullptr,        ProductRows<1>, ProductRows<2>,
                                                 ProductRows<3>, ProductRows<4>, ProductRows<5>,
                                                 ProductRows<6>};
  const int64_t steps = (rows + 5) / 6;
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t height = rows / steps + (i < rows % steps ? 1 : 0);
    kRows[height](v, v_stride, channels, u, out, out_stride);
    v += height * v_stride;
    out += height * out_stride;
  }
}

// A^T of four values.
inline void Sum4(const __m256i* m, __m256i* y) {
  const __m256i middle = _mm256_add_epi32(m[1], m[2]);
  y[0] = _mm256_add_epi32(m[0], middle);
  y[1] = _mm256_sub_epi32(_mm256_sub_epi32(m[1], m[2]), m[3]);
}

void Output(const Int8WinogradOutput& o) {
  __m256i sums[2][2 * kInt8WinogradRun][2];
  for (int t = 0; t < o.tiles; ++t) {
    for (int half = 0; half < 2; ++half) {
      const int32_t* from = o.product + t * o.tile_stride + 8 * half;
      __m256i rows[2][4];  // A^T of each column of positions
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        __m256i m[4], y[2];
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i)
          m[i] = _mm256_load_si256(
              reinterpret_cast<const __m256i*>(from + (4 * i + j) * o.position_stride));
        Sum4(m, y);
        rows[0][j] = y[0], rows[1][j] = y[1];
      }
#pragma GCC unroll 2
      for (int line = 0; line < 2; ++line) {
        __m256i y[2];
        Sum4(rows[line], y);
        sums[line][2 * t][half] = _mm256_srai_epi32(y[0], 2);
        sums[line][2 * t + 1][half] = _mm256_srai_epi32(y[1], 2);
      }
    }
  }
  Int8Tile tile = o.tile;
  tile.row_count = o.pixels;
  for (int line = 0; line < o.lines; ++line) {
    FinishPanel(tile, 0, sums[line][0]);
    tile.y += o.y_line;
    tile.residual += o.residual_line;
  }
}

void Weights(const int8_t* g, int64_t tap_stride, int64_t position_stride, int16_t* u) {
  for (int at = 0; at < 64; at += 16) {  // four columns of four channels
    __m256i taps[3][3], rows[4][3];
    for (int t = 0; t < 9; ++t)
      taps[t / 3][t % 3] = _mm256_cvtepi8_epi16(
          _mm_load_si128(reinterpret_cast<const __m128i*>(g + t * tap_stride + at)));
    const auto transform = [](__m256i a, __m256i b, __m256i c, __m256i* out, int stride) {  // 2 G
      const __m256i ends = _mm256_add_epi16(a, c);
      out[0] = _mm256_add_epi16(a, a);
      out[stride] = _mm256_add_epi16(ends, b);
      out[2 * stride] = _mm256_sub_epi16(ends, b);
      out[3 * stride] = _mm256_add_epi16(c, c);
    };
    for (int j = 0; j < 3; ++j) transform(taps[0][j], taps[1][j], taps[2][j], &rows[0][j], 3);
    for (int i = 0; i < 4; ++i) {
      __m256i out[4];
      transform(rows[i][0], rows[i][1], rows[i][2], out, 1);
      for (int j = 0; j < 4; ++j) {
        // The pairs 0, 1 of the four columns become neighbours, and so do the pairs 2, 3.
        const __m256i pairs =
            _mm256_permutevar8x32_epi32(out[j], _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
        int16_t* to = u + (4 * i + j) * position_stride + at / 2;
        _mm_store_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(pairs));
        _mm_store_si128(reinterpret_cast<__m128i*>(to + 32), _mm256_extracti128_si256(pairs, 1));
      }
    }
  }
}

}  // namespace

const Int8WinogradDef kInt8WinogradAvx2 = {
    .name = "avx2",
    .input = Input,
    .product = Product,
    .output = Output,
    .weights = Weights,
};

}  // namespace evoq
