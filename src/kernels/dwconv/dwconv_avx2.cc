// int8 depthwise rows with 16-bit multiply-add: two taps of 16 channels beside each other make eight-lane sums of two
// products. A tile is kBytesTile outputs of one row, which share the interleaved weights.
#define EVOQ_ISA avx2
#include "kernels/dwconv/dwconv_f32.inl.h"
#include "kernels/dwconv/dwconv_int8.inl.h"

namespace evoq::avx2 {
namespace {

constexpr int kBytesTile = 4;
constexpr int64_t kMaxTaps = 50;  // of the pointer table; larger kernels take the plain rows

// Pointers to the pixel under each tap of each output of a tile; an odd number of taps gets one of padding.
struct TilePixels {
  const uint8_t* at[kBytesTile][kMaxTaps];
};

inline __m256i Words(const uint8_t* p) { return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }

// Channels [c, c + 16) of a tile.
inline void Int8Tile(const DwInt8Args& args, const TilePixels& pixels, int64_t taps, int64_t c, int count, int64_t at,
                     const void* residual, void* y) {
  const int64_t padded = args.shape.blocks() * kDwBlock;
  __m256i low[kBytesTile], high[kBytesTile];  // channels 0-3 and 8-11, 4-7 and 12-15
  for (int t = 0; t < kBytesTile; ++t) low[t] = high[t] = _mm256_setzero_si256();
  for (int64_t tap = 0; tap < taps; tap += 2) {
    const __m256i w0 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(args.taps + tap * padded + c));
    const __m256i w1 = tap + 1 < taps
                           ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(args.taps + (tap + 1) * padded + c))
                           : _mm256_setzero_si256();
    const __m256i w_low = _mm256_unpacklo_epi16(w0, w1), w_high = _mm256_unpackhi_epi16(w0, w1);
#pragma GCC unroll 4
    for (int t = 0; t < kBytesTile; ++t) {
      const __m256i x0 = Words(pixels.at[t][tap] + c), x1 = Words(pixels.at[t][tap + 1] + c);
      low[t] = _mm256_add_epi32(low[t], _mm256_madd_epi16(_mm256_unpacklo_epi16(x0, x1), w_low));
      high[t] = _mm256_add_epi32(high[t], _mm256_madd_epi16(_mm256_unpackhi_epi16(x0, x1), w_high));
    }
  }
  const __m256i bias0 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(args.bias + c));
  const __m256i bias1 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(args.bias + c + 8));
  for (int t = 0; t < count; ++t) {
    alignas(32) int32_t acc[kDwBlock];
    const __m256i first = _mm256_permute2x128_si256(low[t], high[t], 0x20), second = _mm256_permute2x128_si256(low[t], high[t], 0x31);
    _mm256_store_si256(reinterpret_cast<__m256i*>(acc), _mm256_add_epi32(first, bias0));
    _mm256_store_si256(reinterpret_cast<__m256i*>(acc + 8), _mm256_add_epi32(second, bias1));
    FinishPixel(args, acc, c, kDwBlock, at + t * args.shape.channels + c, residual, y);
  }
}

void Int8Row(const DwInt8Args& args, const uint8_t* x_image, int64_t oy, int64_t out_row, const void* residual, void* y) {
  const DwShape& shape = args.shape;
  const int64_t channels = shape.channels, whole = channels / kDwBlock * kDwBlock, taps = shape.taps();
  for (int64_t ox = 0; ox < shape.w.out && whole > 0; ox += kBytesTile) {
    const int count = static_cast<int>(shape.w.out - ox < kBytesTile ? shape.w.out - ox : kBytesTile);
    TilePixels pixels;
    for (int t = 0; t < kBytesTile; ++t) {
      const int64_t left = (ox + t) * shape.w.stride - shape.w.pad;
      for (int64_t ky = 0, tap = 0; ky < shape.h.kernel; ++ky) {
        const int64_t iy = oy * shape.h.stride - shape.h.pad + ky * shape.h.dilation;
        for (int64_t kx = 0; kx < shape.w.kernel; ++kx, ++tap) {
          const int64_t ix = left + kx * shape.w.dilation;
          const bool inside = t < count && iy >= 0 && iy < shape.h.in && ix >= 0 && ix < shape.w.in;
          pixels.at[t][tap] = inside ? x_image + (iy * shape.w.in + ix) * channels : args.padding;
        }
      }
      if (taps % 2 != 0) pixels.at[t][taps] = args.padding;
    }
    for (int64_t c = 0; c < whole; c += kDwBlock) {
      Int8Tile(args, pixels, taps, c, count, (out_row * shape.w.out + ox) * channels, residual, y);
    }
  }
  if (whole < channels) Int8RowAny(args, x_image, oy, out_row, whole, residual, y);
}

void Int8Rows(const DwInt8Args& args, const uint8_t* x, const void* residual, void* y, int64_t begin, int64_t end) {
  const DwShape& shape = args.shape;
  if (shape.taps() >= kMaxTaps) return Int8RowsPlain(args, x, residual, y, begin, end);
  for (int64_t row = begin; row < end; ++row) {
    const uint8_t* x_image = x + row / shape.h.out * shape.h.in * shape.w.in * shape.channels;
    Int8Row(args, x_image, row % shape.h.out, row, residual, y);
  }
}

}  // namespace

extern const DwTable kDwTable = {Int8Rows, FloatRows};

}  // namespace evoq::avx2
