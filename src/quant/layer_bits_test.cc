// Weights of few bits under integer arithmetic: which layers have them, how they are rounded, and
// that the file's form is the same numbers.
#include "quant/layer_bits.h"

#include <gtest/gtest.h>

#include <cmath>

#include "quant/params.h"
#include "quant/test_net.h"

namespace evoq {
namespace {

TEST(LayerBits, TheLastRuleThatMatchesCounts) {
  const auto rules = ParseWeightBits({"4", "conv_*=2", "conv_1=8"});
  ASSERT_TRUE(rules) << rules.error().message();
  EXPECT_EQ(BitsOf(*rules, "linear"), 4);
  EXPECT_EQ(BitsOf(*rules, "conv_2"), 2);
  EXPECT_EQ(BitsOf(*rules, "conv_1"), 8);
  EXPECT_EQ(BitsOf({}, "conv_1"), 8);
  for (const char* wrong : {"3", "", "=4", "conv=", "conv=16", "4.0"}) {
    const auto refused = ParseWeightBits({wrong});
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().message(),
              fmt::format("--weight-bits {}: expected 8, 4, 2 or 1, or PATTERN=BITS", wrong));
  }
  EXPECT_EQ(ParseWeightBits({"c=1"})->at(0).bits, 1);
  const auto refused = ParseActivationBits({"1"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "--activation-bits 1: expected 8, 4 or 2, or PATTERN=BITS");
}

// The squared error of one channel with this scale, by the definition.
double ErrorOf(std::span<const float> w, double scale, int bits) {
  const double low = -std::ldexp(1, bits - 1), high = -low - 1;
  double error = 0;
  for (const float x : w) {
    const double q = std::min(std::max(std::nearbyint(x / scale), low), high);
    error += (q * scale - x) * (q * scale - x);
  }
  return error;
}

TEST(LayerBits, NoCandidateScaleHasLessError) {
  const Graph net = MakeNet(
      "graph n\ninput %x: float32[1, 4]\nconst %w: float32[6, 5, 3, 3]\n"
      "r: %y: float32[1, 4] = Relu(%x)\noutput %y\n");
  const Tensor w = net.value(net.FindValue("w")).constant;
  for (const int bits : {4, 2}) {
    const Tensor q = QuantizeWeightToBits(w, 0, bits);
    ASSERT_EQ(q.dtype(), bits == 4 ? DType::kInt4 : DType::kInt2);
    for (int64_t c = 0; c < 6; ++c) {
      const std::span<const float> channel(w.data<float>() + c * 45, 45);
      double largest = 0;
      for (const float x : channel) largest = std::max<double>(largest, std::fabs(x));
      const double chosen = ErrorOf(channel, q.type().quant->scales[c], bits);
      for (int i = 0; i < 17; ++i) {
        const double scale = ShortScale((1 - i * 0.05) * largest / ((1 << (bits - 1)) - 1));
        EXPECT_LE(chosen, ErrorOf(channel, scale, bits) + 1e-9) << bits << " bits, channel " << c;
      }
    }
  }
}

// A channel's scale is at least its own least one; the one scale of all is at least the largest.
TEST(LayerBits, ScalesAreAtLeastSo) {
  const Tensor w = Tensor::FromValues<float>(Shape{2, 2}, {1, -2, 3, 4});
  const std::vector<float> least = {0.5f, 8};
  for (const int bits : {4, 2, 1}) {
    const Tensor apart = QuantizeWeightToBits(w, 0, bits, least);
    EXPECT_LT(apart.type().quant->scales[0], 8);
    EXPECT_GE(apart.type().quant->scales[0], 0.5f);
    EXPECT_EQ(apart.type().quant->scales[1], 8);
    const Tensor together = QuantizeWeightToBits(w, -1, bits, least);
    EXPECT_EQ(together.type().quant->scales, std::vector<float>{8});
  }
}

// The sign with the mean magnitude of its channel, than which no other scale has less error.
TEST(LayerBits, OneBitIsTheSign) {
  const Graph net = MakeNet(
      "graph n\ninput %x: float32[1, 4]\nconst %w: float32[6, 5, 3, 3]\n"
      "r: %y: float32[1, 4] = Relu(%x)\noutput %y\n");
  const Tensor w = net.value(net.FindValue("w")).constant;
  const Tensor q = QuantizeWeightToBits(w, 0, 1);
  ASSERT_EQ(q.dtype(), DType::kInt2);
  const Tensor real = *ToFloat32(q);
  for (int64_t c = 0; c < 6; ++c) {
    const std::span<const float> channel(w.data<float>() + c * 45, 45);
    const float scale = q.type().quant->scales[c];
    double sum = 0;
    for (int64_t i = 0; i < 45; ++i) {
      sum += std::fabs(channel[i]);
      EXPECT_EQ(real.data<float>()[c * 45 + i], channel[i] < 0 ? -scale : scale);
    }
    EXPECT_FLOAT_EQ(scale, ShortScale(sum / 45));
  }
  // 0 is no negative number.
  const Tensor signs =
      *SignsOf(Tensor::FromValues<float>(Shape{3}, std::vector<float>{-0.5f, 0, 2}),
               TensorType(DType::kInt8, Shape{3}, QuantParams::PerTensor(0.25f, 0)));
  EXPECT_EQ(std::vector<int8_t>(signs.data<int8_t>(), signs.data<int8_t>() + 3),
            (std::vector<int8_t>{-1, 1, 1}));
}

// Quantized with few bits, an integer layer has int8 weights of which the file's few bits are the
// same real numbers.
TEST(LayerBits, IntegerLayersHaveMultiplesThatFewBitsHold) {
  const Graph net = MakeNet(kConvNet);
  auto ranges = Calibrate(net, Reference(), RandomSamples(net, 4), {});
  ASSERT_TRUE(ranges);
  for (const int asked : {4, 2, 1}) {
    const std::vector<LayerBits> rules = {{"*", asked}};
    const int bits = std::max(asked, 2);
    Graph q = net;
    QuantizeOptions options;
    options.weight_bits = rules;
    ASSERT_TRUE(QuantizeStatic(q, *ranges, options));
    MarkWeightBits(q, rules);
    int layers = 0;
    for (NodeId id : q.order()) {
      if (WeightBitsOf(q.node(id)) == 8) continue;
      const Tensor& w = *q.ConstantInput(q.node(id), 1);
      const auto narrow = NarrowWeights(w, bits);
      ASSERT_TRUE(narrow) << q.node(id).name;
      EXPECT_EQ(narrow->dtype(), WeightTypeOf(bits));
      EXPECT_EQ(ToFloat32(*narrow)->values<float>().size(), ToFloat32(w)->values<float>().size());
      EXPECT_TRUE(BitEqual(*ToFloat32(*narrow), *ToFloat32(w))) << q.node(id).name;
      ++layers;
    }
    EXPECT_GT(layers, 2);
    EXPECT_GT(Sqnr(net, q), asked == 4 ? 12 : asked == 2 ? 1 : 0);
  }
}

TEST(LayerBits, OtherNumbersDoNotFit) {
  const TensorType type(DType::kInt8, Shape{4}, QuantParams::PerTensor(0.5f, 0));
  const auto tensor = [&](std::vector<int8_t> values) {
    return Tensor::FromValues<int8_t>(Shape{4}, values).WithType(type);
  };
  EXPECT_TRUE(NarrowWeights(tensor({-128, 112, 0, 16}), 4));
  EXPECT_FALSE(NarrowWeights(tensor({-128, 112, 0, 8}), 4));
  EXPECT_TRUE(NarrowWeights(tensor({-128, 64, 0, 64}), 2));
  EXPECT_FALSE(NarrowWeights(tensor({-128, 127, 0, 64}), 2));
}

}  // namespace
}  // namespace evoq
