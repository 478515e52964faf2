#include <gtest/gtest.h>

#include <cmath>

#include "reference/test_util.h"

namespace evoq {
namespace {

using Bytes = std::vector<uint8_t>;

TEST(Quantize, OnnxFormRoundsToEvenAndSaturates) {
  const Tensor x = Floats({6}, {0.5f, 1.5f, -0.5f, 1000, -1000, NAN});
  const Tensor y =
      Eval(NodeOf("QuantizeLinear", 3), {x, Tensor::Scalar(1.0f), Tensor::Scalar<uint8_t>(10)});
  EXPECT_EQ(ToVector<uint8_t>(y), (Bytes{10, 12, 10, 255, 0, 10}));
}

TEST(Quantize, AxisAndBlocks) {
  const Tensor x = Floats({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor by_row =
      Eval(NodeOf("QuantizeLinear", 3, WithAttrs({{"axis", int64_t{0}}})),
           {x, Floats({2}, {1, 2}), Tensor::FromValues<int8_t>(Shape{2}, {0, 1})});
  EXPECT_EQ(ToVector<int8_t>(by_row), (std::vector<int8_t>{1, 2, 3, 4, 3, 4, 5, 5}));
  const Attrs blocked =
      WithAttrs({{"axis", int64_t{1}}, {"block_size", int64_t{3}}, {"output_dtype", int64_t{22}}});
  const Tensor nibbles =
      Eval(NodeOf("QuantizeLinear", 2, blocked), {x, Floats({2, 2}, {1, 2, 1, 4})});
  EXPECT_EQ(nibbles.type().ToString(), "int4[2, 4]");
  EXPECT_EQ(ToVector<int8_t>(UnpackBits(nibbles)), (std::vector<int8_t>{1, 2, 3, 2, 5, 6, 7, 2}));
  EXPECT_EQ(EvalError(NodeOf("QuantizeLinear", 2, blocked), {x, Floats({2, 1}, {1, 2})}),
            "node node (QuantizeLinear): input 1 is float32[2, 1], expected size 2 on axis 1");
}

// Scales of float8 are any numbers: a constant that is the same everywhere has the scale 0 in
// files of ONNX Runtime's quantizer.
TEST(Dequantize, TinyFloatsWithAnyScale) {
  const Tensor q = *FromFloat32(Floats({2, 3}, {1, -2, 448, 4, 5, 6}), DType::kFloat8E4M3FN);
  EXPECT_EQ(ToVector(Eval(NodeOf("DequantizeLinear", 2), {q, Tensor::Scalar(0.0f)})),
            (std::vector<float>{0, 0, 0, 0, 0, 0}));
  const Attrs rows = WithAttrs({{"axis", int64_t{0}}});
  EXPECT_EQ(ToVector(Eval(NodeOf("DequantizeLinear", 2, rows), {q, Floats({2}, {-1, 0})})),
            (std::vector<float>{-1, 2, -448, 0, 0, 0}));
  const Attrs blocks = WithAttrs({{"axis", int64_t{1}}, {"block_size", int64_t{2}}});
  EXPECT_EQ(
      ToVector(Eval(NodeOf("DequantizeLinear", 2, blocks), {q, Floats({2, 2}, {1, 0, 2, 3})})),
      (std::vector<float>{1, -2, 0, 8, 10, 18}));
}

TEST(Dequantize, BothForms) {
  const Tensor q = Tensor::FromValues<uint8_t>(Shape{2}, {3, 7});
  const Tensor y =
      Eval(NodeOf("DequantizeLinear", 3), {q, Tensor::Scalar(0.5f), Tensor::Scalar<uint8_t>(5)});
  EXPECT_EQ(ToVector(y), (std::vector<float>{-1, 1}));
  const Tensor typed =
      q.WithType(TensorType(DType::kUint8, Shape{2}, QuantParams::PerTensor(0.5f, 5)));
  EXPECT_EQ(ToVector(Eval(NodeOf("DequantizeLinear", 1), {typed})), (std::vector<float>{-1, 1}));
  EXPECT_EQ(EvalError(NodeOf("DequantizeLinear", 1), {q}),
            "node node (DequantizeLinear): input 0 is uint8[2], expected a quantized value, or a "
            "scale as input 1");
}

TEST(Quantize, Dynamic) {
  Node node = NodeOf("DynamicQuantizeLinear", 1);
  node.outputs = {ValueId{1}, ValueId{2}, ValueId{3}};
  const std::vector<Tensor> inputs = {Floats({3}, {-1, 0, 4.1f})};
  const std::vector<TensorType> types(3);
  auto outputs = EvaluateNode(node, inputs, types);
  ASSERT_TRUE(outputs) << outputs.error().message();
  EXPECT_EQ(ToVector<uint8_t>((*outputs)[0]), (Bytes{0, 50, 255}));
  EXPECT_FLOAT_EQ(ToVector((*outputs)[1])[0], 5.1f / 255);
  EXPECT_EQ(ToVector<uint8_t>((*outputs)[2])[0], 50);
}

TEST(Quant, AnyNumberOfBits) {
  const auto run = [](std::vector<float> x, float scale, float zero, float bits, Attrs attrs) {
    const Shape shape{static_cast<int64_t>(x.size())};
    return ToVector(Eval(
        NodeOf("Quant", 4, std::move(attrs), "onnx.brevitas"),
        {Floats(shape, x), Tensor::Scalar(scale), Tensor::Scalar(zero), Tensor::Scalar(bits)}));
  };
  EXPECT_EQ(run({0.24f, 0.26f, 9, -9}, 0.5f, 0, 3, {}), (std::vector<float>{0, 0.5f, 1.5f, -2}));
  EXPECT_EQ(run({9, -9}, 1, 0, 3, WithAttrs({{"narrow", int64_t{1}}})),
            (std::vector<float>{3, -3}));
  EXPECT_EQ(run({9, -9}, 1, 2, 2, WithAttrs({{"signed", int64_t{0}}})),
            (std::vector<float>{1, -2}));
  EXPECT_EQ(run({0.1f, -0.1f}, 2, 0, 1, {}), (std::vector<float>{2, -2}));
  EXPECT_EQ(run({1.2f, -1.2f}, 1, 0, 8, WithAttrs({{"rounding_mode", std::string("UP")}})),
            (std::vector<float>{2, -2}));
}

}  // namespace
}  // namespace evoq
