#include "kernels/gemm/blocks/scale_steps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tensor/dtype.h"

namespace evoq {
namespace {

TEST(ScaleSteps, FindsWhatScalesAreMultiplesOf) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    const int exponent = static_cast<int>(random() % 34) - 24;  // steps from 2^-22 to 7 * 2^9
    const float step = std::ldexp(static_cast<float>(4 + random() % 4), exponent);
    std::vector<float> scales;
    for (size_t i = 0; i < 1 + random() % kStepBlocks; ++i)
      scales.push_back(step * static_cast<float>(1 + random() % kMostMultiple));
    const auto found = StepsOf(scales);
    ASSERT_TRUE(found) << step;
    EXPECT_TRUE(IsStep(found->step));
    EXPECT_LE(found->step, step);
    EXPECT_EQ(HalfToFloat(FloatToHalf(found->step)), found->step);
    for (size_t i = 0; i < kStepBlocks; ++i) {
      if (i >= scales.size()) {
        EXPECT_EQ(found->multiples[i], 0);
        continue;
      }
      EXPECT_GE(found->multiples[i], 1);
      EXPECT_LE(found->multiples[i], kMostMultiple);
      EXPECT_EQ(found->step * static_cast<float>(found->multiples[i]), scales[i]);
    }
  }
}

TEST(ScaleSteps, OthersHaveNone) {
  const auto none = [](std::vector<float> scales) { return !StepsOf(scales); };
  EXPECT_TRUE(StepsOf(std::vector{0.0625f, 0.9375f}));
  EXPECT_TRUE(none({0.0625f, 1.0f}));                // 16 steps
  EXPECT_TRUE(none({0.75f, 0.9375f, 0.03125f}));     // 30 steps
  EXPECT_TRUE(none({std::nextafter(0.75f, 1.0f)}));  // too many bits
  EXPECT_TRUE(none({17 * 0x1p-10f}));                // 17 is no multiple
  EXPECT_TRUE(none({1.0f, 0.0f}));
  EXPECT_TRUE(none({1.0f, -1.0f}));
  EXPECT_TRUE(none({0.0f}));
  EXPECT_TRUE(none({NAN, 1.0f}));
  EXPECT_TRUE(none({INFINITY}));
  EXPECT_TRUE(none({0x1p-23f}));  // below float16's steps
  EXPECT_TRUE(StepsOf(std::vector{0x1p-22f}));
  EXPECT_TRUE(StepsOf(std::vector{57344.0f * 15}));
  EXPECT_TRUE(none({65536.0f * 15}));
  for (const float x : {0.0f, -0.5f, 4.5f * 0x1p-4f, 0x1p-23f, 65536.0f, NAN, INFINITY})
    EXPECT_FALSE(IsStep(x)) << x;
  for (const float x : {4 * 0x1p-4f, 5 * 0x1p-4f, 6 * 0x1p-4f, 7 * 0x1p-4f})
    EXPECT_TRUE(IsStep(x)) << x;
}

// The largest sum over kStepDepth has 21 bits, which those of a step and float32 allow.
TEST(ScaleSteps, SumsAreExact) {
  constexpr int64_t kMost = kStepDepth * 127 * 8 * kMostMultiple;
  EXPECT_LT(kMost, int64_t{1} << 21);
  for (int64_t sum = kMost; sum > kMost - 1000; --sum) {
    for (const float step : {5 * 0x1p-7f, 6 * 0x1p-7f, 7 * 0x1p-7f})
      ASSERT_EQ(static_cast<double>(static_cast<float>(sum) * step),
                static_cast<double>(sum) * step);
  }
}

}  // namespace
}  // namespace evoq
