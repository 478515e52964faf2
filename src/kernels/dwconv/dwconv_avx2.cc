// int8 depthwise rows without VNNI: square kernels of 3, 5 and 7 with float32 multiply-add, others
// with lines of taps and 16-bit multiply-add.
#define EVOQ_ISA avx2
#include <cmath>

#include "kernels/dwconv/dwconv_f32.inl.h"
#include "kernels/dwconv/dwconv_int8.inl.h"
#include "kernels/dwconv/dwconv_lines.inl.h"
#include "kernels/part_of_vector.inl.h"
#include "kernels/variants.h"

namespace evoq::avx2 {
namespace {

// Finishes n channels, from c on, of the output at `at`.
inline void FinishSums(const DwInt8Args& args, const __m256i* acc, int64_t c, int64_t n, int64_t at,
                       const void* residual, void* y) {
  if (!args.plain) {
    alignas(32) int32_t sums[kDwBlock];
    _mm256_store_si256(reinterpret_cast<__m256i*>(sums), acc[0]);
    _mm256_store_si256(reinterpret_cast<__m256i*>(sums) + 1, acc[1]);
    return FinishPixel(args, sums, c, n, at, residual, y);
  }
  __m256i q[2];
  for (int j = 0; j < 2; ++j) {
    __m256 v =
        _mm256_mul_ps(_mm256_cvtepi32_ps(acc[j]), _mm256_loadu_ps(args.multiplier + c + 8 * j));
    v = _mm256_min_ps(_mm256_set1_ps(args.bounds.high),
                      _mm256_max_ps(_mm256_set1_ps(args.bounds.low), v));
    q[j] = _mm256_add_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(args.bounds.zero));
  }
  const __m256i words = _mm256_packs_epi32(q[0], q[1]);
  const __m256i bytes = _mm256_packus_epi16(words, words);  // channels 0-3, 8-11 and 4-7, 12-15
  const __m128i all =
      _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
  uint8_t* to = static_cast<uint8_t*>(y) + at;
  if (n == kDwBlock) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), all);
  } else {
    StorePart(to, all, n);
  }
}

struct LineMachine {
  using V = __m256i;
  static constexpr int kTaps = 2, kVectors = 2;

  const DwInt8Args& args;

  void Operands(const uint8_t* const* pixels, int64_t step, int64_t c, int64_t n, V* x) const {
    __m128i p[2];
    for (int i = 0; i < 2; ++i) {
      const uint8_t* const from = pixels[i * step] + c;
      if (n == kDwBlock) {
        p[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
      } else {
        alignas(16) uint8_t part[kDwBlock] = {};
        std::memcpy(part, from, static_cast<size_t>(n));
        p[i] = _mm_load_si128(reinterpret_cast<const __m128i*>(part));
      }
    }
    Keep(x, _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(p[0], p[1])));
    Keep(x + 1, _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(p[0], p[1])));
  }
  V Bias(int64_t c, int j) const {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(args.bias + c) + j);
  }
  static V Load(const V* p) { return _mm256_load_si256(p); }
  static void Keep(V* p, V v) { _mm256_store_si256(p, v); }
  static V Dot(V acc, V x, V w) { return _mm256_add_epi32(acc, _mm256_madd_epi16(x, w)); }
  void Store(const V* acc, int64_t c, int64_t n, int64_t at, const void* residual, void* y) const {
    FinishSums(args, acc, c, n, at, residual, y);
  }
};

// Square kernels of 3, 5 and 7: bytes are converted to float32 on the way, as one multiply-add then
// takes the place of a 16-bit product and an addition. At most 49 products of bytes add up to less
// than 2^22, which float32 holds exactly beside a bias below 2^23.
class ByteTile {
 public:
  ByteTile(const DwInt8Args& args, const void* residual, void* y)
      : args_(args),
        residual_(residual),
        y_(y),
        lowest_(Bound(args.bounds.low)),
        highest_(Bound(args.bounds.high)) {}

  // Channels [c, c + n) of `count` outputs, the first of which is at `at` of y. The pixels have
  // kLanes bytes from c on.
  template <int K, int S, int kOutputs>
  [[gnu::always_inline]] inline void Run(const FloatPixels<K, S, kOutputs, uint8_t>& pixels,
                                         int count, int64_t c, int n, int64_t at) const {
    const DwShape& shape = args_.shape;
    const __m256i bias = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(args_.bias + c)),
                  small = _mm256_cmpgt_epi32(_mm256_set1_epi32(1 << 23), _mm256_abs_epi32(bias)),
                  rest = _mm256_andnot_si256(small, bias);
    Vec acc[kOutputs];
#pragma GCC unroll 8
    for (Vec& sum : acc) sum = _mm256_cvtepi32_ps(_mm256_and_si256(small, bias));
    AddTaps<K, S, kOutputs, false>(pixels, args_.float_taps, shape.blocks() * kDwBlock, c, kLanes,
                                   acc);
    const int64_t step = shape.w.dilation * shape.channels;
    if (!args_.plain || !_mm256_testz_si256(rest, rest)) [[unlikely]] {
      alignas(32) float sums[kOutputs * kLanes];  // whose address may be taken
#pragma GCC unroll 8
      for (int t = 0; t < kOutputs; ++t) _mm256_store_ps(sums + t * kLanes, acc[t]);
      return FinishAny(sums, rest, count, c, n, at, step);
    }
#pragma GCC unroll 8
    for (int t = 0; t < kOutputs; t += 4) {
      if (t >= count) break;
      const auto words = [&](int i) {
        return Words(acc[i], acc[i + 1 < kOutputs ? i + 1 : i], args_.multiplier + c);
      };
      const __m256i first = words(t), second = t + 2 < kOutputs ? words(t + 2) : first;
      Store(first, second, count - t, n, static_cast<uint8_t*>(y_) + at + t * step, step);
    }
  }

 private:
  __m256i Bound(float bound) const {  // with the zero point, of `plain` bytes
    if (!args_.plain) return __m256i{};
    const int32_t byte = static_cast<int32_t>(std::nearbyint(bound)) + args_.bounds.zero;
    return _mm256_set1_epi8(static_cast<char>(byte));
  }
  // Channels 0-3 of both outputs, then 4-7.
  __m256i Words(Vec a, Vec b, const float* multiplier) const {
    const __m256 m = _mm256_loadu_ps(multiplier);
    const __m256i both = _mm256_packs_epi32(_mm256_cvtps_epi32(_mm256_mul_ps(a, m)),
                                            _mm256_cvtps_epi32(_mm256_mul_ps(b, m)));
    return _mm256_adds_epi16(both, _mm256_set1_epi16(static_cast<int16_t>(args_.bounds.zero)));
  }
  // At most four outputs.
  void Store(__m256i first, __m256i second, int count, int n, uint8_t* to, int64_t step) const {
    const __m256i packed = _mm256_packus_epi16(first, second);
    const __m256i bytes =
        _mm256_permutevar8x32_epi32(_mm256_min_epu8(_mm256_max_epu8(packed, lowest_), highest_),
                                    _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    __m128i pair = _mm256_castsi256_si128(bytes);
    StoreEight(to, pair, n);
    if (count > 1) StoreEight(to + step, _mm_unpackhi_epi64(pair, pair), n);
    if (count < 3) return;
    pair = _mm256_extracti128_si256(bytes, 1);
    StoreEight(to + 2 * step, pair, n);
    if (count > 3) StoreEight(to + 3 * step, _mm_unpackhi_epi64(pair, pair), n);
  }
  static void StoreEight(uint8_t* to, __m128i bytes, int n) {
    if (n == kLanes) [[likely]] {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(to), bytes);
    } else {
      StorePart(to, bytes, n);
    }
  }
  [[gnu::noinline]] void FinishAny(const float* sums, __m256i rest, int count, int64_t c, int n,
                                   int64_t at, int64_t step) const {
    for (int t = 0; t < count; ++t) {
      alignas(32) int32_t integers[kLanes];
      const __m256i sum = _mm256_cvtps_epi32(_mm256_load_ps(sums + t * kLanes));
      _mm256_store_si256(reinterpret_cast<__m256i*>(integers), _mm256_add_epi32(sum, rest));
      FinishPixel<kLanes>(args_, integers, c, n, at + t * step, residual_, y_);
    }
  }

  const DwInt8Args& args_;
  const void* const residual_;
  void* const y_;
  const __m256i lowest_, highest_;
};

template <int K, int S>
void ByteRow(const DwInt8Args& args, const uint8_t* const* rows, int64_t channels,
             const ByteTile& tile, int64_t row) {
  const DwShape& shape = args.shape;
  const int64_t dilation = shape.w.dilation;
  FloatPixels<K, S, kTile, uint8_t> pixels(shape, args.padding, rows);
  FloatPixels<K, S, kNarrowTile, uint8_t> few(shape, args.padding, rows);
  const auto tiles = [&](auto& under, int64_t left, int count, int64_t at) {
    under.SetLeft(left);
    for (int64_t c = 0; c < channels; c += kLanes) {
      const int64_t n = channels - c < kLanes ? channels - c : kLanes;
      tile.Run(under, count, c, static_cast<int>(n), at + c);
    }
  };
  for (int64_t first = 0; first < dilation && first < shape.w.out; ++first) {
    for (int64_t ox = first; ox < shape.w.out; ox += kTile * dilation) {
      const int64_t left = ox * S - shape.w.pad, rest = (shape.w.out - 1 - ox) / dilation + 1,
                    at = (row * shape.w.out + ox) * shape.channels;
      if (rest <= kNarrowTile) {
        tiles(few, left, static_cast<int>(rest), at);
      } else {
        tiles(pixels, left, static_cast<int>(rest < kTile ? rest : kTile), at);
      }
    }
  }
}

template <int K, int S>
void ByteRows(const DwInt8Args& args, const uint8_t* x, const void* residual, void* y,
              int64_t begin, int64_t end) {
  const DwShape& shape = args.shape;
  const WindowDim& h = shape.h;
  const int64_t in_row = shape.w.in * shape.channels, all = shape.batch * h.in * in_row;
  const ByteTile tile(args, residual, y);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t image = row / h.out * h.in, oy = row % h.out, top = oy * h.stride - h.pad;
    const uint8_t* rows[K];
    int64_t last = 0;
    for (int64_t ky = 0; ky < K; ++ky) {
      const int64_t iy = top + ky * h.dilation;
      rows[ky] = iy >= 0 && iy < h.in ? x + (image + iy) * in_row : args.padding_row;
      if (iy >= 0 && iy < h.in) last = (image + iy + 1) * in_row;
    }
    // Behind the channels of a pixel lie those of the next one, whose taps are zeros; behind the
    // last pixel lies nothing.
    int64_t channels = shape.channels;
    if (channels % kLanes != 0 && last + kLanes > all) {
      channels -= channels % kDwBlock;
      Int8RowAny(args, x + image * in_row, oy, row, channels, residual, y);
    }
    ByteRow<K, S>(args, rows, channels, tile, row);
  }
}

auto SquareRows(const DwShape& shape) {
  const int64_t k = shape.w.kernel, s = shape.w.stride;
  if constexpr (HasDepthwiseVariant(5)) {
    if (k == 5) return s == 1 ? ByteRows<5, 1> : ByteRows<5, 2>;
    if (k == 7) return s == 1 ? ByteRows<7, 1> : ByteRows<7, 2>;
  }
  return s == 1 ? ByteRows<3, 1> : ByteRows<3, 2>;
}

void Int8Rows(const DwInt8Args& args, const uint8_t* x, const void* residual, void* y,
              int64_t begin, int64_t end) {
  if (args.square) return SquareRows(args.shape)(args, x, residual, y, begin, end);
  const LineMachine machine{args};
  Lines<LineMachine> lines(machine, args, x, residual, y);
  if (!lines.fits()) return Int8RowsPlain(args, x, residual, y, begin, end);
  lines.Rows(begin, end);
}

}  // namespace

extern const DwTable kDwTable = {
    .int8_rows = Int8Rows, .float_rows = RowsOf<float>, .squares = true, .pair_lines = true};

}  // namespace evoq::avx2
