// The functions of math.h as inline code without branches, which compilers turn into vector code. In an unnamed
// namespace: see kernels/isa_table.h. Polynomials are minimax fits (Lawson-weighted
// least squares), with the fit's error relative to the function's value given beside each.
#pragma once

#include <cmath>
#include <cstdint>

// A loop is vectorized only when everything it calls is inlined, which long polynomials do not look worth.
#define EVOQ_INLINE inline __attribute__((always_inline))

namespace evoq {
namespace {

EVOQ_INLINE float FromBits(uint32_t bits) { return __builtin_bit_cast(float, bits); }
EVOQ_INLINE uint32_t ToBits(float x) { return __builtin_bit_cast(uint32_t, x); }

// Adding this rounds to an integer (ties to even) for |x| < 2^22, and leaves the integer in the low mantissa bits.
constexpr float kRoundMagic = 12582912.0f;  // 1.5 * 2^23
constexpr float kLn2High = 0.693359375f;    // ten bits: a product with an exponent is exact
constexpr float kLn2Low = -2.12194440e-4f;
constexpr float kInfinity = __builtin_inff();

// r = x - n ln 2 in [-ln2/2, ln2/2]; e^r = 1 + r + r^2 P(r), fit 6e-11; times 2^n in two exact-exponent steps.
EVOQ_INLINE float ExpInline(float x) {
  float c = x < -104.0f ? -104.0f : x;
  c = c > 89.0f ? 89.0f : c;
  const float shifted = c * 1.44269504f + kRoundMagic;
  const float n = shifted - kRoundMagic;
  const float r = (c - n * kLn2High) - n * kLn2Low;
  float p = 0.000197892659f;
  p = p * r + 0.00139457535f;
  p = p * r + 0.0083335042f;
  p = p * r + 0.0416662805f;
  p = p * r + 0.166666657f;
  p = p * r + 0.5f;
  const float y = p * (r * r) + r + 1.0f;
  const int32_t k = static_cast<int32_t>(ToBits(shifted) - 0x4B400000u);
  const int32_t half = k >> 1;
  return y * FromBits(static_cast<uint32_t>(half + 127) << 23) * FromBits(static_cast<uint32_t>(k - half + 127) << 23);
}

// x = 2^e m, m in [sqrt(1/2), sqrt 2), f = m - 1; log m = f - f^2/2 + f^3 P(f), fit 8e-10.
EVOQ_INLINE float LogInline(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const uint32_t bits = ToBits(tiny ? x * 8388608.0f : x) + (0x3f800000u - 0x3f3504f3u);
  const float e = static_cast<float>(static_cast<int32_t>(bits >> 23) - 127) - (tiny ? 23.0f : 0.0f);
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
  y = x < kInfinity ? y : x;          // infinity and NaN
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
EVOQ_INLINE float TanhInline(float x) {
  const float a = FromBits(ToBits(x) & 0x7fffffffu), z = x * x;
  float p = 0.00214752345f;
  p = p * z + -0.00818265975f;
  p = p * z + 0.021702962f;
  p = p * z + -0.0539472029f;
  p = p * z + 0.133332103f;
  p = p * z + -0.333333313f;
  const float small = x + x * (z * p);
  const float large = 1.0f - 2.0f / (ExpInline(2.0f * a) + 1.0f);
  return a < 0.625f ? small : FromBits(ToBits(large) | (ToBits(x) & 0x80000000u));
}

EVOQ_INLINE float SigmoidInline(float x) { return 1.0f / (1.0f + ExpInline(-x)); }
EVOQ_INLINE float SiluInline(float x) { return x / (1.0f + ExpInline(-x)); }

// |x| < 1: x P(x^2), fit 3e-11; else 1 - e^-Q(|x|), fit 2e-11 up to 4, where erf is 1 in float32.
EVOQ_INLINE float ErfInline(float x) {
  const float a = FromBits(ToBits(x) & 0x7fffffffu), z = x * x;
  float p = -9.64151604e-06f;
  p = p * z + 0.000112569476f;
  p = p * z + -0.000848282885f;
  p = p * z + 0.00522094546f;
  p = p * z + -0.0268654004f;
  p = p * z + 0.112837821f;
  p = p * z + -0.376126379f;
  const float small = x * (p * z) + x * 1.12837923f;
  const float b = a > 4.0f ? 4.0f : a;
  float q = 2.16976387e-05f;
  q = q * b + -0.000441472919f;
  q = q * b + 0.00420528604f;
  q = q * b + -0.0252103414f;
  q = q * b + 0.108422101f;
  q = q * b + 0.633216381f;
  q = q * b + 1.12958026f;
  q = q * b + -0.000188467791f;
  const float large = 1.0f - ExpInline(-q);
  return a < 1.0f ? small : FromBits(ToBits(large) | (ToBits(x) & 0x80000000u));
}

EVOQ_INLINE float SoftplusInline(float x) {
  const float a = FromBits(ToBits(x) & 0x7fffffffu);
  return (x > 0.0f ? x : 0.0f) + Log1pInline(ExpInline(-a));
}
EVOQ_INLINE float GeluInline(float x) { return 0.5f * x * (1.0f + ErfInline(x * 0.70710678118654752f)); }
EVOQ_INLINE float GeluTanhInline(float x) {
  return 0.5f * x * (1.0f + TanhInline(0.79788456080286536f * (x + 0.044715f * (x * x * x))));
}
EVOQ_INLINE float ClampUnit(float x) {
  const float low = x > 0.0f ? x : 0.0f;
  return low < 1.0f ? low : 1.0f;
}
EVOQ_INLINE float HardSigmoidInline(float x, float alpha, float beta) { return ClampUnit(alpha * x + beta); }
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

// The tree of SumF over terms term(i), i = 0..n-1, with kLanes partial results and any way to combine.
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
  return Interleaved<64>(n, -kInfinity, [x](int64_t i) { return x[i]; }, [](float m, float v) { return v > m ? v : m; }) +
         0.0f;
}
inline float MinInline(const float* x, int64_t n) {
  return Interleaved<64>(n, kInfinity, [x](int64_t i) { return x[i]; }, [](float m, float v) { return v < m ? v : m; }) +
         0.0f;
}

}  // namespace
}  // namespace evoq
