// Winograd's transforms on vectors of kLanes channels. Included by winograd_f32_ISA.cc.
#include <cstring>

#include "kernels/conv/winograd_f32_tile.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace evoq::EVOQ_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
using Vec = __m512;
inline Vec MulAdd(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline Vec Max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
inline Vec Min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
#elif defined(__AVX2__)
constexpr int kLanes = 8;
using Vec = __m256;
inline Vec MulAdd(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
inline Vec Max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
inline Vec Min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
#else
constexpr int kLanes = 4;
typedef float Vec __attribute__((vector_size(16)));
inline Vec MulAdd(Vec a, Vec b, Vec c) { return a * b + c; }
inline Vec Max(Vec a, Vec b) { return a > b ? a : b; }
inline Vec Min(Vec a, Vec b) { return a < b ? a : b; }
#endif

inline Vec Set(float v) { return Vec{} + v; }
inline Vec Load(const float* p) {
  Vec v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
inline void Store(float* p, Vec v) { std::memcpy(p, &v, sizeof(v)); }
// The first n < kLanes lanes.
inline Vec LoadSome(const float* p, int64_t n) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p);
#else
  Vec v = {};
  std::memcpy(&v, p, static_cast<size_t>(n) * sizeof(float));
  return v;
#endif
}
[[maybe_unused]] inline void StoreSome(float* p, Vec v, int64_t n) {
  std::memcpy(p, &v, static_cast<size_t>(n) * sizeof(float));
}

#if defined(__AVX512F__)
// Of bfloat16.
inline Vec Widened(__m256i bits) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
inline Vec Load(const uint16_t* p) {
  return Widened(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline Vec LoadSome(const uint16_t* p, int64_t n) {
  return Widened(_mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << n) - 1), p));
}
#endif

template <int kM>
struct Points;

template <>
struct Points<2> {
  [[gnu::always_inline]] static void Input(const Vec (&d)[4], Vec (&v)[4]) {
    v[0] = d[2] - d[0];
    v[1] = d[2] + d[1];
    v[2] = d[2] - d[1];
    v[3] = d[3] - d[1];
  }
  [[gnu::always_inline]] static void Output(const Vec (&s)[4], Vec (&y)[2]) {
    y[0] = (s[0] + s[1]) + s[2];
    y[1] = (s[1] - s[2]) + s[3];
  }
  static constexpr double kPoint[3] = {0, 1, -1};
};

template <>
struct Points<4> {
  static constexpr float a = 0.625f, b = 1.5f, aa = a * a, bb = b * b;
  [[gnu::always_inline]] static void Input(const Vec (&d)[6], Vec (&v)[6]) {
    v[0] = MulAdd(d[0], Set(aa * bb), MulAdd(d[2], Set(-(aa + bb)), d[4]));
    v[5] = MulAdd(d[1], Set(aa * bb), MulAdd(d[3], Set(-(aa + bb)), d[5]));
    const Vec even_a = MulAdd(d[2], Set(-bb), d[4]), odd_a = MulAdd(d[1], Set(-bb), d[3]);
    v[1] = MulAdd(odd_a, Set(a), even_a);
    v[2] = MulAdd(odd_a, Set(-a), even_a);
    const Vec even_b = MulAdd(d[2], Set(-aa), d[4]), odd_b = MulAdd(d[1], Set(-aa), d[3]);
    v[3] = MulAdd(odd_b, Set(b), even_b);
    v[4] = MulAdd(odd_b, Set(-b), even_b);
  }
  [[gnu::always_inline]] static void Output(const Vec (&s)[6], Vec (&y)[4]) {
    const Vec even_a = s[1] + s[2], odd_a = s[1] - s[2], even_b = s[3] + s[4], odd_b = s[3] - s[4];
    y[0] = (s[0] + even_a) + even_b;
    y[1] = MulAdd(odd_b, Set(b), odd_a * Set(a));
    y[2] = MulAdd(even_b, Set(bb), even_a * Set(aa));
    y[3] = MulAdd(odd_b, Set(bb * b), MulAdd(odd_a, Set(aa * a), s[5]));
  }
  static constexpr double kPoint[5] = {0, a, -a, b, -b};
};

template <int kM, typename T>
void TransformInput(const T* const* pixels, int64_t channels, int64_t position_stride, float* v) {
  constexpr int kN = kM + 2;
  for (int64_t c = 0; c < channels; c += kLanes) {
    Vec half[kN][kN];  // B^T d
    const int64_t left = channels - c;
#pragma GCC unroll 6
    for (int j = 0; j < kN; ++j) {
      Vec d[kN], t[kN];
#pragma GCC unroll 6
      for (int i = 0; i < kN; ++i)
        d[i] =
            left >= kLanes ? Load(pixels[i * kN + j] + c) : LoadSome(pixels[i * kN + j] + c, left);
      Points<kM>::Input(d, t);
#pragma GCC unroll 6
      for (int i = 0; i < kN; ++i) half[i][j] = t[i];
    }
#pragma GCC unroll 6
    for (int i = 0; i < kN; ++i) {
      Vec t[kN];
      Points<kM>::Input(half[i], t);
#pragma GCC unroll 6
      for (int j = 0; j < kN; ++j) Store(v + (i * kN + j) * position_stride + c, t[j]);
    }
  }
}

inline Vec Finish(const WinogradOutputF32& o, Vec v) {
  if (o.bounds.leaky) {
#if defined(__AVX512F__)
    v = _mm512_mask_mul_ps(v, _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ), v,
                           Set(o.bounds.slope));
#else
    const auto negative = v < Vec{};
    v = negative ? v * Set(o.bounds.slope) : v;
#endif
  }
  return Min(Set(o.bounds.high),
             Max(Set(o.bounds.low), v));  // both keep a NaN in their second operand
}

// At column `at` of the tile's, of which `left` are there.
#if defined(__AVX512F__)
inline __mmask16 Lanes(int64_t left) {
  return static_cast<__mmask16>(left >= kLanes ? 0xffff : (1u << left) - 1);
}
inline Vec LoadResidual(const WinogradOutputF32& o, int64_t at, int64_t left) {
  if (!o.residual_bf16)
    return _mm512_maskz_loadu_ps(Lanes(left), static_cast<const float*>(o.residual) + at);
  return Widened(
      _mm256_maskz_loadu_epi16(Lanes(left), static_cast<const uint16_t*>(o.residual) + at));
}
// bfloat16 as FloatToBfloat16 of tensor/dtype.h.
inline void StoreOutput(const WinogradOutputF32& o, int64_t at, int64_t left, Vec v) {
  if (!o.y_bf16) return _mm512_mask_storeu_ps(static_cast<float*>(o.y) + at, Lanes(left), v);
  const __m512i bits = _mm512_castps_si512(v), half = _mm512_srli_epi32(bits, 16);
  const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)),
                                           _mm512_and_si512(half, _mm512_set1_epi32(1)));
  const __m512i narrow =
      _mm512_mask_or_epi32(_mm512_srli_epi32(rounded, 16), _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q),
                           half, _mm512_set1_epi32(0x40));
  _mm256_mask_storeu_epi16(static_cast<uint16_t*>(o.y) + at, Lanes(left),
                           _mm512_cvtepi32_epi16(narrow));
}
#else
inline Vec LoadResidual(const WinogradOutputF32& o, int64_t at, int64_t left) {
  const float* p = static_cast<const float*>(o.residual) + at;
  return left >= kLanes ? Load(p) : LoadSome(p, left);
}
inline void StoreOutput(const WinogradOutputF32& o, int64_t at, int64_t left, Vec v) {
  float* p = static_cast<float*>(o.y) + at;
  left >= kLanes ? Store(p, v) : StoreSome(p, v, left);
}
#endif

template <int kM>
void TransformOutput(const WinogradOutputF32& o) {
  constexpr int kN = kM + 2;
  for (int64_t c = 0; c < o.columns; c += kLanes) {
    Vec half[kM][kN];  // A^T product
    const int64_t left = o.columns - c;
#pragma GCC unroll 6
    for (int j = 0; j < kN; ++j) {
      Vec s[kN], t[kM];
#pragma GCC unroll 6
      for (int i = 0; i < kN; ++i) s[i] = Load(o.product + (i * kN + j) * o.position_stride + c);
      Points<kM>::Output(s, t);
#pragma GCC unroll 4
      for (int i = 0; i < kM; ++i) half[i][j] = t[i];
    }
    Vec bias = {};
    if (o.bias != nullptr) bias = left >= kLanes ? Load(o.bias + c) : LoadSome(o.bias + c, left);
#pragma GCC unroll 4
    for (int i = 0; i < kM; ++i) {
      if (i >= o.lines) break;
      Vec t[kM];
      Points<kM>::Output(half[i], t);
#pragma GCC unroll 4
      for (int j = 0; j < kM; ++j) {
        if (j >= o.pixels) break;
        const int64_t at = i * o.line_stride + j * o.pixel_stride + c;
        Vec v = t[j] + bias;
        if (o.residual != nullptr) v = v + LoadResidual(o, at, left);
        StoreOutput(o, at, left, Finish(o, v));
      }
    }
  }
}

template <int kM>
void TransformWeights(const float* g, int64_t tap_stride, int64_t position_stride, float* u) {
  constexpr int kN = kM + 2;
  double matrix[kN][3] = {};  // G
  for (int i = 0; i + 1 < kN; ++i) {
    double divisor = 1;
    for (int j = 0; j + 1 < kN; ++j) {
      if (j != i) divisor *= Points<kM>::kPoint[i] - Points<kM>::kPoint[j];
    }
    const double p = Points<kM>::kPoint[i];
    matrix[i][0] = 1 / divisor, matrix[i][1] = p / divisor, matrix[i][2] = p * p / divisor;
  }
  matrix[kN - 1][2] = 1;
  double half[kN][3][16];  // G g
  for (int i = 0; i < kN; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int lane = 0; lane < 16; ++lane)
        half[i][j][lane] = matrix[i][0] * g[j * tap_stride + lane] +
                           matrix[i][1] * g[(3 + j) * tap_stride + lane] +
                           matrix[i][2] * g[(6 + j) * tap_stride + lane];
    }
  }
  for (int i = 0; i < kN; ++i) {
    for (int j = 0; j < kN; ++j) {
      float* to = u + (i * kN + j) * position_stride;
      for (int lane = 0; lane < 16; ++lane)
        to[lane] =
            static_cast<float>(matrix[j][0] * half[i][0][lane] + matrix[j][1] * half[i][1][lane] +
                               matrix[j][2] * half[i][2][lane]);
    }
  }
}

template <int kM>
constexpr decltype(WinogradFnsF32::input_bf16) kInputBf16 =
#if defined(__AVX512F__)
    TransformInput<kM, uint16_t>;
#else
    nullptr;
#endif

}  // namespace

extern const WinogradTable kWinogradTable;
const WinogradTable kWinogradTable = {
    .two = {TransformInput<2, float>, kInputBf16<2>, TransformOutput<2>, TransformWeights<2>},
    .four = {TransformInput<4, float>, kInputBf16<4>, TransformOutput<4>, TransformWeights<4>},
};

}  // namespace evoq::EVOQ_ISA
