// The curves on vectors, with fused multiply-adds. Polynomials and ranges are those of
// kernels/math/math.inl.h. Included by curves_f32_ISA.cc.
#include <immintrin.h>

#include <cstring>

#include "kernels/gemm/curves_f32.h"

namespace evoq::EVOQ_ISA {
namespace {

#define EVOQ_VEC [[gnu::always_inline]] inline

#if defined(__AVX512F__)
constexpr int kLanes = 16, kWide = 4;
using Vec = __m512;
using Mask = __mmask16;
EVOQ_VEC Vec SetOne(float v) { return _mm512_set1_ps(v); }
EVOQ_VEC Vec MulAddOne(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
EVOQ_VEC Vec NegMulAddOne(Vec a, Vec b, Vec c) { return _mm512_fnmadd_ps(a, b, c); }
EVOQ_VEC Vec MaxOne(Vec a, Vec b) { return _mm512_max_ps(a, b); }
EVOQ_VEC Vec MinOne(Vec a, Vec b) { return _mm512_min_ps(a, b); }
EVOQ_VEC Vec AbsOne(Vec v) { return _mm512_abs_ps(v); }
EVOQ_VEC Vec WithSignOfOne(Vec v, Vec sign) {
  return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(
      _mm512_set1_epi32(INT32_MIN), _mm512_castps_si512(sign), _mm512_castps_si512(v), 0xca));
}
EVOQ_VEC Vec WhereLessOne(Vec a, Vec b, Vec yes, Vec no) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}
EVOQ_VEC Vec RoundOne(Vec v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT); }
EVOQ_VEC Vec TimesPowerOf2One(Vec v, Vec n) { return _mm512_scalef_ps(v, n); }
// v / d for d in [1, 2^126].
EVOQ_VEC Vec DivideOne(Vec v, Vec d) {
  const Vec r = _mm512_rcp14_ps(d);
  return v * MulAddOne(r, NegMulAddOne(d, r, SetOne(1.0f)), r);
}
#else
constexpr int kLanes = 8, kWide = 2;
using Vec = __m256;
EVOQ_VEC Vec SetOne(float v) { return _mm256_set1_ps(v); }
EVOQ_VEC Vec MulAddOne(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
EVOQ_VEC Vec NegMulAddOne(Vec a, Vec b, Vec c) { return _mm256_fnmadd_ps(a, b, c); }
EVOQ_VEC Vec MaxOne(Vec a, Vec b) { return _mm256_max_ps(a, b); }
EVOQ_VEC Vec MinOne(Vec a, Vec b) { return _mm256_min_ps(a, b); }
EVOQ_VEC Vec AbsOne(Vec v) { return _mm256_andnot_ps(SetOne(-0.0f), v); }
EVOQ_VEC Vec WithSignOfOne(Vec v, Vec sign) {
  return _mm256_or_ps(AbsOne(v), _mm256_and_ps(SetOne(-0.0f), sign));
}
EVOQ_VEC Vec WhereLessOne(Vec a, Vec b, Vec yes, Vec no) {
  return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
EVOQ_VEC Vec RoundOne(Vec v) {
  return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// n in [-126, 127].
EVOQ_VEC Vec TimesPowerOf2One(Vec v, Vec n) {
  const __m256i bits =
      _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
  return v * _mm256_castsi256_ps(bits);
}
EVOQ_VEC Vec DivideOne(Vec v, Vec d) { return v / d; }
#endif

// Several vectors that take each step together: a curve is one long chain of operations, and a
// processor that sees one chain after the other waits for most of them.
struct Wide {
  Vec v[kWide];
};
#define EVOQ_WIDE(expression)                                                       \
  Wide result;                                                                      \
  _Pragma("GCC unroll 4") for (int i = 0; i < kWide; ++i) result.v[i] = expression; \
  return result
EVOQ_VEC Wide Set(float v) { EVOQ_WIDE(SetOne(v)); }
EVOQ_VEC Wide operator+(Wide a, Wide b) { EVOQ_WIDE(a.v[i] + b.v[i]); }
EVOQ_VEC Wide operator-(Wide a, Wide b) { EVOQ_WIDE(a.v[i] - b.v[i]); }
EVOQ_VEC Wide operator*(Wide a, Wide b) { EVOQ_WIDE(a.v[i] * b.v[i]); }
EVOQ_VEC Wide MulAdd(Wide a, Wide b, Wide c) { EVOQ_WIDE(MulAddOne(a.v[i], b.v[i], c.v[i])); }
EVOQ_VEC Wide NegMulAdd(Wide a, Wide b, Wide c) { EVOQ_WIDE(NegMulAddOne(a.v[i], b.v[i], c.v[i])); }
EVOQ_VEC Wide Max(Wide a, Wide b) { EVOQ_WIDE(MaxOne(a.v[i], b.v[i])); }
EVOQ_VEC Wide Min(Wide a, Wide b) { EVOQ_WIDE(MinOne(a.v[i], b.v[i])); }
EVOQ_VEC Wide Abs(Wide a) { EVOQ_WIDE(AbsOne(a.v[i])); }
EVOQ_VEC Wide WithSignOf(Wide a, Wide b) { EVOQ_WIDE(WithSignOfOne(a.v[i], b.v[i])); }
EVOQ_VEC Wide WhereLess(Wide a, Wide b, Wide yes, Wide no) {
  EVOQ_WIDE(WhereLessOne(a.v[i], b.v[i], yes.v[i], no.v[i]));
}
EVOQ_VEC Wide Round(Wide a) { EVOQ_WIDE(RoundOne(a.v[i])); }
EVOQ_VEC Wide TimesPowerOf2(Wide a, Wide b) { EVOQ_WIDE(TimesPowerOf2One(a.v[i], b.v[i])); }
EVOQ_VEC Wide Divide(Wide a, Wide b) { EVOQ_WIDE(DivideOne(a.v[i], b.v[i])); }

// e^x, x clamped to [-87, 87]. Min and Max give their second operand where one is NaN.
EVOQ_VEC Wide Exp(Wide x) {
  x = Max(Set(-87.0f), Min(Set(87.0f), x));
  const Wide n = Round(x * Set(1.44269504f));
  const Wide r = NegMulAdd(n, Set(-2.12194440e-4f), NegMulAdd(n, Set(0.693359375f), x));
  Wide p = Set(0.000197892659f);
  p = MulAdd(p, r, Set(0.00139457535f));
  p = MulAdd(p, r, Set(0.0083335042f));
  p = MulAdd(p, r, Set(0.0416662805f));
  p = MulAdd(p, r, Set(0.166666657f));
  p = MulAdd(p, r, Set(0.5f));
  return TimesPowerOf2(MulAdd(p, r * r, r) + Set(1.0f), n);
}

struct HardSwish {
  EVOQ_VEC static Wide Of(Wide x) {
    return x * Min(Max(MulAdd(x, Set(1.0f / 6.0f), Set(0.5f)), Set(0.0f)), Set(1.0f));
  }
};
struct Silu {
  EVOQ_VEC static Wide Of(Wide x) {
    x = Max(Set(-88.0f), x);  // where the result is within 1e-36 of 0, as it is below
    return Divide(x, Set(1.0f) + Exp(Set(0.0f) - x));
  }
};
struct Sigmoid {
  EVOQ_VEC static Wide Of(Wide x) { return Divide(Set(1.0f), Set(1.0f) + Exp(Set(0.0f) - x)); }
};
struct Tanh {
  EVOQ_VEC static Wide Of(Wide x) {
    const Wide a = Abs(x), z = x * x;
    Wide p = Set(0.00214752345f);
    p = MulAdd(p, z, Set(-0.00818265975f));
    p = MulAdd(p, z, Set(0.021702962f));
    p = MulAdd(p, z, Set(-0.0539472029f));
    p = MulAdd(p, z, Set(0.133332103f));
    p = MulAdd(p, z, Set(-0.333333313f));
    const Wide small = MulAdd(x * z, p, x);
    const Wide large = Set(1.0f) - Divide(Set(2.0f), Exp(a + a) + Set(1.0f));
    return WhereLess(a, Set(0.625f), small, WithSignOf(large, x));
  }
};
struct Gelu {
  EVOQ_VEC static Wide Of(Wide v) {
    const Wide x = v * Set(0.70710678118654752f), a = Abs(x), z = x * x;
    Wide p = Set(-9.64151604e-06f);
    p = MulAdd(p, z, Set(0.000112569476f));
    p = MulAdd(p, z, Set(-0.000848282885f));
    p = MulAdd(p, z, Set(0.00522094546f));
    p = MulAdd(p, z, Set(-0.0268654004f));
    p = MulAdd(p, z, Set(0.112837821f));
    p = MulAdd(p, z, Set(-0.376126379f));
    const Wide small = MulAdd(x * z, p, x * Set(1.12837923f));
    const Wide b = Min(Set(4.0f), a);
    Wide q = Set(2.16976387e-05f);
    q = MulAdd(q, b, Set(-0.000441472919f));
    q = MulAdd(q, b, Set(0.00420528604f));
    q = MulAdd(q, b, Set(-0.0252103414f));
    q = MulAdd(q, b, Set(0.108422101f));
    q = MulAdd(q, b, Set(0.633216381f));
    q = MulAdd(q, b, Set(1.12958026f));
    q = MulAdd(q, b, Set(-0.000188467791f));
    const Wide large = Set(1.0f) - Exp(Set(0.0f) - q);
    const Wide erf = WhereLess(a, Set(1.0f), small, WithSignOf(large, x));
    const Wide half = v * Set(0.5f);
    return MulAdd(half, erf, half);
  }
};

template <typename Curve>
void Loop(float* y, int64_t n) {
  constexpr int64_t kStep = kWide * kLanes;
  Wide v;
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    std::memcpy(&v, y + i, sizeof(v));
    v = Curve::Of(v);
    std::memcpy(y + i, &v, sizeof(v));
  }
  if (i == n) return;
#if defined(__AVX512F__)
  const uint64_t rest = (uint64_t{1} << (n - i)) - 1;
#pragma GCC unroll 4
  for (int k = 0; k < kWide; ++k)
    v.v[k] = _mm512_maskz_loadu_ps(static_cast<Mask>(rest >> (k * kLanes)), y + i + k * kLanes);
  v = Curve::Of(v);
#pragma GCC unroll 4
  for (int k = 0; k < kWide; ++k)
    _mm512_mask_storeu_ps(y + i + k * kLanes, static_cast<Mask>(rest >> (k * kLanes)), v.v[k]);
#else
  v = Set(0.0f);
  std::memcpy(&v, y + i, static_cast<size_t>(n - i) * sizeof(float));
  v = Curve::Of(v);
  std::memcpy(y + i, &v, static_cast<size_t>(n - i) * sizeof(float));
#endif
}

}  // namespace

extern const CurveTable kCurveTable;
const CurveTable kCurveTable = {
    .hard_swish = Loop<HardSwish>,
    .silu = Loop<Silu>,
    .sigmoid = Loop<Sigmoid>,
    .tanh = Loop<Tanh>,
    .gelu = Loop<Gelu>,
};

#undef EVOQ_WIDE
#undef EVOQ_VEC

}  // namespace evoq::EVOQ_ISA
