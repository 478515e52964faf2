// Scales and zero points against figures worked out by hand.
#include "quant/params.h"

#include <gtest/gtest.h>

#include <cmath>

#include "quant/test_net.h"

namespace evoq {
namespace {

// 4 / 255 = 2056.03 / 2^17, up to 12 bits: 2057. 3 / 127 = 3096.19 / 2^17: 3097. Zero: 1 / (2057 /
// 2^17) = 63.72.
TEST(Params, ScalesAndZeroPointsByHand) {
  const QuantParams u = ActivationParams({-1, 3}, DType::kUint8, false),
                    s = ActivationParams({-1, 3}, DType::kInt8, false);
  EXPECT_EQ(u.scales[0], 2057 * 0x1p-17f);
  EXPECT_EQ(u.zero_points[0], 64);
  EXPECT_EQ(s.scales[0], 2057 * 0x1p-17f);
  EXPECT_EQ(s.zero_points[0], -64);
  EXPECT_EQ(ActivationParams({-1, 3}, DType::kUint8, true).scales[0], 3097 * 0x1p-17f);
  EXPECT_EQ(ActivationParams({-3, 1}, DType::kInt8, true).scales[0], 3097 * 0x1p-17f);
  // Ranges on one side of 0 are widened to hold it.
  EXPECT_EQ(ActivationParams({1, 3}, DType::kUint8, false).scales[0],
            ActivationParams({0, 3}, DType::kUint8, false).scales[0]);
  EXPECT_EQ(ActivationParams({-3, -1}, DType::kUint8, false).zero_points[0], 255);
  EXPECT_EQ(ActivationParams({-3, -1}, DType::kInt8, false).zero_points[0], 127);
  EXPECT_EQ(ActivationParams({0, 0}, DType::kUint8, false), QuantParams::PerTensor(1, 0));
  EXPECT_EQ(ActivationParams({0, 0}, DType::kInt8, false), QuantParams::PerTensor(1, -128));
  EXPECT_EQ(ActivationParams({0, 0}, DType::kUint8, true), QuantParams::PerTensor(1, 128));
  EXPECT_EQ(ActivationParams({0, 1e-30f}, DType::kUint8, false).scales[0], 0x1p-60f);
}

TEST(Params, WeightScalesFollowTheirAxis) {
  const Tensor w = Tensor::FromValues<float>(Shape{2, 3}, {127, -1, 0.5f, 2, 254, -63.5f});
  const Tensor columns = QuantizeWeight(w, 1);
  EXPECT_EQ(columns.type().quant->axis, 1);
  EXPECT_EQ(columns.type().quant->scales, (std::vector<float>{1, 2, 0.5f}));
  EXPECT_EQ(std::vector<int8_t>(columns.values<int8_t>().begin(), columns.values<int8_t>().end()),
            (std::vector<int8_t>{127, 0, 1, 2, 127, -127}));
  const Tensor rows = QuantizeWeight(w, 0);
  EXPECT_EQ(rows.type().quant->scales, (std::vector<float>{1, 2}));
  EXPECT_EQ(std::vector<int8_t>(rows.values<int8_t>().begin(), rows.values<int8_t>().end()),
            (std::vector<int8_t>{127, -1, 0, 1, 127, -32}));  // -31.75, 0.5 to even
  EXPECT_EQ(QuantizeWeight(w, -1).type().quant->scales, (std::vector<float>{2}));
  // Lower bounds: of each channel; of one scale for all, the largest.
  const std::vector<float> least = {0.25f, 4, 0.5f};
  EXPECT_EQ(QuantizeWeight(w, 1, least).type().quant->scales, (std::vector<float>{1, 4, 0.5f}));
  EXPECT_EQ(QuantizeWeight(w, -1, least).type().quant->scales, (std::vector<float>{4}));
}

// |b| / (0.999 * 2^30) / s.
TEST(Params, LeastScalesOfWeightsKeepTheBiasInItsRange) {
  const Tensor bias = Tensor::FromValues<float>(Shape{2}, {-3e6f, 0});
  const auto least = LeastWeightScales(bias, 0.5f);
  ASSERT_EQ(least.size(), 2);
  EXPECT_NEAR(least[0], 3e6 / (0.999 * 1073741824) / 0.5, 1e-9);
  EXPECT_EQ(least[1], 0);
  QuantParams weight;
  weight.axis = 0;
  weight.scales = {0.25f, 0.5f};
  weight.zero_points = {0, 0};
  const Tensor q = QuantizeBias(
      Tensor::FromValues<float>(Shape{4}, {1.0625f, 1.125f, -1e12f, 1e12f}), 0.5f, weight);
  EXPECT_EQ(std::vector<int32_t>(q.values<int32_t>().begin(), q.values<int32_t>().end()),
            (std::vector<int32_t>{8, 4, -1073741824, 1073741824}));  // 8.5 and 4.5 to even
}

TEST(Params, RangesOfConstantsHoldZero) {
  const auto r = RangeOf(Tensor::FromValues<float>(Shape{3}, {2, 5, 3}));
  ASSERT_TRUE(r);
  EXPECT_EQ(r->min, 0);
  EXPECT_EQ(r->max, 5);
  EXPECT_EQ(RangeOf(Tensor::FromValues<float>(Shape{2}, {-2, -5}))->min, -5);
  EXPECT_FALSE(RangeOf(Tensor::FromValues<float>(Shape{2}, {-2, NAN})));
  EXPECT_FALSE(RangeOf(Tensor::FromValues<float>(Shape{2}, {-INFINITY, 1})));
}

}  // namespace
}  // namespace evoq
