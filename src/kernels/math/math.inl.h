// The functions of math.h as inline code without branches, which compilers turn into vector code.
// In an unnamed namespace: see kernels/isa_table.h. Polynomials are minimax fits (Lawson-weighted
// least squares), with the fit's error relative to the function's value given beside each.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

// A loop is vectorized only when everything it calls is inlined, which long polynomials do not look
// worth.
#define EVOQ_INLINE inline __attribute__((always_inline))

namespace evoq {
namespace {

EVOQ_INLINE float FromBits(uint32_t bits) { return __builtin_bit_cast(float, bits); }
EVOQ_INLINE uint32_t ToBits(float x) { return __builtin_bit_cast(uint32_t, x); }

// The functions below whose argument is of type F take a float, or 16 of them: the same operations
// on each.
typedef float Floats16 __attribute__((vector_size(64)));
typedef uint32_t Bits16 __attribute__((vector_size(64)));
EVOQ_INLINE Floats16 FromBits(Bits16 bits) { return __builtin_bit_cast(Floats16, bits); }
EVOQ_INLINE Bits16 ToBits(Floats16 x) { return __builtin_bit_cast(Bits16, x); }
template <typename F>
EVOQ_INLINE F Splat(float x) {
  return F{} + x;
}

// Adding this rounds to an integer (ties to even) for |x| < 2^22, and leaves the integer in the low
// mantissa bits.
constexpr float kRoundMagic = 12582912.0f;  // 1.5 * 2^23
constexpr float kLn2High = 0.693359375f;    // ten bits: a product with an exponent is exact
constexpr float kLn2Low = -2.12194440e-4f;
constexpr float kInfinity = __builtin_inff();

// a b + c, rounded once: part of the definitions, in hardware or not.
EVOQ_INLINE float Fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
EVOQ_INLINE Floats16 Fma(Floats16 a, Floats16 b, Floats16 c) {
#ifdef __AVX512F__
  return _mm512_fmadd_ps(a, b, c);
#else
  for (int i = 0; i < 16; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
#endif
}
// The next step of Horner's rule.
template <typename F>
EVOQ_INLINE F Step(F p, F x, float coefficient) {
  return Fma(p, x, Splat<F>(coefficient));
}

// Below this e^x counts as 0: the next power of two is near the smallest normal number, and a
// denormal result takes an Intel core a hundred times as long, of every vector that has one.
constexpr float kLeastExp = -86.9f;

// y 2^n for an integer n in [-125, 128] and y in [1/2, 2], as 2 y 2^(n-1).
template <typename F>
EVOQ_INLINE F ScaleByPower(F y, F shifted) {
  return (y + y) * FromBits((ToBits(shifted) - (0x4B400000u - 126u)) << 23);
}

// r = x - n ln 2 in [-ln2/2, ln2/2]; e^r = 1 + r + r^2 P(r), fit 6e-11; times 2^n.
template <typename F>
EVOQ_INLINE F ExpInline(F x) {
  F c = x < kLeastExp ? Splat<F>(kLeastExp) : x;
  c = c > 89.0f ? Splat<F>(89.0f) : c;
#ifdef __AVX512F__  // one instruction each, with the results of the operations beside them
  F shifted = {}, n;
  if constexpr (sizeof(F) == 64) {
    n = _mm512_roundscale_ps(c * 1.44269504f, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  } else {
    shifted = c * 1.44269504f + kRoundMagic;
    n = shifted - kRoundMagic;
  }
#else
  const F shifted = c * 1.44269504f + kRoundMagic;
  const F n = shifted - kRoundMagic;
#endif
  const F r = Fma(n, Splat<F>(-kLn2Low), c - n * kLn2High);
  F p = Splat<F>(0.000197892659f);
  p = Step(p, r, 0.00139457535f);
  p = Step(p, r, 0.0083335042f);
  p = Step(p, r, 0.0416662805f);
  p = Step(p, r, 0.166666657f);
  p = Step(p, r, 0.5f);
  const F y = Fma(p, r * r, r) + 1.0f;
#ifdef __AVX512F__
  if constexpr (sizeof(F) == 64)
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(kLeastExp), _CMP_NLT_UQ), y,
                                  n);
#endif
  return x < kLeastExp ? F{} : ScaleByPower(y, shifted);
}

// x = 2^e m, m in [sqrt(1/2), sqrt 2), f = m - 1; log m = f - f^2/2 + f^3 P(f), fit 8e-10.
EVOQ_INLINE float LogInline(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const uint32_t bits = ToBits(tiny ? x * 8388608.0f : x) + (0x3f800000u - 0x3f3504f3u);
  const float e =
      static_cast<float>(static_cast<int32_t>(bits >> 23) - 127) - (tiny ? 23.0f : 0.0f);
  const float f = FromBits((bits & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
  const float z = f * f;
  float p = 0.0674660131f;
  p = p * f + -0.116756409f;
  p = p * f + 0.118881747f;
  p = p * f + -0.124055915f;
  p = p * f + 0.142195508f;
  p = p * f + -0.166679963f;
  p = p * f + 0.200021192f;
  p = p * f + -0.250000089f;
  p = p * f + 0.333333135f;
  float y = f * z * p;
  y = y + e * kLn2Low;
  y = y - 0.5f * z;
  y = (f + y) + e * kLn2High;
  y = x < kInfinity ? y : x;  // infinity and NaN
  y = x < 0.0f ? __builtin_nanf("") : y;
  return x == 0.0f ? -kInfinity : y;
}

// log(u) scaled by how much u = 1 + x was rounded.
EVOQ_INLINE float Log1pInline(float x) {
  const float u = 1.0f + x;
  const float scaled = LogInline(u) * (x / (u - 1.0f));
  const float y = u == 1.0f ? x : scaled;
  return x == kInfinity ? x : y;
}

// |x| < 0.625: x + x^3 P(x^2), fit 1.5e-10; else 1 - 2 / (e^2|x| + 1).
template <typename F>
EVOQ_INLINE F TanhInline(F x) {
  const F a = FromBits(ToBits(x) & 0x7fffffffu), z = x * x;
  F p = Splat<F>(0.00214752345f);
  p = Step(p, z, -0.00818265975f);
  p = Step(p, z, 0.021702962f);
  p = Step(p, z, -0.0539472029f);
  p = Step(p, z, 0.133332103f);
  p = Step(p, z, -0.333333313f);
  const F small = x + x * (z * p);
  const F large = 1.0f - 2.0f / (ExpInline(2.0f * a) + 1.0f);
  return a < 0.625f ? small : FromBits(ToBits(large) | (ToBits(x) & 0x80000000u));
}

template <typename F>
EVOQ_INLINE F SigmoidInline(F x) {
  return 1.0f / (1.0f + ExpInline(-x));
}
template <typename F>
EVOQ_INLINE F SiluInline(F x) {
  return x / (1.0f + ExpInline(-x));
}

// |x| < 1: x P(x^2), fit 3e-11; else 1 - e^-Q(|x|), fit 2e-11 up to 4, where erf is 1 in float32.
template <typename F>
EVOQ_INLINE F ErfInline(F x) {
  const F a = FromBits(ToBits(x) & 0x7fffffffu), z = x * x;
  F p = Splat<F>(-9.64151604e-06f);
  p = Step(p, z, 0.000112569476f);
  p = Step(p, z, -0.000848282885f);
  p = Step(p, z, 0.00522094546f);
  p = Step(p, z, -0.0268654004f);
  p = Step(p, z, 0.112837821f);
  p = Step(p, z, -0.376126379f);
  const F small = x * (p * z) + x * 1.12837923f;
  const F b = a > 4.0f ? Splat<F>(4.0f) : a;
  F q = Splat<F>(2.16976387e-05f);
  q = Step(q, b, -0.000441472919f);
  q = Step(q, b, 0.00420528604f);
  q = Step(q, b, -0.0252103414f);
  q = Step(q, b, 0.108422101f);
  q = Step(q, b, 0.633216381f);
  q = Step(q, b, 1.12958026f);
  q = Step(q, b, -0.000188467791f);
  const F large = 1.0f - ExpInline(-q);
  return a < 1.0f ? small : FromBits(ToBits(large) | (ToBits(x) & 0x80000000u));
}

EVOQ_INLINE float SoftplusInline(float x) {
  const float a = FromBits(ToBits(x) & 0x7fffffffu);
  return (x > 0.0f ? x : 0.0f) + Log1pInline(ExpInline(-a));
}
// x Phi(x) as max(x, 0) - |x| Phi(-|x|): Phi, of the normal distribution, loses nothing where it is
// small. log2 Phi(-c) is fit to 3e-8 of Phi near 0 and 2e-6 at 5.6, 2^r to 2e-9.
template <typename F>
EVOQ_INLINE F GeluInline(F x) {
  const F a = FromBits(ToBits(x) & 0x7fffffffu);
  const F c = a > 9.0f ? Splat<F>(9.0f) : a;  // 9 Phi(-9) < 1e-17
  F q = Splat<F>(-2.59678519e-08f);
  q = Step(q, c, 7.74533476e-07f);
  q = Step(q, c, -9.94823495e-06f);
  q = Step(q, c, 6.98591975e-05f);
  q = Step(q, c, -0.000254735176f);
  q = Step(q, c, -5.61016532e-05f);
  q = Step(q, c, 0.00702056987f);
  q = Step(q, c, -0.0524944179f);
  q = Step(q, c, -0.4592022f);
  q = Step(q, c, -1.1511066f);
  q = Step(q, c, -0.99999994f);
  const F shifted = q + kRoundMagic;
  const F r = q - (shifted - kRoundMagic);
  F p = Splat<F>(0.00015345811f);
  p = Step(p, r, 0.00133999309f);
  p = Step(p, r, 0.00961848907f);
  p = Step(p, r, 0.0555032864f);
  p = Step(p, r, 0.240226462f);
  p = Step(p, r, 0.693147182f);
  p = Step(p, r, 1.0f);
  const F below = p * FromBits((ToBits(shifted) - (0x4B400000u - 127u)) << 23);
  return Fma(-c, below, x > 0.0f ? x : F{});
}
// 0.5 (1 + tanh t) is 1 / (1 + e^-2t).
template <typename F>
EVOQ_INLINE F GeluTanhInline(F x) {
  return x / (1.0f + ExpInline(-1.59576912160573071f * (x + 0.044715f * (x * x * x))));
}
// NaN where either is NaN; the second of equals.
EVOQ_INLINE float MaximumInline(float a, float b) {
  const float larger = a > b ? a : b;  // b where one is NaN
  return a != a ? a : larger;
}
EVOQ_INLINE float MinimumInline(float a, float b) {
  const float smaller = a < b ? a : b;
  return a != a ? a : smaller;
}
EVOQ_INLINE float ClampUnit(float x) {
  const float low = 0.0f > x ? 0.0f : x;
  return 1.0f < low ? 1.0f : low;
}
EVOQ_INLINE float HardSigmoidInline(float x, float alpha, float beta) {
  return ClampUnit(alpha * x + beta);
}
EVOQ_INLINE float HardSwishInline(float x) { return x * ClampUnit(x / 6.0f + 0.5f); }

inline float PowInline(float x, float y) {
  if (y == 2.0f) return x * x;
  if (y == 3.0f) return x * x * x;
  if (y == 0.5f) return __builtin_sqrtf(x);
  if (y == 1.0f) return x;
  if (y == -1.0f) return 1.0f / x;
  if (y == 0.0f) return 1.0f;
  return __builtin_powf(x, y);
}

// p[j] = combine(p[j], p[j + kN / 2]), then kN / 4, ..., 1. Unrolled, so that p stays in registers.
template <int kN, typename Combine>
EVOQ_INLINE float Tree(const float* p, const Combine& combine) {
  if constexpr (kN == 1) {
    return p[0];
  } else {
    float q[kN / 2];
#pragma GCC unroll 32
    for (int j = 0; j < kN / 2; ++j) q[j] = combine(p[j], p[j + kN / 2]);
    return Tree<kN / 2>(q, combine);
  }
}

// The tree of SumF over terms term(i), i = 0..n-1, with kLanes partial results and any way to
// combine.
template <int kLanes, typename Term, typename Combine>
inline float Interleaved(int64_t n, float start, const Term& term, const Combine& combine) {
  float p[kLanes];
  for (int j = 0; j < kLanes; ++j) p[j] = start;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) p[j] = combine(p[j], term(i + j));
  }
  for (int j = 0; i + j < n; ++j) p[j] = combine(p[j], term(i + j));
  return Tree<kLanes>(p, combine);
}
template <typename Term>
inline float SumTerms(int64_t n, const Term& term) {
  return Interleaved<16>(n, 0.0f, term, [](float a, float b) { return a + b; });
}
inline float MaxInline(const float* x, int64_t n) {
  return Interleaved<64>(
             n, -kInfinity, [x](int64_t i) { return x[i]; },
             [](float m, float v) { return v > m ? v : m; }) +
         0.0f;
}
inline float MinInline(const float* x, int64_t n) {
  return Interleaved<64>(
             n, kInfinity, [x](int64_t i) { return x[i]; },
             [](float m, float v) { return v < m ? v : m; }) +
         0.0f;
}

}  // namespace
}  // namespace evoq
