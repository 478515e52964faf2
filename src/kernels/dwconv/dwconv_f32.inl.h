// Depthwise rows in float32 on vectors of kLanes channels, of values that are stored as T: float,
// uint16_t for bfloat16, or bytes (dwconv_bytes.inl.h). Included by dwconv_ISA.cc and
// dwconv_bf16_ISA.cc.
#include <cstring>

#include "kernels/bf16/bf16_vec.h"
#include "kernels/dwconv/dwconv.h"
#include "kernels/variants.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace evoq::EVOQ_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
using Vec = __m512;
inline Vec MulAdd(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
#elif defined(__AVX2__)
constexpr int kLanes = 8;
using Vec = __m256;
inline Vec MulAdd(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
#elif defined(__aarch64__)
constexpr int kLanes = 4;
using Vec = float32x4_t;
inline Vec MulAdd(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
#else
constexpr int kLanes = 4;
typedef float Vec __attribute__((vector_size(16)));
inline Vec MulAdd(Vec a, Vec b, Vec c) { return a * b + c; }
#endif

template <bool kTail>
inline Vec Load(const float* p, int n) {
  Vec v = {};
#if defined(__AVX512F__)
  if (kTail) return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p);
#elif defined(__AVX2__)
  if (kTail) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane));
  }
#endif
  std::memcpy(&v, p, (kTail ? n : kLanes) * sizeof(float));
  return v;
}
template <bool kTail>
inline void Store(float* p, Vec v, int n) {
#if defined(__AVX512F__)
  if (kTail) return _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), v);
#elif defined(__AVX2__)
  if (kTail) {  // masked stores are microcode on AMD's processors
    __m128 part = _mm256_castps256_ps128(v);
    if (n & 4) _mm_storeu_ps(p, part), p += 4, part = _mm256_extractf128_ps(v, 1);
    if (n & 2)
      _mm_storel_pi(reinterpret_cast<__m64*>(p), part), p += 2, part = _mm_movehl_ps(part, part);
    if (n & 1) _mm_store_ss(p, part);
    return;
  }
#endif
  std::memcpy(p, &v, (kTail ? n : kLanes) * sizeof(float));
}

// bfloat16.
template <bool kTail>
inline Vec Load(const uint16_t* p, int n) {
#if defined(__AVX512F__)
  const __m256i bits = kTail ? _mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << n) - 1), p)
                             : _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
#else
  evoq::Vec<uint16_t, kLanes> bits = {};
  std::memcpy(&bits, p, (kTail ? n : kLanes) * sizeof(uint16_t));
  const auto wide = LoadBf16<kLanes>(reinterpret_cast<const uint16_t*>(&bits));
  Vec v;
  std::memcpy(&v, &wide, sizeof(v));
  return v;
#endif
}
template <bool kTail>
inline void Store(uint16_t* p, Vec v, int n) {
  evoq::Vec<float, kLanes> wide;
  std::memcpy(&wide, &v, sizeof(v));
  if (!kTail) return StoreBf16<kLanes>(p, wide);
  uint16_t bits[kLanes];
  StoreBf16<kLanes>(bits, wide);
  std::memcpy(p, bits, n * sizeof(uint16_t));
}

// Bytes.
#if defined(__AVX512F__)
template <bool kTail>
inline Vec Load(const uint8_t* p, int n) {
  const __m128i bytes = kTail ? _mm_maskz_loadu_epi8(static_cast<__mmask16>((1u << n) - 1), p)
                              : _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
}
#elif defined(__AVX2__)
template <bool kTail>
inline Vec Load(const uint8_t* p, int) {
  static_assert(!kTail);
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
}
#endif

inline Vec Activate(const OutputBounds& bounds, Vec v) {
#if defined(__AVX512F__)
  if (bounds.leaky) {
    const __mmask16 negative = _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ);
    v = _mm512_mask_mul_ps(v, negative, v, _mm512_set1_ps(bounds.slope));
  }
  return _mm512_min_ps(_mm512_set1_ps(bounds.high), _mm512_max_ps(_mm512_set1_ps(bounds.low), v));
#elif defined(__AVX2__)
  if (bounds.leaky) {
    const Vec negative = _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_LT_OQ);
    v = _mm256_blendv_ps(v, _mm256_mul_ps(v, _mm256_set1_ps(bounds.slope)), negative);
  }
  return _mm256_min_ps(_mm256_set1_ps(bounds.high), _mm256_max_ps(_mm256_set1_ps(bounds.low), v));
#elif defined(__aarch64__)
  if (bounds.leaky) v = vbslq_f32(vcltzq_f32(v), vmulq_n_f32(v, bounds.slope), v);
  const Vec low = vdupq_n_f32(bounds.low), high = vdupq_n_f32(bounds.high);
  v = vbslq_f32(vcgtq_f32(low, v), low, v);  // of NaN, NaN
  return vbslq_f32(vcltq_f32(high, v), high, v);
#else
  float* e = reinterpret_cast<float*>(&v);
  for (int i = 0; i < kLanes; ++i) {
    float f = e[i];
    if (bounds.leaky) f = f < 0 ? f * bounds.slope : f;
    f = bounds.low > f ? bounds.low : f;
    e[i] = bounds.high < f ? bounds.high : f;
  }
  return v;
#endif
}

// Plain C++ has one code for all sizes, a tenth of the bytes of unrolled ones.
#if defined(__aarch64__)
constexpr bool kOwnRows = true;
#else
constexpr bool kOwnRows = kLanes > 4;
#endif
constexpr int kTile = 7;        // outputs of one row that are computed together,
constexpr int kNarrowTile = 3;  // or so many at its end

// y of `count` vectors that lie `step` elements apart, after their sums and residual. Constant
// indices keep `v` in registers.
template <int kOutputs, bool kTail, typename T>
[[gnu::always_inline]] inline void Finish(const DwFloatArgs& args, const Vec (&v)[kOutputs],
                                          int count, int64_t step, int n, T* y) {
  if (args.curve == nullptr && args.wide == nullptr) {
#pragma GCC unroll 8
    for (int t = 0; t < kOutputs; ++t) {
      if (t < count) Store<kTail>(y + t * step, Activate(args.bounds, v[t]), n);
    }
    return;
  }
  alignas(64) float values[kOutputs * kLanes];
#pragma GCC unroll 8
  for (int t = 0; t < kOutputs; ++t) Store<false>(values + t * kLanes, v[t], kLanes);
  if (args.curve != nullptr) args.curve(values, count * kLanes);
  for (int t = 0; t < count; ++t) {
    Vec result = Load<false>(values + t * kLanes, kLanes);
    if (args.curve == nullptr) result = Activate(args.bounds, result);
    if (args.wide == nullptr) {
      Store<kTail>(y + t * step, result, n);
    } else {
      Store<kTail>(args.wide + (y - reinterpret_cast<T*>(args.wide)) + t * step, result, n);
    }
  }
}

// The pixels under kernels K x K of kOutputs outputs of a row, a dilation apart.
template <int K, int S, int kOutputs, typename T>
class FloatPixels {
 public:
  static constexpr int kColumns = (kOutputs - 1) * S + K;

  // `rows` are null where they lie outside x; `zeros` is a pixel of what lies beside them.
  FloatPixels(const DwShape& shape, const void* zeros, const T* const* rows)
      : shape_(shape), zeros_(zeros), rows_(rows) {}

  // From column `left` of x on.
  void SetLeft(int64_t left) {
    const WindowDim& w = shape_.w;
    const int64_t bytes = shape_.channels * static_cast<int64_t>(sizeof(T));
    const bool inside = left >= 0 && left + (kColumns - 1) * w.dilation < w.in;
    if (inside && inside_) {  // many tiles are short: their table moves on
      for (auto& row : at_) {
        for (uintptr_t& pixel : row) pixel += static_cast<uintptr_t>((left - left_) * bytes);
      }
    } else {
      for (int ky = 0; ky < K; ++ky) {
        for (int i = 0; i < kColumns; ++i) {
          const int64_t column = left + i * w.dilation;
          at_[ky][i] = column < 0 || column >= w.in ? reinterpret_cast<uintptr_t>(zeros_)
                                                    : reinterpret_cast<uintptr_t>(rows_[ky]) +
                                                          static_cast<uintptr_t>(column * bytes);
        }
      }
    }
    inside_ = inside;
    left_ = left;
  }
  bool HasRow(int ky) const { return rows_[ky] != nullptr; }
  // `zeros` where the column lies outside x.
  const T* At(int ky, int column) const { return reinterpret_cast<const T*>(at_[ky][column]); }

 private:
  const DwShape& shape_;
  const void* const zeros_;
  const T* const* const rows_;
  uintptr_t at_[K][kColumns];  // numbers, which of rows outside x may be anything
  bool inside_ = false;
  int64_t left_ = 0;
};

// acc plus the products of a tile's taps, which lie `padded` apart, for channels [c, c + n): row by
// row of the kernel, whose weights stay in registers, each pixel loaded once.
template <int K, int S, int kOutputs, bool kTail, typename T>
[[gnu::always_inline]] inline void AddTaps(const FloatPixels<K, S, kOutputs, T>& pixels,
                                           const float* taps, int64_t padded, int64_t c, int n,
                                           Vec (&acc)[kOutputs]) {
#pragma GCC unroll 8
  for (int ky = 0; ky < K; ++ky) {
    if (!pixels.HasRow(ky)) continue;
    Vec row[K];
#pragma GCC unroll 8
    for (int kx = 0; kx < K; ++kx) row[kx] = Load<false>(taps + (ky * K + kx) * padded + c, kLanes);
#pragma GCC unroll 32
    for (int column = 0; column < pixels.kColumns; ++column) {
      const Vec v = Load<kTail>(pixels.At(ky, column) + c, n);
#pragma GCC unroll 8
      for (int kx = 0; kx < K; ++kx) {
        const int t = (column - kx) / S;
        if (column < kx || (column - kx) % S != 0 || t >= kOutputs) continue;
        acc[t] = MulAdd(v, row[kx], acc[t]);
      }
    }
  }
}

// Channels [c, c + n) of a tile's outputs, of which `count` are stored.
template <int K, int S, int kOutputs, bool kTail, typename T>
[[gnu::always_inline]] inline void FloatTile(const DwFloatArgs& args,
                                             const FloatPixels<K, S, kOutputs, T>& pixels,
                                             const T* residual, T* y, int count, int64_t c, int n) {
  const int64_t step = args.shape.w.dilation * args.shape.channels;
  Vec acc[kOutputs];
#pragma GCC unroll 8
  for (int t = 0; t < kOutputs; ++t) acc[t] = Load<false>(args.bias + c, kLanes);
  AddTaps<K, S, kOutputs, kTail>(pixels, args.taps, args.shape.blocks() * kDwBlock, c, n, acc);
  if (residual != nullptr) {
#pragma GCC unroll 8
    for (int t = 0; t < kOutputs; ++t) {
      if (t < count) acc[t] = acc[t] + Load<kTail>(residual + t * step + c, n);
    }
  }
  Finish<kOutputs, kTail>(args, acc, count, step, n, y + c);
}

// One tile of all channels.
template <int K, int S, int kOutputs, typename T>
void FloatTiles(const DwFloatArgs& args, const FloatPixels<K, S, kOutputs, T>& pixels,
                const T* residual, T* y, int count) {
  const int64_t channels = args.shape.channels;
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes)
    FloatTile<K, S, kOutputs, false, T>(args, pixels, residual, y, count, c, kLanes);
  if (c < channels)
    FloatTile<K, S, kOutputs, true, T>(args, pixels, residual, y, count, c,
                                       static_cast<int>(channels - c));
}

template <int K, int S, typename T>
void FloatRow(const DwFloatArgs& args, const T* const* rows, const T* residual, T* y) {
  const DwShape& shape = args.shape;
  const int64_t dilation = shape.w.dilation;
  FloatPixels<K, S, kTile, T> pixels(shape, args.zeros, rows);
  FloatPixels<K, S, kNarrowTile, T> few(shape, args.zeros, rows);
  for (int64_t first = 0; first < dilation && first < shape.w.out; ++first) {
    for (int64_t ox = first; ox < shape.w.out; ox += kTile * dilation) {
      const int64_t left = ox * S - shape.w.pad, at = ox * shape.channels,
                    rest = (shape.w.out - 1 - ox) / dilation + 1;
      const int count = static_cast<int>(rest < kTile ? rest : kTile);
      const T* r = residual == nullptr ? nullptr : residual + at;
      if (count <= kNarrowTile) {
        few.SetLeft(left);
        FloatTiles(args, few, r, y + at, count);
      } else {
        pixels.SetLeft(left);
        FloatTiles(args, pixels, r, y + at, count);
      }
    }
  }
}

// Kernels of more taps than FloatLine has room for: one output pixel at a time.
template <typename T>
void FloatRowAlone(const DwFloatArgs& args, const T* x_image, int64_t oy, const T* residual, T* y) {
  const DwShape& shape = args.shape;
  const int64_t channels = shape.channels, padded = shape.blocks() * kDwBlock;
  const int64_t y_begin = shape.h.TapBegin(oy), y_end = shape.h.TapEnd(oy),
                top = oy * shape.h.stride - shape.h.pad;
  for (int64_t ox = 0; ox < shape.w.out; ++ox) {
    const int64_t x_begin = shape.w.TapBegin(ox), x_end = shape.w.TapEnd(ox),
                  left = ox * shape.w.stride - shape.w.pad;
    for (int64_t c = 0; c < channels; c += kLanes) {
      const int n = static_cast<int>(channels - c < kLanes ? channels - c : kLanes);
      Vec acc[1] = {Load<false>(args.bias + c, kLanes)};
      for (int64_t i = y_begin; i < y_end; ++i) {
        const T* row = x_image + ((top + i * shape.h.dilation) * shape.w.in + left) * channels + c;
        const float* taps = args.taps + i * shape.w.kernel * padded + c;
        for (int64_t j = x_begin; j < x_end; ++j) {
          const T* p = row + j * shape.w.dilation * channels;
          const Vec x = n == kLanes ? Load<false>(p, n) : Load<true>(p, n);
          acc[0] = MulAdd(x, Load<false>(taps + j * padded, kLanes), acc[0]);
        }
      }
      if (residual != nullptr) acc[0] = acc[0] + Load<true>(residual + ox * channels + c, n);
      if (n == kLanes) {
        Finish<1, false>(args, acc, 1, channels, n, y + ox * channels + c);
      } else {
        Finish<1, true>(args, acc, 1, channels, n, y + ox * channels + c);
      }
    }
  }
}

// The pixels under a kernel of any size for `outputs` outputs of a row at a time. Outputs of a
// class share pixels: with stride 1 those that are a dilation apart. Pixels are counted within a
// class.
template <typename T>
class LinePixels {
 public:
  LinePixels(const DwShape& shape, const void* zeros, int outputs)
      : w_(shape.w),
        h_(shape.h),
        channels_(shape.channels),
        zeros_(static_cast<const T*>(zeros)),
        classes_(w_.stride == 1 && w_.kernel > 1 ? w_.dilation : 1),
        output_(w_.stride == 1 ? 1 : w_.stride),
        tap_(w_.stride == 1 ? 1 : w_.dilation),
        columns_((outputs - 1) * output_ + (w_.kernel - 1) * tap_ + 1) {}

  static constexpr int64_t kMostPixels = 1280;
  bool fits() const { return columns_ <= kMostPixels / h_.kernel; }

 protected:
  // Those of row i of the kernel, for output row oy and the outputs of a class from ox on.
  void Point(const T* image, int64_t i, int64_t oy, int64_t ox) {
    const int64_t iy = oy * h_.stride - h_.pad + i * h_.dilation;
    const bool inside = iy >= 0 && iy < h_.in;
    const T** const to = pixels_ + i * columns_;
    int64_t x = ox * w_.stride - w_.pad;
    for (int64_t p = 0; p < columns_; ++p, x += classes_)
      to[p] = inside && x >= 0 && x < w_.in ? image + (iy * w_.in + x) * channels_ : zeros_;
  }

  // acc[t] plus the products of row i of the kernel, whose weights lie `padded` apart. Channels c
  // to c + n - 1; with stride 1, kShared taps beside one another read each pixel once.
  template <int kOutputs, bool kTail>
  [[gnu::always_inline]] inline void AddRow(int64_t i, const float* taps, int64_t padded, int64_t c,
                                            int n, Vec (&acc)[kOutputs]) const {
    const T* const* const from = pixels_ + i * columns_;
    int64_t j = 0;
    if constexpr (sizeof(T) == 1) {  // what costs more to read is read less often
      for (; w_.stride == 1 && j + 2 * kShared <= w_.kernel; j += 2 * kShared)
        Add<2 * kShared, kOutputs, kTail>(from + j, taps + j * padded, padded, c, n, acc);
    }
    for (; w_.stride == 1 && j + kShared <= w_.kernel; j += kShared)
      Add<kShared, kOutputs, kTail>(from + j, taps + j * padded, padded, c, n, acc);
    for (; j < w_.kernel; ++j)
      Add<1, kOutputs, kTail>(from + j * tap_, taps + j * padded, padded, c, n, acc);
  }

  const WindowDim &w_, &h_;
  const int64_t channels_;
  const T* const zeros_;  // what lies beside x
  // From one output to the next and from one tap to the next, in pixels; pixels of a row.
  const int64_t classes_, output_, tap_, columns_;

 private:
  static constexpr int kShared = 3;

  template <int kTaps, int kOutputs, bool kTail>
  [[gnu::always_inline]] inline void Add(const T* const* from, const float* taps, int64_t padded,
                                         int64_t c, int n, Vec (&acc)[kOutputs]) const {
    Vec w[kTaps];
#pragma GCC unroll 8
    for (int k = 0; k < kTaps; ++k) w[k] = Load<false>(taps + k * padded, kLanes);
    if constexpr (kTaps == 1) {
#pragma GCC unroll 8
      for (int t = 0; t < kOutputs; ++t)
        acc[t] = MulAdd(Load<kTail>(from[t * output_] + c, n), w[0], acc[t]);
    } else {
#pragma GCC unroll 16
      for (int p = 0; p < kOutputs + kTaps - 1; ++p) {
        const Vec v = Load<kTail>(from[p] + c, n);
#pragma GCC unroll 8
        for (int k = 0; k < kTaps; ++k) {
          if (p >= k && p - k < kOutputs) acc[p - k] = MulAdd(v, w[k], acc[p - k]);
        }
      }
    }
  }

  const T* pixels_[kMostPixels];
};

// Kernels that have no code of their own: kTile outputs of a row at a time, which wait for one
// another's sums no longer than one alone would.
template <typename T>
class FloatLine : LinePixels<T> {
 public:
  FloatLine(const DwFloatArgs& args, int outputs)
      : LinePixels<T>(args.shape, args.zeros, outputs), args_(args) {}

  using LinePixels<T>::fits;

  // Output row oy of an image.
  template <int kOutputs>
  void Row(const T* image, int64_t oy, const T* residual, T* y) {
    const WindowDim& w = this->w_;
    const int64_t channels = this->channels_, classes = this->classes_;
    first_ = this->h_.TapBegin(oy), last_ = this->h_.TapEnd(oy);
    for (int64_t k = 0; k < classes && k < w.out; ++k) {
      for (int64_t ox = k; ox < w.out; ox += kOutputs * classes) {
        for (int64_t i = first_; i < last_; ++i) this->Point(image, i, oy, ox);
        const int64_t rest = (w.out - 1 - ox) / classes + 1, at = ox * channels;
        const int count = static_cast<int>(rest < kOutputs ? rest : kOutputs);
        const T* r = residual == nullptr ? nullptr : residual + at;
        int64_t c = 0;
        for (; c + kLanes <= channels; c += kLanes)
          Tile<kOutputs, false>(r, y + at, count, c, kLanes);
        if (c < channels) Tile<kOutputs, true>(r, y + at, count, c, static_cast<int>(channels - c));
      }
    }
  }

 private:
  // Channels [c, c + n) of a tile's outputs, of which `count` are stored.
  template <int kOutputs, bool kTail>
  void Tile(const T* residual, T* y, int count, int64_t c, int n) const {
    const int64_t step = this->classes_ * this->channels_, padded = args_.shape.blocks() * kDwBlock;
    Vec acc[kOutputs];
#pragma GCC unroll 8
    for (int t = 0; t < kOutputs; ++t) acc[t] = Load<false>(args_.bias + c, kLanes);
    for (int64_t i = first_; i < last_; ++i)
      this->template AddRow<kOutputs, kTail>(i, args_.taps + i * this->w_.kernel * padded + c,
                                             padded, c, n, acc);
    if (residual != nullptr) {
#pragma GCC unroll 8
      for (int t = 0; t < kOutputs; ++t) {
        if (t < count) acc[t] = acc[t] + Load<kTail>(residual + t * step + c, n);
      }
    }
    Finish<kOutputs, kTail>(args_, acc, count, step, n, y + c);
  }

  const DwFloatArgs& args_;
  int64_t first_ = 0, last_ = 0;  // taps down that lie inside x
};

// Row oy of an image, whose kernel has no code of its own.
template <typename T>
void FloatRowAny(const DwFloatArgs& args, const T* image, int64_t oy, const T* residual, T* y) {
  constexpr int kOutputs = kOwnRows ? kTile : kNarrowTile;
  FloatLine<T> line(args, kOutputs);
  if (line.fits()) return line.template Row<kOutputs>(image, oy, residual, y);
  FloatRowAlone(args, image, oy, residual, y);
}

template <typename T>
using FloatRowFn = void (*)(const DwFloatArgs&, const T* const*, const T*, T*);

template <typename T>
FloatRowFn<T> FixedFloatRow(const DwShape& shape) {
  const int64_t k = shape.w.kernel, s = shape.w.stride;
  if (shape.h.kernel != k || (s > 1 && shape.w.dilation > 1)) return nullptr;
  if constexpr (kOwnRows) {
    if (k == 3 && s == 1) return FloatRow<3, 1, T>;
    if (k == 3 && s == 2) return FloatRow<3, 2, T>;
    if constexpr (HasDepthwiseVariant(5)) {
      if (k == 5 && s == 1) return FloatRow<5, 1, T>;
      if (k == 5 && s == 2) return FloatRow<5, 2, T>;
      // Of bfloat16 with AVX2 it would be 40 kB, at most a quarter faster than FloatLine.
      if constexpr (sizeof(T) == 4 || kLanes > 8) {
        if (k == 7 && s == 1) return FloatRow<7, 1, T>;
      }
    }
  }
  return nullptr;
}

template <typename T>
void RowsOf(const DwFloatArgs& args, const T* x, const T* residual, T* y, int64_t begin,
            int64_t end) {
  const DwShape& shape = args.shape;
  const int64_t in_row = shape.w.in * shape.channels, out_row = shape.w.out * shape.channels;
  const FloatRowFn<T> fixed = FixedFloatRow<T>(shape);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t image = row / shape.h.out, oy = row % shape.h.out,
                  top = oy * shape.h.stride - shape.h.pad;
    const T* x_image = x + image * shape.h.in * in_row;
    const T* r = residual == nullptr ? nullptr : residual + row * out_row;
    if (fixed == nullptr) {
      FloatRowAny(args, x_image, oy, r, y + row * out_row);
      continue;
    }
    const T* rows[8];
    for (int64_t ky = 0; ky < shape.h.kernel; ++ky) {
      const int64_t iy = top + ky * shape.h.dilation;
      rows[ky] = iy >= 0 && iy < shape.h.in ? x_image + iy * in_row : nullptr;
    }
    fixed(args, rows, r, y + row * out_row);
  }
}

}  // namespace
}  // namespace evoq::EVOQ_ISA
