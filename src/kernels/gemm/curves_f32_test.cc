#include "kernels/gemm/curves_f32.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace evoq {
namespace {

double Definition(ActivationKind kind, double x) {
  switch (kind) {
    case ActivationKind::kHardSwish: return x * std::fmin(std::fmax(x / 6 + 0.5, 0.0), 1.0);
    case ActivationKind::kSilu: return x / (1 + std::exp(-x));
    case ActivationKind::kSigmoid: return 1 / (1 + std::exp(-x));
    case ActivationKind::kTanh: return std::tanh(x);
    default: return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
  }
}

// Every instruction set, all over the range, in runs of every length up to 40; beyond each run
// nothing is written.
TEST(CurvesF32, WithinUnitsInTheLastPlace) {
  std::vector<float> x;
  for (double v = 1e-30; v < 3e4; v *= 1.0013)
    x.push_back(static_cast<float>(v)), x.push_back(static_cast<float>(-v));
  for (float v : {0.0f, -0.0f, 1.0f, 0.625f, 4.0f, -4.0f, 87.0f, -87.0f, 3e38f, -3e38f})
    x.push_back(v);
  for (Isa isa : AllIsas()) {
    if (!IsaSupported(isa)) continue;
    for (ActivationKind kind :
         {ActivationKind::kHardSwish, ActivationKind::kSilu, ActivationKind::kSigmoid,
          ActivationKind::kTanh, ActivationKind::kGelu}) {
      const CurveF32 curve = CurveForF32({kind, 0, 0}, isa);
      ASSERT_NE(curve, nullptr);
      size_t length = 0;
      for (size_t begin = 0; begin < x.size(); begin += length) {
        length = std::min(x.size() - begin, length % 40 + 1);
        std::vector<float> y(x.begin() + begin, x.begin() + begin + length);
        y.push_back(7);
        curve(y.data(), static_cast<int64_t>(length));
        ASSERT_EQ(y[length], 7);
        for (size_t i = 0; i < length; ++i) {
          const double v = x[begin + i], expected = Definition(kind, v);
          // Gelu and HardSwish add terms of opposite sign: their errors are relative to x.
          const bool sum = kind == ActivationKind::kGelu || kind == ActivationKind::kHardSwish;
          const double scale = sum ? std::fabs(v) : std::fabs(expected);
          ASSERT_NEAR(y[i], expected, 8 * 0x1p-24 * scale + 1e-35)
              << IsaName(isa) << " " << ActivationName(kind) << " of " << v;
        }
      }
    }
  }
  EXPECT_EQ(CurveForF32({ActivationKind::kRelu, 0, 0}, Isa::kScalar), nullptr);
}

TEST(CurvesF32, InfinityAndNaN) {
  for (Isa isa : AllIsas()) {
    if (!IsaSupported(isa)) continue;
    for (ActivationKind kind :
         {ActivationKind::kHardSwish, ActivationKind::kSilu, ActivationKind::kSigmoid,
          ActivationKind::kTanh, ActivationKind::kGelu}) {
      float y[2] = {INFINITY, NAN};
      CurveForF32({kind, 0, 0}, isa)(y, 2);
      const bool bounded = kind == ActivationKind::kSigmoid || kind == ActivationKind::kTanh;
      EXPECT_EQ(y[0], bounded ? 1.0f : INFINITY) << IsaName(isa) << " " << ActivationName(kind);
      if (isa == Isa::kScalar && kind == ActivationKind::kHardSwish)
        continue;  // its clamp takes NaN for 0
      EXPECT_TRUE(std::isnan(y[1])) << IsaName(isa) << " " << ActivationName(kind);
    }
  }
}

}  // namespace
}  // namespace evoq
