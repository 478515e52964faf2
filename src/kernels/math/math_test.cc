#include "kernels/math/math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/math/unary.h"
#include "kernels/test_util.h"

namespace evoq {
namespace {

// Distance in units of the last place of the exact value (of the smallest normal number near zero).
double UlpError(float got, double want) {
  if (std::isinf(want) || std::abs(want) > 3.4028235e38) return std::isinf(got) ? 0 : 1e9;
  int exponent = 0;
  std::frexp(std::max(std::abs(want), 1.17549435e-38), &exponent);
  return std::abs(got - want) / std::ldexp(1.0, exponent - 24);
}

// The largest error over every 97th float32 in [low, high].
double WorstUlp(float (*f)(float), double (*exact)(double), float low, float high) {
  double worst = 0;
  for (uint32_t bits = 0; bits < 0x7f800000u; bits += 9973) {
    for (const float x : {__builtin_bit_cast(float, bits), -__builtin_bit_cast(float, bits)}) {
      if (x < low || x > high) continue;
      worst = std::max(worst, UlpError(f(x), exact(x)));
    }
  }
  return worst;
}

TEST(Math, WithinThreeUlp) {
  EXPECT_LT(WorstUlp(ExpF, [](double x) { return std::exp(x); }, -86.9f, 88.7f), 2);
  EXPECT_LT(WorstUlp(LogF, [](double x) { return std::log(x); }, 1e-44f, 3e38f), 2);
  EXPECT_LT(WorstUlp(Log1pF, [](double x) { return std::log1p(x); }, -0.99f, 1e30f), 3);
  EXPECT_LT(WorstUlp(TanhF, [](double x) { return std::tanh(x); }, -100, 100), 3);
  EXPECT_LT(WorstUlp(ErfF, [](double x) { return std::erf(x); }, -10, 10), 3);
  EXPECT_LT(WorstUlp(SigmoidF, [](double x) { return 1 / (1 + std::exp(-x)); }, -87, 100), 3);
  EXPECT_LT(
      WorstUlp(
          SoftplusF, [](double x) { return x > 100 ? x : std::log1p(std::exp(x)); }, -80, 1e6f),
      4);
}

// Also where x is negative and little of it is left.
TEST(Math, SineAndCosine) {
  const auto sine = [](float x) { return Apply(Unary{UnaryKind::kSin}, x); };
  const auto cosine = [](float x) { return Apply(Unary{UnaryKind::kCos}, x); };
  const auto exact_sine = [](double x) { return std::sin(x); };
  const auto exact_cosine = [](double x) { return std::cos(x); };
  for (const float most : {1e-6f, 1.0f, 100.0f, 1048576.0f, 1e30f}) {
    EXPECT_LT(WorstUlp(sine, exact_sine, -most, most), 1) << most;
    EXPECT_LT(WorstUlp(cosine, exact_cosine, -most, most), 1) << most;
  }
  EXPECT_LT(WorstUlp(sine, exact_sine, -1048576, 1048576), 0.51);
  EXPECT_LT(WorstUlp(cosine, exact_cosine, -1048576, 1048576), 0.51);
  // Next to multiples of pi / 2, where next to nothing is left: of 355 / 113 half turns.
  for (const float x : {3.14159274f, 1.57079637f, 355.0f, 710.0f, 52174.0f, 573204.0f}) {
    EXPECT_LT(UlpError(sine(x), std::sin(static_cast<double>(x))), 0.51) << x;
    EXPECT_LT(UlpError(cosine(x), std::cos(static_cast<double>(x))), 0.51) << x;
  }
  EXPECT_TRUE(std::signbit(sine(-0.0f)));
  EXPECT_EQ(sine(-0.0f), 0);
  EXPECT_EQ(sine(1e-42f), 1e-42f);
  EXPECT_EQ(cosine(0), 1);
  for (const float x : {std::numeric_limits<float>::infinity(), NAN}) {
    EXPECT_TRUE(std::isnan(sine(x)));
    EXPECT_TRUE(std::isnan(cosine(-x)));
  }
}

TEST(Math, GeluByTanh) {
  const auto exact = [](double x) {
    const double t = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
    return x / (1 + std::exp(-2 * t));
  };
  EXPECT_LT(WorstUlp(GeluTanhF, exact, -1, 20), 5);
  EXPECT_LT(WorstUlp(GeluTanhF, exact, -5, -1), 70);
  for (float x = -9.5f; x < -4; x += 0.01f) EXPECT_NEAR(GeluTanhF(x), exact(x), 1e-9) << x;
  EXPECT_EQ(GeluTanhF(-1000), 0);
  EXPECT_EQ(GeluTanhF(0), 0);
  EXPECT_EQ(GeluTanhF(1e30f), 1e30f);
}

TEST(Math, Gelu) {
  const auto exact = [](double x) { return x / 2 * std::erfc(-x / std::sqrt(2.0)); };
  EXPECT_LT(WorstUlp(GeluF, exact, -1, 20), 5);
  EXPECT_LT(WorstUlp(GeluF, exact, -3, -1), 20);
  EXPECT_LT(WorstUlp(GeluF, exact, -5.5f, -3), 70);
  for (float x = -9.5f; x < -5; x += 0.01f) EXPECT_NEAR(GeluF(x), exact(x), 1e-9) << x;
  for (const float x : {-1000.0f, -std::numeric_limits<float>::infinity()})
    EXPECT_NEAR(GeluF(x), 0, 1e-17) << x;
  EXPECT_EQ(GeluF(0), 0);
  EXPECT_EQ(GeluF(1e30f), 1e30f);
  EXPECT_EQ(GeluF(std::numeric_limits<float>::infinity()), std::numeric_limits<float>::infinity());
}

TEST(Math, SpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  EXPECT_EQ(ExpF(-infinity), 0);
  EXPECT_EQ(ExpF(infinity), infinity);
  EXPECT_EQ(ExpF(0), 1);
  EXPECT_EQ(ExpF(89), infinity);
  EXPECT_GT(ExpF(-86.9f), std::numeric_limits<float>::min());
  EXPECT_EQ(ExpF(-86.91f), 0);
  EXPECT_EQ(LogF(0), -infinity);
  EXPECT_EQ(LogF(1), 0);
  EXPECT_EQ(LogF(infinity), infinity);
  EXPECT_TRUE(std::isnan(LogF(-1)));
  EXPECT_EQ(TanhF(infinity), 1);
  EXPECT_EQ(TanhF(-infinity), -1);
  EXPECT_EQ(ErfF(-infinity), -1);
  EXPECT_EQ(SigmoidF(-infinity), 0);
  EXPECT_EQ(SoftplusF(infinity), infinity);
  for (float (*f)(float) : {ExpF, LogF, TanhF, ErfF, SigmoidF, SoftplusF, GeluF, GeluTanhF})
    EXPECT_TRUE(std::isnan(f(nan)));
}

// Denormal numbers cost some processors an interruption each, of a whole vector: a masked score of
// a softmax must not make one.
TEST(Math, ExpIsNeverDenormal) {
  std::vector<float> x, y;
  for (int i = 0; i < 2500; ++i) x.push_back(-105.0f + 0.01f * static_cast<float>(i));
  for (const float far : {-200.0f, -1e4f, -3.4e38f, -std::numeric_limits<float>::infinity()})
    x.push_back(far);
  for (const float at : x) {
    y.push_back(ExpF(at));
    EXPECT_TRUE(y.back() == 0 || std::fpclassify(y.back()) == FP_NORMAL) << at << ": " << y.back();
  }
  const Shape shape{static_cast<int64_t>(x.size())};
  TestCall exp;
  exp.op = "Exp";
  exp.inputs = {Tensor::FromValues<float>(shape, x)};
  exp.outputs = {exp.inputs[0].type()};
  ExpectKernel(*FindKernel("Exp_f32"), exp, {Tensor::FromValues<float>(shape, y)}, "");
}

TEST(Math, SumIsSixteenInterleavedPartialSums) {
  for (int n : {0, 1, 15, 16, 17, 100, 1000}) {
    std::vector<float> x(n);
    for (int i = 0; i < n; ++i)
      x[i] = static_cast<float>(std::sin(i * 1.7)) * (i % 7 == 0 ? 1e4f : 1);
    float p[16] = {};
    for (int i = 0; i < n; ++i) p[i % 16] += x[i];
    float a[8], b[4];
    for (int j = 0; j < 8; ++j) a[j] = p[j] + p[j + 8];
    for (int j = 0; j < 4; ++j) b[j] = a[j] + a[j + 4];
    EXPECT_EQ(SumF(x.data(), n), (b[0] + b[2]) + (b[1] + b[3])) << n;
  }
}

TEST(Unary, EveryRowHasItsNameAndValue) {
  EXPECT_EQ(UnaryKindFromOp("Softsign"), UnaryKind::kSoftsign);
  EXPECT_EQ(UnaryKindFromOp("Add"), std::nullopt);
  EXPECT_EQ(Apply(UnaryFromAttrs(UnaryKind::kHardSigmoid, {}), 1.0f), 0.7f);
  Attrs tanh;
  tanh.Set("approximate", "tanh");
  EXPECT_EQ(Apply(UnaryFromAttrs(UnaryKind::kGelu, tanh), 1.5f), GeluTanhF(1.5f));
  EXPECT_EQ(Apply(UnaryFromAttrs(UnaryKind::kGelu, {}), 1.5f), GeluF(1.5f));
  EXPECT_EQ(Apply(Activation{ActivationKind::kSilu}, 2.0f), SiluF(2.0f));
  EXPECT_EQ(Apply(Activation{ActivationKind::kClip, -1, 1}, 2.0f), 1.0f);
}

}  // namespace
}  // namespace evoq
