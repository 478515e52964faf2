#include "encodings/resolve.h"

#include <gtest/gtest.h>

#include "passes/pass.h"
#include "quant/test_net.h"

namespace evoq {
namespace {

// A Conv with a norm and Relu, a Gemm whose weight is [N, K], a MatMul.
constexpr char kNet[] = R"(graph net
input %x: float32[1, 4, 6, 6]
const %w: float32[3, 4, 3, 3]
const %bias: float32[3]
conv: %c: float32[1, 3, 4, 4] = Conv(%x, %w, %bias)
relu: %r: float32[1, 3, 4, 4] = Relu(%c)
flatten: %f: float32[1, 48] = Flatten(%r)
const %w2: float32[32, 48]
const %b2: float32[32]
gemm: %g: float32[1, 32] = Gemm{transB=1}(%f, %w2, %b2)
sigmoid: %s: float32[1, 32] = Sigmoid(%g)
mul: %m: float32[1, 32] = Mul(%g, %s)
const %w3: float32[32, 2]
product: %y: float32[1, 2] = MatMul(%m, %w3)
output %y
)";

class ResolveTest : public testing::Test {
 protected:
  void SetUp() override {
    original_ = MakeNet(kNet);
    optimized_ = original_;
    const auto status = RunPasses(optimized_, Stage::kOptimize);
    ASSERT_TRUE(status) << status.error().message();
  }

  ResolvedEncodings Resolved(std::vector<Encoding> encodings) {
    auto resolved = ResolveEncodings(encodings, original_, optimized_);
    EXPECT_TRUE(resolved) << resolved.error().message();
    return resolved ? std::move(*resolved) : ResolvedEncodings();
  }
  std::string ErrorOf(Encoding e) {
    e.place = "encodings[0] (" + e.name + ")";
    const auto resolved = ResolveEncodings(std::span(&e, 1), original_, optimized_);
    return resolved ? "" : resolved.error().message();
  }
  // The type of the value that the entry's parameters went to.
  const GivenType& GivenBy(const ResolvedEncodings& resolved, const std::string& entry) {
    for (const auto& [value, tensor] : resolved.tensors) {
      if (tensor == entry) return resolved.given.at(value);
    }
    static const GivenType kNone;
    ADD_FAILURE() << entry << " is not used: "
                  << (resolved.not_used.count(entry) ? resolved.not_used.at(entry) : "");
    return kNone;
  }

  Graph original_, optimized_;
};

TEST_F(ResolveTest, ActivationsGoToTheirValues) {
  const auto resolved =
      Resolved({{.name = "x", .is_signed = false, .scales = {0.5f}, .zero_points = {7}},
                {.name = "m", .scales = {0.25f}, .zero_points = {0}},
                {.name = "r", .real = true}});
  EXPECT_TRUE(resolved.not_used.empty());
  EXPECT_EQ(resolved.given.at("x").dtype, DType::kUint8);
  EXPECT_EQ(resolved.given.at("x").params, QuantParams::PerTensor(0.5f, 7));
  EXPECT_EQ(resolved.given.at("m").dtype, DType::kInt8);
  EXPECT_TRUE(resolved.given.at("r").real);
}

TEST_F(ResolveTest, WhatIsBeforeAFusedActivationHasItsOwnName) {
  const auto resolved =
      Resolved({{.name = "g", .is_signed = false, .scales = {0.5f}, .zero_points = {7}},
                {.name = "c", .is_signed = false, .scales = {0.5f}, .zero_points = {9}}});
  EXPECT_EQ(resolved.given.at("m.linear").params, QuantParams::PerTensor(0.5f, 7));
  EXPECT_EQ(resolved.given.at("r.linear").params, QuantParams::PerTensor(0.5f, 9));
}

TEST_F(ResolveTest, ChannelsOfATransposedWeightFollowIt) {
  Encoding e{.name = "w2", .parameter = true, .granularity = Granularity::kChannel};
  for (int i = 0; i < 32; ++i) {
    e.scales.push_back(0.5f + static_cast<float>(i));
    e.zero_points.push_back(i - 16);
  }
  e.sizes = {32};
  for (const std::optional<int> axis : {std::optional<int>(), std::optional<int>(0)}) {
    e.axis = axis;  // implied and explicit
    const auto resolved = Resolved({e});
    const GivenType& given = GivenBy(resolved, "w2");
    EXPECT_EQ(given.params.axis, 1);
    EXPECT_EQ(given.params.scales, e.scales);
    EXPECT_EQ(given.params.zero_points, e.zero_points);
  }
}

TEST_F(ResolveTest, BlocksOfATransposedWeightFollowIt) {
  // [32, 48] in blocks of 16 along axis 1: [32, 3]; the value is [48, 32] with scales [3, 32].
  Encoding e{.name = "w2",
             .parameter = true,
             .bits = 4,
             .granularity = Granularity::kBlock,
             .axis = 1,
             .sizes = {32, 3},
             .block = 16};
  for (int i = 0; i < 96; ++i) {
    e.scales.push_back(1.0f + static_cast<float>(i));
    e.zero_points.push_back(0);
  }
  for (const bool implied : {false, true}) {
    if (implied) {
      e.axis = std::nullopt;
      e.sizes = {96};
    }
    const auto resolved = Resolved({e});
    const GivenType& given = GivenBy(resolved, "w2");
    EXPECT_EQ(given.dtype, DType::kInt4);
    EXPECT_EQ(given.params.axis, 0);
    EXPECT_EQ(given.params.block, 16);
    ASSERT_EQ(given.params.scales.size(), 96u);
    for (int b = 0; b < 3; ++b) {
      for (int n = 0; n < 32; ++n)
        EXPECT_EQ(given.params.scales[b * 32 + n], 1.0f + static_cast<float>(n * 3 + b));
    }
  }
}

// Of a matrix [K, N] version 1.0.0 lists output channels first as well.
TEST_F(ResolveTest, FlatBlocksListOutputChannelsFirst) {
  const Encoding lpbq{.name = "w3",
                      .parameter = true,
                      .bits = 4,
                      .granularity = Granularity::kBlock,
                      .zero_points = {0, 0, 0, 0},
                      .sizes = {4},
                      .block = 16,
                      .channel_scales = {0.5f, 0.25f},
                      .block_scales = {1, 2, 3, 16}};
  const auto resolved = Resolved({lpbq});
  // [2 blocks, 2 channels]
  EXPECT_EQ(GivenBy(resolved, "w3").params.scales, (std::vector<float>{0.5f, 0.75f, 1.0f, 4.0f}));
  EXPECT_EQ(GivenBy(resolved, "w3").params.axis, 0);
}

TEST_F(ResolveTest, BlocksOfAConvolutionReachOverItsWindow) {
  const Encoding e{.name = "w",
                   .parameter = true,
                   .bits = 4,
                   .granularity = Granularity::kBlock,
                   .scales = {1, 2, 3, 4, 5, 6},
                   .zero_points = {0, 0, 0, 0, 0, 0},
                   .axis = 1,
                   .sizes = {3, 2, 1, 1},
                   .block = 2};
  const auto resolved = Resolved({e});
  const GivenType& given = GivenBy(resolved, "w");
  ASSERT_EQ(given.params.scales.size(), 3u * 2 * 9);
  for (size_t i = 0; i < given.params.scales.size(); ++i)
    EXPECT_EQ(given.params.scales[i], static_cast<float>(i / 9 + 1));
}

TEST_F(ResolveTest, FewerBitsOfAConstantUseAWiderType) {
  const auto resolved =
      Resolved({{.name = "w", .parameter = true, .bits = 6, .scales = {0.5f}, .zero_points = {0}},
                {.name = "x", .bits = 6, .scales = {0.5f}, .zero_points = {0}}});
  EXPECT_EQ(GivenBy(resolved, "w").dtype, DType::kInt8);
  EXPECT_EQ(GivenBy(resolved, "w").bits, 6);
  EXPECT_EQ(resolved.not_used.at("x"), "evoq has no integers of 6 bits here");
}

TEST_F(ResolveTest, WhatIsNotUsedSaysWhy) {
  Encoding half{.name = "w3"};
  half.refusal = "its zero point -0.5 is no whole number of 32 bits";
  const auto resolved = Resolved(
      {{.name = "w22", .scales = {1}, .zero_points = {0}},
       {.name = "f", .scales = {1}, .zero_points = {0}},
       {.name = "m", .granularity = Granularity::kChannel, .scales = {1, 2}, .zero_points = {0, 0}},
       {.name = "x", .is_signed = false, .scales = {1}, .zero_points = {-3}},
       {.name = "w", .bits = 32, .scales = {1}, .zero_points = {0}},
       half});
  EXPECT_EQ(resolved.not_used.at("w22"), "the model has no such tensor; nearest: w2");
  EXPECT_EQ(resolved.not_used.at("m"), "activations have one scale, not one per channel or block");
  EXPECT_EQ(resolved.not_used.at("x"), "its zero point -3 is outside uint8");
  EXPECT_EQ(resolved.not_used.at("w"), "32 bits are those of a bias, which it is not");
  EXPECT_EQ(resolved.not_used.at("w3"), half.refusal);
}

TEST_F(ResolveTest, WhatDoesNotFitItsTensorIsAnError) {
  EXPECT_EQ(ErrorOf({.name = "w",
                     .granularity = Granularity::kChannel,
                     .scales = {1, 2},
                     .zero_points = {0, 0},
                     .axis = 0}),
            "encodings[0] (w): 2 scales, expected 3: one for each index of axis 0 of [3, 4, 3, 3]");
  EXPECT_EQ(ErrorOf({.name = "w",
                     .granularity = Granularity::kChannel,
                     .scales = {1, 2, 3},
                     .zero_points = {0, 0, 0},
                     .axis = 4}),
            "encodings[0] (w): axis 4 of a tensor of rank 4");
  EXPECT_EQ(ErrorOf({.name = "w3",
                     .granularity = Granularity::kBlock,
                     .scales = {1, 2, 3},
                     .zero_points = {0, 0, 0},
                     .sizes = {3},
                     .block = 16}),
            "encodings[0] (w3): 3 scales, expected 4 for 2 output channels in 2 blocks");
  EXPECT_EQ(ErrorOf({.name = "w3",
                     .granularity = Granularity::kBlock,
                     .scales = {1, 2, 3},
                     .zero_points = {0, 0, 0},
                     .axis = 0,
                     .sizes = {3, 1},
                     .block = 16}),
            "encodings[0] (w3): 3 scales on axis 0, expected 2: blocks of 16 on axis 0 of [32, 2]");
}

TEST_F(ResolveTest, WhatWasUsedGoesBackToTheFilesAxes) {
  QuantParams channels;
  channels.axis = 1;
  for (int i = 0; i < 32; ++i) {
    channels.scales.push_back(1.0f + static_cast<float>(i));
    channels.zero_points.push_back(0);
  }
  const Lineage lineage(original_, optimized_);
  std::string w2;
  for (const Lineage::Link* link : lineage.OfTensor("w2")) w2 = link->value;
  const UsedEncodings used = EncodingsOfUsed(
      {{w2, TensorType(DType::kInt8, Shape{48, 32}, channels)},
       {"m.linear", TensorType(DType::kUint8, Shape{1, 32}, QuantParams::PerTensor(0.5f, 3))},
       {"made", TensorType(DType::kUint8, Shape{1}, QuantParams::PerTensor(0.5f, 3))}},
      {{"m.linear", 4}}, original_, lineage);
  ASSERT_EQ(used.encodings.size(), 2u);
  EXPECT_EQ(used.encodings[0].name, "g");
  EXPECT_FALSE(used.encodings[0].parameter);
  EXPECT_EQ(used.encodings[0].bits, 4);
  EXPECT_EQ(used.encodings[1].bits, 8);
  EXPECT_EQ(used.encodings[1].name, "w2");
  EXPECT_TRUE(used.encodings[1].parameter);
  EXPECT_EQ(used.encodings[1].axis, 0);
  EXPECT_EQ(used.encodings[1].scales, channels.scales);
  EXPECT_EQ(used.left_out.at("made"), "the model's file has no such tensor");
}

// One weight that two layers read, each with its own output channels: one entry, for the layer that
// reads it as it is in the file, which is read again where axes are not written.
TEST(Resolve, TiedWeightsHaveOneEntry) {
  const Graph original = MakeNet(R"(graph tied
input %x: float32[1, 3]
const %w: float32[4, 3]
a: %a: float32[1, 4] = Gemm{transB=1}(%x, %w)
b: %y: float32[1, 3] = MatMul(%a, %w)
output %y
)");
  Graph optimized = original;
  ASSERT_TRUE(RunPasses(optimized, Stage::kOptimize));
  const Lineage lineage(original, optimized);
  std::map<std::string, TensorType> used;
  for (const Lineage::Link* link : lineage.OfTensor("w")) {
    const Shape& shape = optimized.value(optimized.FindValue(link->value)).type.shape;
    QuantParams q{{}, {}, 1};
    for (int64_t i = 0; i < shape[1].value; ++i) {
      q.scales.push_back(0.5f);
      q.zero_points.push_back(0);
    }
    used[link->value] = TensorType(DType::kInt8, shape, q);
  }
  ASSERT_EQ(used.size(), 2u);
  const UsedEncodings made = EncodingsOfUsed(used, {}, original, lineage);
  ASSERT_EQ(made.encodings.size(), 1u);
  EXPECT_EQ(made.encodings[0].axis, 0);
  EXPECT_EQ(made.encodings[0].scales.size(), 4u);
  EXPECT_EQ(made.left_out.size(), 1u);
  std::vector<Encoding> entries = made.encodings;
  entries[0].axis = std::nullopt;
  const auto read = ResolveEncodings(entries, original, optimized);
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->given.size(), 2u);
  for (const auto& [value, given] : read->given) EXPECT_EQ(given.params.scales.size(), 4u);
}

}  // namespace
}  // namespace evoq
