// int8 depthwise rows with 16-bit multiply-add. Square kernels of 3, 5 and 7 take the walk; for
// others, two taps of 16 channels beside each other make eight-lane sums of two products. A tile is
// kBytesTile outputs of one row, which share the interleaved weights.
#define EVOQ_ISA avx2
#include "kernels/dwconv/dwconv_f32.inl.h"
#include "kernels/dwconv/dwconv_int8.inl.h"
#include "kernels/dwconv/dwconv_walk.inl.h"
#include "kernels/part_of_vector.inl.h"
#include "kernels/variants.h"

namespace evoq::avx2 {
namespace {

constexpr int kBytesTile = 4;
constexpr int64_t kMaxTaps = 50;  // of the pointer table; larger kernels take the plain rows

// Pointers to the pixel under each tap of each output of a tile; an odd number of taps gets one of
// padding.
struct TilePixels {
  const uint8_t* at[kBytesTile][kMaxTaps];
};

inline __m256i Words(const uint8_t* p) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// Channels [c, c + 16) of a tile.
inline void Int8Tile(const DwInt8Args& args, const TilePixels& pixels, int64_t taps, int64_t c,
                     int count, int64_t at, const void* residual, void* y) {
  const int64_t padded = args.shape.blocks() * kDwBlock;
  __m256i low[kBytesTile], high[kBytesTile];  // channels 0-3 and 8-11, 4-7 and 12-15
  for (int t = 0; t < kBytesTile; ++t) low[t] = high[t] = _mm256_setzero_si256();
  for (int64_t tap = 0; tap < taps; tap += 2) {
    const __m256i w0 =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(args.taps + tap * padded + c));
    const __m256i w1 = tap + 1 < taps ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(
                                            args.taps + (tap + 1) * padded + c))
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
    const __m256i first = _mm256_permute2x128_si256(low[t], high[t], 0x20),
                  second = _mm256_permute2x128_si256(low[t], high[t], 0x31);
    _mm256_store_si256(reinterpret_cast<__m256i*>(acc), _mm256_add_epi32(first, bias0));
    _mm256_store_si256(reinterpret_cast<__m256i*>(acc + 8), _mm256_add_epi32(second, bias1));
    FinishPixel(args, acc, c, kDwBlock, at + t * args.shape.channels + c, residual, y);
  }
}

void Int8Row(const DwInt8Args& args, const uint8_t* x_image, int64_t oy, int64_t out_row,
             const void* residual, void* y) {
  const DwShape& shape = args.shape;
  const int64_t channels = shape.channels, whole = channels / kDwBlock * kDwBlock,
                taps = shape.taps();
  for (int64_t ox = 0; ox < shape.w.out && whole > 0; ox += kBytesTile) {
    const int count =
        static_cast<int>(shape.w.out - ox < kBytesTile ? shape.w.out - ox : kBytesTile);
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

// The walk's machine: two vertical taps of 8 channels to a vector. The last block may have fewer
// than 16 channels: those of the next pixel lie behind them, but for the end of a row.
template <int K, int S>
struct Ring {
  using V = __m256i;
  static constexpr int kK = K, kS = S, kGroups = (K + 1) / 2, kAll = 2;
  struct RowPointers {
    const uint8_t* at[K];
  };

  const DwInt8Args& args;
  const int32_t* bias;
  const float* multiplier;
  const __m256i* weights;
  const V outside;
  const int64_t channels;    // of the block
  const int64_t last_whole;  // the last offset from which 16 bytes of a row may be read

  Ring(const DwInt8Args& a, const RingWalk& walk)
      : args(a),
        bias(a.bias + walk.block.channel),
        multiplier(a.multiplier + walk.block.channel),
        weights(static_cast<const __m256i*>(a.ring) + walk.index * (K * kGroups * 2)),
        outside(_mm256_set1_epi16(a.padding[0])),
        channels(walk.block.channels),
        last_whole(a.shape.w.in * a.shape.channels - walk.block.channel - kDwBlock) {}

  static RowPointers Rows(const RingWalk& walk) {
    RowPointers rows;
    for (int ky = 0; ky < K; ++ky) rows.at[ky] = walk.rows[0][ky];
    return rows;
  }
  V Outside() const { return outside; }
  V Bias(int j) const { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bias) + j); }
  V Weights(int tap, int j) const { return _mm256_load_si256(weights + 2 * tap + j); }
  static V Dot(V acc, V x, V w) { return _mm256_add_epi32(acc, _mm256_madd_epi16(x, w)); }
  V More(V acc, V, int, int) const { return acc; }

  template <int kFirst, int kVectors>
  void Column(const RowPointers& rows, int64_t offset, V* x) const {
    offset > last_whole ? Part<kFirst, kVectors>(rows, offset, x)
                        : Whole<kFirst, kVectors>(rows, offset, x);
  }

  template <int kFirst, int kVectors>
  [[gnu::noinline]] void Part(const RowPointers& rows, int64_t offset, V* x) const {
    alignas(16) uint8_t part[K][kDwBlock] = {};
    RowPointers copies;
    for (int ky = 0; ky < K; ++ky) {
      for (int64_t c = 0; c < channels; ++c) part[ky][c] = rows.at[ky][offset + c];
      copies.at[ky] = part[ky];
    }
    Whole<kFirst, kVectors>(copies, 0, x);
  }

  template <int kFirst, int kVectors>
  static void Whole(const RowPointers& rows, int64_t offset, V* x) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g, x += kVectors) {
      const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows.at[2 * g] + offset));
      const __m128i b = 2 * g + 1 < K ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(
                                            rows.at[2 * g + (2 * g + 1 < K)] + offset))
                                      : _mm_setzero_si128();
      if (kFirst == 0) x[0] = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b));
      if (kFirst + kVectors == 2) x[1 - kFirst] = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b));
    }
  }

  void Store(const RingWalk& walk, const V* acc, int64_t offset, const void* residual,
             void* y) const {
    if (!args.plain) {
      alignas(32) int32_t sums[kDwBlock];
      _mm256_store_si256(reinterpret_cast<__m256i*>(sums), acc[0]);
      _mm256_store_si256(reinterpret_cast<__m256i*>(sums) + 1, acc[1]);
      return FinishPixel(args, sums, walk.block.channel, channels, walk.y[0] + offset, residual, y);
    }
    __m256i q[2];
    for (int j = 0; j < 2; ++j) {
      __m256 v = _mm256_mul_ps(_mm256_cvtepi32_ps(acc[j]), _mm256_loadu_ps(multiplier + 8 * j));
      v = _mm256_min_ps(_mm256_set1_ps(args.bounds.high),
                        _mm256_max_ps(_mm256_set1_ps(args.bounds.low), v));
      q[j] = _mm256_add_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(args.bounds.zero));
    }
    const __m256i words = _mm256_packs_epi32(q[0], q[1]);
    const __m256i bytes = _mm256_packus_epi16(words, words);  // channels 0-3, 8-11 and 4-7, 12-15
    const __m128i all =
        _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
    uint8_t* to = static_cast<uint8_t*>(y) + walk.y[0] + offset;
    if (channels == kDwBlock) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), all);
    } else {
      StorePart(to, all, channels);
    }
  }
};

RingFn RingFor(const DwInt8Args& args) {
  const int64_t k = args.shape.w.kernel, s = args.shape.w.stride;
  if constexpr (HasDepthwiseVariant(5)) {
    if (k == 5) return s == 1 ? WalkRow<Ring<5, 1>> : WalkRow<Ring<5, 2>>;
    if (k == 7) return s == 1 ? WalkRow<Ring<7, 1>> : WalkRow<Ring<7, 2>>;
  }
  return s == 1 ? WalkRow<Ring<3, 1>> : WalkRow<Ring<3, 2>>;
}

void Int8Rows(const DwInt8Args& args, const uint8_t* x, const void* residual, void* y,
              int64_t begin, int64_t end) {
  const DwShape& shape = args.shape;
  if (args.ring != nullptr) {
    const RingFn run = RingFor(args);
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t block = 0; block < shape.blocks(); ++block)
        RingRows(args, run, block, x, residual, y, row, row + 1);
    }
    return;
  }
  if (shape.taps() >= kMaxTaps) return Int8RowsPlain(args, x, residual, y, begin, end);
  for (int64_t row = begin; row < end; ++row) {
    const uint8_t* x_image = x + row / shape.h.out * shape.h.in * shape.w.in * shape.channels;
    Int8Row(args, x_image, row % shape.h.out, row, residual, y);
  }
}

}  // namespace

extern const DwTable kDwTable = {
    .int8_rows = Int8Rows, .float_rows = RowsOf<float>, .ring_lanes = 16};

}  // namespace evoq::avx2
