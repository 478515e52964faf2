// Biases as the integers of an accumulator, against numbers worked out by hand.
#include "passes/qdq_bias.h"

#include <gtest/gtest.h>

#include <limits>

namespace evoq {
namespace {

// All scales are powers of 2: products and quotients are exact.
const QuantParams kInput = QuantParams::PerTensor(0.5f, 3);
const QuantParams kOne = QuantParams::PerTensor(0.25f, 0);
const QuantParams kEach{{0.25f, 0.5f, 1.0f}, {0, 0, 0}, 0, 0};

std::vector<int32_t> Ints(const std::optional<Tensor>& tensor) {
  if (!tensor) return {};
  EXPECT_EQ(tensor->type().ToString(), "int32[3]");
  const auto values = tensor->values<int32_t>();
  return {values.begin(), values.end()};
}

Tensor Quantized(std::vector<int32_t> values, QuantParams quant) {
  const Tensor plain = Tensor::FromValues(values);
  return plain.WithType(TensorType(DType::kInt32, plain.shape(), std::move(quant)));
}

TEST(IntegerBias, OfReals) {
  const Tensor bias = Tensor::FromValues<float>(Shape{3}, {1.0f, -2.0f, 0.8f});
  // Steps of 1/8: 8, -16, 6.4; of 1/8, 1/4, 1/2: 8, -8, 1.6.
  EXPECT_EQ(Ints(IntegerBias(bias, kInput, kOne, 3)), (std::vector<int32_t>{8, -16, 6}));
  EXPECT_EQ(Ints(IntegerBias(bias, kInput, kEach, 3)), (std::vector<int32_t>{8, -8, 2}));
  EXPECT_FALSE(IntegerBias(bias, kInput, kOne, 2));
  EXPECT_FALSE(IntegerBias(bias, kInput, kOne, 4));
  EXPECT_FALSE(IntegerBias(Tensor::FromValues<int32_t>(Shape{3}, {1, 2, 3}), kInput, kOne, 3))
      << "integers without a scale";
}

TEST(FinerWeights, AreTheSameNumbers) {
  const QuantParams each{{0.5f, 3.0f}, {0, 1}, 0, 0};
  const Tensor plain = Tensor::FromValues<float>(Shape{2, 2}, {-3.5f, 0, 3, 18});
  const Tensor weights = QuantizeTensor(plain, TensorType(DType::kInt4, Shape{2, 2}, each)).value();
  const auto finer = FinerWeights(weights);
  ASSERT_TRUE(finer);
  EXPECT_EQ(finer->dtype(), DType::kInt8);
  EXPECT_EQ(finer->type().quant->scales, (std::vector<float>{0.5f / 16, 3.0f / 16}));
  EXPECT_EQ(finer->type().quant->zero_points, (std::vector<int32_t>{0, 16}));
  EXPECT_TRUE(BitEqual(ToFloat32(*finer).value(), ToFloat32(weights).value()));
  EXPECT_FALSE(FinerWeights(*finer)) << "8 bits";
  const Tensor bytes = Tensor::FromValues<int8_t>(Shape{3}, {-1, 0, 1});
  const auto ternary = FinerWeights(
      bytes.WithType(TensorType(DType::kInt8, Shape{3}, QuantParams::PerTensor(2, 0))));
  ASSERT_TRUE(ternary) << "fewer bits in bytes";
  EXPECT_EQ(ternary->type().ToString(), "int8[3](scale 0.03125, zero 0)");
  EXPECT_EQ(ToFloat32(*ternary)->data<float>()[0], -2);
  const Tensor unsigned_full =
      QuantizeTensor(Tensor::FromValues<float>(Shape{2}, {0, 15}),
                     TensorType(DType::kUint4, Shape{2}, QuantParams::PerTensor(1, 8)))
          .value();
  EXPECT_EQ(FinerWeights(unsigned_full)->type().quant->zero_points[0], 128);
}

TEST(IntegerBias, OfIntegersOfAnyScale) {
  const struct {
    const char* what;
    std::vector<int32_t> values;
    QuantParams bias;
    const QuantParams& weights;
    std::vector<int32_t> expected;
  } kRows[] = {
      {"the scale that is wanted",
       {8, -16, 6},
       QuantParams::PerTensor(0.125f, 0),
       kOne,
       {8, -16, 6}},
      // As written, not rounded by way of the scale: 0.8e-5 off in 2^30 would be thousands.
      {"nearly that scale",
       {1 << 30, 5, 6},
       QuantParams::PerTensor(0.125001f, 0),
       kOne,
       {1 << 30, 5, 6}},
      {"those of all channels",
       {8, -8, 2},
       {{0.125f, 0.25f, 0.5f}, {0, 0, 0}, 0, 0},
       kEach,
       {8, -8, 2}},
      {"the first channel's only",
       {8, -8, 8},
       QuantParams::PerTensor(0.125f, 0),
       kEach,
       {8, -4, 2}},
      {"all but the last channel's",
       {8, -8, 8},
       {{0.125f, 0.25f, 0.125f}, {0, 0, 0}, 0, 0},
       kEach,
       {8, -8, 2}},
      {"all but the first channel's",
       {8, -8, 8},
       {{0.5f, 0.25f, 0.5f}, {0, 0, 0}, 0, 0},
       kEach,
       {32, -8, 8}},
      {"a larger scale", {3, -4, 5}, QuantParams::PerTensor(0.5f, 0), kOne, {12, -16, 20}},
      {"a smaller scale", {16, -8, 4}, QuantParams::PerTensor(0.0625f, 0), kOne, {8, -4, 2}},
      {"a zero point", {8, -16, 6}, QuantParams::PerTensor(0.125f, 2), kOne, {6, -18, 4}},
      {"zero points per channel",
       {8, -16, 6},
       {{0.125f, 0.125f, 0.5f}, {0, 1, 2}, 0, 0},
       kOne,
       {8, -17, 16}},
  };
  for (const auto& row : kRows)
    EXPECT_EQ(Ints(IntegerBias(Quantized(row.values, row.bias), kInput, row.weights, 3)),
              row.expected)
        << row.what;
  EXPECT_FALSE(IntegerBias(Quantized({1, 2, 3}, {{0.125f, 0.25f}, {0, 0}, 0, 0}), kInput, kOne, 3))
      << "fewer scales than channels";
  EXPECT_FALSE(IntegerBias(Quantized({1, 2}, QuantParams::PerTensor(0.125f, 0)), kInput, kOne, 3))
      << "fewer integers than channels";
}

TEST(IntegerBias, BytesAreNotTakenAsTheyAre) {
  const Tensor plain = Tensor::FromValues<int8_t>(Shape{3}, {8, -16, 6});
  const Tensor bias =
      plain.WithType(TensorType(DType::kInt8, Shape{3}, QuantParams::PerTensor(0.125f, 0)));
  EXPECT_EQ(Ints(IntegerBias(bias, kInput, kOne, 3)), (std::vector<int32_t>{8, -16, 6}));
}

TEST(IntegerBias, BeyondTheAccumulatorThereIsNone) {
  // Steps of 1/8: 2^31 - 1 is the last; a float next to it is 2^31 - 128.
  const auto of = [](float real) {
    return IntegerBias(Tensor::FromValues<float>(Shape{1}, {real}), kInput, kOne, 1);
  };
  const auto last = of(268435440.0f);  // (2^31 - 128) / 8
  ASSERT_TRUE(last);
  EXPECT_EQ(last->values<int32_t>()[0], 2147483520);
  EXPECT_TRUE(of(-268435440.0f));
  EXPECT_FALSE(of(268435456.0f));   // 2^31 / 8
  EXPECT_FALSE(of(-268435456.0f));  // the other side, as far
  EXPECT_FALSE(of(std::numeric_limits<float>::quiet_NaN()));
  // (2^31 - 2) - -1 is the last integer, one more is beyond.
  const auto shifted = [](int32_t value, int32_t zero) {
    return IntegerBias(Quantized({value}, QuantParams::PerTensor(0.125f, zero)), kInput, kOne, 1);
  };
  const auto whole = shifted(INT32_MAX - 1, -1);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->values<int32_t>()[0], INT32_MAX);
  EXPECT_FALSE(shifted(INT32_MAX - 1, -2));
}

TEST(WeightsForBias, ScalesAreRaisedUntilTheBiasFits) {
  // Input scale 1/2; biases 2^20, 1, 2^29: the least scales are |b| / 2^30 / (1/2), so 2^-9, 2^-29
  // and 1.
  const Tensor bias = Tensor::FromValues<float>(Shape{3}, {-1048576.0f, 1.0f, 536870912.0f});
  const auto weights = [](std::vector<float> scales) {
    return Tensor::FromValues<int8_t>(Shape{3, 2}, {64, -32, 5, 6, 32, 16})
        .WithType(
            TensorType(DType::kInt8, Shape{3, 2}, QuantParams{std::move(scales), {0, 0, 0}, 0, 0}));
  };
  // Raised by 4 and by 2, the integers shrink by as much.
  const auto raised = WeightsForBias(weights({0x1p-11f, 0.25f, 0.5f}), bias, kInput, 0);
  ASSERT_TRUE(raised);
  EXPECT_EQ(raised->type().quant->scales, (std::vector<float>{0x1p-9f, 0.25f, 1.0f}));
  EXPECT_EQ(raised->type().quant->zero_points, (std::vector<int32_t>{0, 0, 0}));
  EXPECT_EQ(raised->type().quant->axis, 0);
  const auto q = ToInt64s(raised->WithType(TensorType(DType::kInt8, Shape{3, 2})));
  ASSERT_TRUE(q);
  EXPECT_EQ(*q, (std::vector<int64_t>{16, -8, 5, 6, 16, 8}));
  EXPECT_FALSE(WeightsForBias(weights({0x1p-9f, 0x1p-29f, 1.0f}), bias, kInput, 0)) << "all fit";
  EXPECT_FALSE(WeightsForBias(weights({0x1p-11f, 0.25f, 0.5f}),
                              Tensor::FromValues<float>(Shape{2}, {-1048576.0f, 1.0f}), kInput, 0))
      << "fewer biases than scales";
}

TEST(WeightsForBias, OneScaleBecomesOneForEachChannel) {
  const Tensor one =
      Tensor::FromValues<int8_t>(Shape{2, 2}, {64, -32, 7, 8})
          .WithType(TensorType(DType::kInt8, Shape{2, 2}, QuantParams::PerTensor(0x1p-11f, 0)));
  const Tensor bias = Tensor::FromValues<float>(Shape{2}, {-1048576.0f, 1.0f});
  const auto raised = WeightsForBias(one, bias, kInput, 0);
  ASSERT_TRUE(raised);
  EXPECT_EQ(*raised->type().quant, (QuantParams{{0x1p-9f, 0x1p-11f}, {0, 0}, 0, 0}));
  const auto q = ToInt64s(raised->WithType(TensorType(DType::kInt8, Shape{2, 2})));
  ASSERT_TRUE(q);
  EXPECT_EQ(*q, (std::vector<int64_t>{16, -8, 7, 8}));
  const auto columns = WeightsForBias(one, bias, kInput, 1);
  ASSERT_TRUE(columns);
  EXPECT_EQ(columns->type().quant->axis, 1);
  const auto by_column = ToInt64s(columns->WithType(TensorType(DType::kInt8, Shape{2, 2})));
  ASSERT_TRUE(by_column);
  EXPECT_EQ(*by_column, (std::vector<int64_t>{16, -32, 2, 8}));
  EXPECT_FALSE(WeightsForBias(one, bias, kInput, -1)) << "several groups share a channel's scale";
}

// Two products of at most 127 * 128 and 128 * 128 (zero point 0 of int8), and the bias.
TEST(SumsFit, UpToTheLastIntegerOfTheAccumulator) {
  const Node node{.op = "MatMul"};
  const TensorType x(DType::kInt8, Shape{1, 2}, QuantParams::PerTensor(1, 0));
  const Tensor weights =
      Tensor::FromValues<int8_t>(Shape{2, 2}, {127, 0, -128, 1})
          .WithType(TensorType(DType::kInt8, Shape{2, 2}, QuantParams::PerTensor(1, 0)));
  constexpr int32_t kLeft = INT32_MAX - (127 + 128) * 128;
  const auto fits = [&](std::vector<int32_t> bias) {
    return SumsFit(node, weights, Tensor::FromValues<int32_t>(Shape{2}, bias), x);
  };
  EXPECT_TRUE(fits({kLeft, 0}));
  EXPECT_TRUE(fits({-kLeft, INT32_MAX - 128}));
  EXPECT_FALSE(fits({kLeft + 1, 0}));
  EXPECT_FALSE(fits({-kLeft - 1, 0}));
  EXPECT_FALSE(fits({0, INT32_MIN}));
  EXPECT_TRUE(SumsFit(node, weights, Tensor(), x));
}

// 127 * 255 * 66312 is the last multiple below 2^31.
TEST(SumsFit, LongSumsWithoutABias) {
  const auto fits = [](int64_t depth) {
    Tensor weights =
        Tensor::Allocate(TensorType(DType::kInt8, Shape{depth, 1}, QuantParams{{1}, {0}, 1, 0}));
    std::ranges::fill_n(weights.mutable_data<int8_t>(), depth, int8_t{127});
    return SumsFit({.op = "MatMul"}, weights, Tensor(),
                   TensorType(DType::kUint8, Shape{1, depth}, QuantParams::PerTensor(1, 255)));
  };
  EXPECT_TRUE(fits(66311));
  EXPECT_FALSE(fits(66312));
}

}  // namespace
}  // namespace evoq
