#include <gtest/gtest.h>

#include "reference/test_util.h"

namespace evoq {
namespace {

using Ints = std::vector<int64_t>;

TEST(Pool, MaxWithIndicesAndCeil) {
  Node node = NodeOf(
      "MaxPool", 1,
      WithAttrs({{"kernel_shape", Ints{2}}, {"strides", Ints{2}}, {"ceil_mode", int64_t{1}}}));
  node.outputs.push_back(ValueId{2});
  const std::vector<Tensor> inputs = {Floats({1, 2, 3}, {1, 3, 2, -1, -4, -2})};
  const std::vector<TensorType> types(2);
  auto outputs = EvaluateNode(node, inputs, types);
  ASSERT_TRUE(outputs) << outputs.error().message();
  EXPECT_EQ(ToVector((*outputs)[0]), (std::vector<float>{3, 2, -1, -2}));
  EXPECT_EQ(ToVector<int64_t>((*outputs)[1]), (Ints{1, 2, 3, 5}));
}

TEST(Pool, AverageCountsPadsWhenAsked) {
  Node node =
      NodeOf("AveragePool", 1, WithAttrs({{"kernel_shape", Ints{3}}, {"pads", Ints{1, 1}}}));
  const Tensor x = Floats({1, 1, 3}, {3, 6, 12});
  EXPECT_EQ(ToVector(Eval(node, {x})), (std::vector<float>{4.5f, 7, 9}));
  node.attrs.Set("count_include_pad", 1);
  EXPECT_EQ(ToVector(Eval(node, {x})), (std::vector<float>{3, 7, 6}));
}

TEST(Pool, QuantizedAverageRoundsOnce) {
  const Tensor x =
      Quantized<uint8_t>({1, 1, 2, 2}, {10, 11, 12, 14}, QuantParams::PerTensor(0.5f, 4));
  const Tensor y =
      Eval(NodeOf("GlobalAveragePool", 1), {x},
           TensorType(DType::kUint8, Shape{1, 1, 1, 1}, QuantParams::PerTensor(0.25f, 1)));
  // Sum 31 of steps of 0.5 over 4 in steps of 0.25: 31 * 0.5 = 15.5 -> 16, zero point 1.
  EXPECT_EQ(y.data<uint8_t>()[0], 17);
}

TEST(Pool, GlobalMaxAndLp) {
  const Tensor x = Floats({1, 2, 2, 1}, {3, -4, -1, -2});
  EXPECT_EQ(ToVector(Eval(NodeOf("GlobalMaxPool", 1), {x})), (std::vector<float>{3, -1}));
  EXPECT_EQ(ToVector(Eval(NodeOf("GlobalLpPool", 1), {x}))[0], 5);
}

// The taps outside the input, here 2^26 for each output, cost nothing.
TEST(Pool, HugeWindowOverASmallInput) {
  const Tensor x = Tensor::FromValues<float>(Shape{1, 1, 3000}, std::vector<float>(3000, 1));
  const Node node =
      NodeOf("LpPool", 1,
             WithAttrs({{"kernel_shape", Ints{1 << 26}}, {"auto_pad", "SAME_UPPER"}, {"p", 1}}));
  EXPECT_EQ(ToVector(Eval(node, {x})), std::vector<float>(3000, 3000));
}

TEST(Softmax, ByHand) {
  const Tensor y =
      Eval(NodeOf("Softmax", 1, WithAttrs({{"axis", int64_t{0}}})), {Floats({2, 2}, {0, 5, 0, 5})});
  EXPECT_EQ(ToVector(y), (std::vector<float>{0.5f, 0.5f, 0.5f, 0.5f}));
  EXPECT_EQ(ToVector(Eval(NodeOf("Hardmax", 1), {Floats({1, 3}, {1, 3, 3})})),
            (std::vector<float>{0, 1, 0}));
  EXPECT_EQ(EvalError(NodeOf("Softmax", 1, WithAttrs({{"axis", int64_t{2}}})), {Floats({1}, {0})}),
            "node node (Softmax): axis 2 is outside [-1, 1)");
}

}  // namespace
}  // namespace evoq
