// Conv, ConvTranspose, MatMul, Gemm: small cases by hand, and integer arithmetic against the
// formula of kernels/requant.h.
#include "reference/linear.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reference/test_util.h"

namespace evoq {
namespace {

using Ints = std::vector<int64_t>;

TEST(Conv, ByHand) {
  const Tensor x = Floats({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}),
               w = Floats({1, 1, 2, 2}, {1, 0, 0, -1});
  EXPECT_EQ(ToVector(Eval(NodeOf("Conv", 2), {x, w})), (std::vector<float>{-4, -4, -4, -4}));
  // Padded at the top and the left, stride 2: windows (0,0) and (0,2) start outside.
  const Node padded =
      NodeOf("Conv", 3, WithAttrs({{"pads", Ints{1, 1, 0, 0}}, {"strides", Ints{2, 2}}}));
  EXPECT_EQ(ToVector(Eval(padded, {x, w, Floats({1}, {10})})), (std::vector<float>{9, 7, 3, 6}));
}

TEST(Conv, GroupsDilationsResidualAndActivation) {
  const Tensor x = Floats({1, 2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}),
               w = Floats({2, 1, 2}, {1, 1, 1, -1});
  Node node = NodeOf(
      "Conv", 4,
      WithAttrs(
          {{"group", int64_t{2}}, {"dilations", Ints{3}}, {"activation", std::string("Relu")}}));
  const Tensor y = Eval(node, {x, w, Floats({2}, {0.5f, 1}), Floats({1, 2, 2}, {0, -20, 3, 0})});
  EXPECT_EQ(ToVector(y), (std::vector<float>{5.5f, 0, 1, 0}));
}

TEST(Conv, AutoPadSameKeepsSizes) {
  const Tensor x = Floats({1, 1, 4}, {1, 2, 3, 4}), w = Floats({1, 1, 2}, {10, 1});
  Node node = NodeOf("Conv", 2, WithAttrs({{"auto_pad", std::string("SAME_UPPER")}}));
  EXPECT_EQ(ToVector(Eval(node, {x, w})), (std::vector<float>{12, 23, 34, 40}));
  node.attrs.Set("auto_pad", "SAME_LOWER");
  EXPECT_EQ(ToVector(Eval(node, {x, w})), (std::vector<float>{1, 12, 23, 34}));
}

TEST(Conv, Errors) {
  const Tensor x = Floats({1, 2, 3}, std::vector<float>(6)),
               w = Floats({2, 2, 4}, std::vector<float>(16));
  EXPECT_EQ(EvalError(NodeOf("Conv", 2), {x, w}),
            "node node (Conv): a window of 4 is larger than the padded input, 3 on spatial axis 0");
  EXPECT_EQ(EvalError(NodeOf("Conv", 2, WithAttrs({{"group", int64_t{2}}})), {x, w}),
            "node node (Conv): input 0 has 2 channels; the weight [2, 2, 4] with group 2 wants 4");
  EXPECT_EQ(EvalError(NodeOf("Conv", 2, WithAttrs({{"pads", Ints{1}}})), {x, w}),
            "node node (Conv): attribute pads is [1], expected 2 values");
}

TEST(ConvTranspose, ByHand) {
  const Tensor x = Floats({1, 1, 2, 2}, {1, 2, 3, 4}), w = Floats({1, 1, 2, 2}, {1, 10, 100, 1000});
  EXPECT_EQ(ToVector(Eval(NodeOf("ConvTranspose", 2), {x, w})),
            (std::vector<float>{1, 12, 20, 103, 1234, 2040, 300, 3400, 4000}));
  const Node node = NodeOf(
      "ConvTranspose", 2,
      WithAttrs(
          {{"strides", Ints{2, 2}}, {"pads", Ints{0, 1, 1, 0}}, {"output_padding", Ints{0, 1}}}));
  EXPECT_EQ(ToVector(Eval(node, {x, w})),
            (std::vector<float>{10, 2, 20, 0, 1000, 200, 2000, 0, 30, 4, 40, 0}));
}

TEST(MatMul, BroadcastsBatchesAndVectors) {
  const Tensor a = Floats({2, 1, 2}, {1, 2, 3, 4}), b = Floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor y = Eval(NodeOf("MatMul", 3), {a, b, Floats({3}, {0, 0, 100})});
  EXPECT_EQ(y.type().ToString(), "float32[2, 1, 3]");
  EXPECT_EQ(ToVector(y), (std::vector<float>{9, 12, 115, 19, 26, 133}));
  const Tensor dot = Eval(NodeOf("MatMul", 2), {Floats({2}, {1, 2}), Floats({2}, {3, 4})});
  EXPECT_EQ(dot.type().ToString(), "float32[]");
  EXPECT_EQ(ToVector(dot), (std::vector<float>{11}));
}

TEST(Gemm, AlphaBetaAndTransposes) {
  const Node node = NodeOf(
      "Gemm", 3,
      WithAttrs({{"alpha", 0.5f}, {"beta", 2.0f}, {"transA", int64_t{1}}, {"transB", int64_t{1}}}));
  const Tensor a = Floats({2, 1}, {1, 2}), b = Floats({3, 2}, {1, 2, 3, 4, 5, 6}),
               c = Floats({3}, {1, 0, -1});
  EXPECT_EQ(ToVector(Eval(node, {a, b, c})), (std::vector<float>{4.5f, 5.5f, 6.5f}));
}

// y[n] of kernels/requant.h, written out for one row.
int Expected(const std::vector<int>& x, const std::vector<std::vector<int>>& w, int n, int zero_x,
             int zero_w, int bias, float sx, float sw, float sy, int zero_y, int r, float sr,
             int zero_r) {
  int64_t acc = bias;
  for (size_t k = 0; k < x.size(); ++k) acc += (x[k] - zero_x) * (w[k][n] - zero_w);
  float v = static_cast<float>(acc) * static_cast<float>(double(sx) * sw / sy);
  v = v + static_cast<float>(r - zero_r) * static_cast<float>(double(sr) / sy);
  v = v > 0 ? v : 0;
  return static_cast<int>(std::fmin(std::fmax(std::nearbyint(v) + zero_y, 0), 255));
}

TEST(MatMul, QuantizedIsTheFormula) {
  const std::vector<int> xs = {200, 3, 77, 129};
  const std::vector<std::vector<int>> ws = {{-128, 5}, {7, 127}, {100, -3}, {-1, 66}};
  const float sx = 0.031f, sy = 0.9f, sr = 0.33f, sw[] = {0.7f, 0.013f};
  const Tensor x = Quantized<uint8_t>({1, 4}, {200, 3, 77, 129}, QuantParams::PerTensor(sx, 121));
  const Tensor w =
      Quantized<int8_t>({4, 2}, {-128, 5, 7, 127, 100, -3, -1, 66}, {{sw[0], sw[1]}, {0, 3}, 1, 0});
  const Tensor bias = Tensor::FromValues<int32_t>(Shape{2}, {4321, -77});
  const Tensor r = Quantized<int8_t>({1, 2}, {90, -100}, QuantParams::PerTensor(sr, -5));
  const Node node = NodeOf("MatMul", 4, WithAttrs({{"activation", std::string("Relu")}}));
  const Tensor y = Eval(node, {x, w, bias, r},
                        TensorType(DType::kUint8, Shape{1, 2}, QuantParams::PerTensor(sy, 7)));
  const std::vector<uint8_t> expected = {
      static_cast<uint8_t>(Expected(xs, ws, 0, 121, 0, 4321, sx, sw[0], sy, 7, 90, sr, -5)),
      static_cast<uint8_t>(Expected(xs, ws, 1, 121, 3, -77, sx, sw[1], sy, 7, -100, sr, -5))};
  EXPECT_EQ(ToVector<uint8_t>(y.WithType(TensorType(DType::kUint8, y.shape()))), expected);
}

// A convolution's integer arithmetic is MatMul's on the unfolded input; a 1x1 kernel needs no
// unfolding.
TEST(Conv, QuantizedOneByOneIsMatMul) {
  const Tensor x =
      Quantized<int8_t>({1, 2, 3}, {1, -2, 30, 40, -50, 60}, QuantParams::PerTensor(0.1f, 4));
  const Tensor w = Quantized<int8_t>({2, 2, 1}, {11, -22, 33, 44}, {{0.5f, 0.25f}, {0, 0}, 0, 0});
  const Tensor bias = Tensor::FromValues<int32_t>(Shape{2}, {100, -200});
  const TensorType conv_type(DType::kInt8, Shape{1, 2, 3}, QuantParams::PerTensor(3.7f, -9));
  const Tensor y = Eval(NodeOf("Conv", 3), {x, w, bias}, conv_type);
  const Tensor x_rows =
      Quantized<int8_t>({3, 2}, {1, 40, -2, -50, 30, 60}, QuantParams::PerTensor(0.1f, 4));
  const Tensor w_columns =
      Quantized<int8_t>({2, 2}, {11, 33, -22, 44}, {{0.5f, 0.25f}, {0, 0}, 1, 0});
  const TensorType matmul_type(DType::kInt8, Shape{3, 2}, QuantParams::PerTensor(3.7f, -9));
  const Tensor rows = Eval(NodeOf("MatMul", 3), {x_rows, w_columns, bias}, matmul_type);
  for (int c = 0; c < 2; ++c) {
    for (int p = 0; p < 3; ++p)
      EXPECT_EQ(y.data<int8_t>()[c * 3 + p], rows.data<int8_t>()[p * 2 + c]);
  }
}

TEST(Conv, PadsOfAQuantizedInputAreItsZeroPoint) {
  const Tensor x = Quantized<uint8_t>({1, 1, 1}, {130}, QuantParams::PerTensor(1, 128));
  const Tensor w = Quantized<int8_t>({1, 1, 3}, {5, 1, 7}, QuantParams::PerTensor(1, 0));
  const TensorType type(DType::kInt8, Shape{1, 1, 1}, QuantParams::PerTensor(1, 0));
  const Tensor y = Eval(NodeOf("Conv", 2, WithAttrs({{"pads", Ints{1, 1}}})), {x, w}, type);
  EXPECT_EQ(y.data<int8_t>()[0], 2);
}

TEST(Conv, WeightsOnlyQuantizationComputesInFloat) {
  const Tensor w = Quantized<int8_t>({2, 1, 1}, {3, -2}, {{0.5f, 0.25f}, {0, 0}, 0, 0});
  const Tensor y = Eval(NodeOf("Conv", 3), {Floats({1, 1, 2}, {1, 2}), w, Floats({2}, {0, 1})});
  EXPECT_EQ(ToVector(y), (std::vector<float>{1.5f, 3, 0.5f, 0}));
}

TEST(ConvTranspose, QuantizedEqualsFloatWhereExact) {
  const Tensor x =
      Quantized<uint8_t>({1, 2, 3}, {1, 2, 3, 4, 5, 6}, QuantParams::PerTensor(0.5f, 2));
  const Tensor w =
      Quantized<int8_t>({2, 2, 2}, {1, 2, 3, 4, -5, 6, 7, -8}, {{0.25f, 2}, {0, 0}, 1, 0});
  const Node node = NodeOf("ConvTranspose", 3, WithAttrs({{"strides", Ints{2}}}));
  // Bias at the scales 0.5 * 0.25 and 0.5 * 2.
  const Tensor bias = Tensor::FromValues<int32_t>(Shape{2}, {4, -3});
  EXPECT_EQ(ToVector(Eval(node, {x, w, bias})),
            ToVector(Eval(node, {*ToFloat32(x), *ToFloat32(w), Floats({2}, {0.5f, -3})})));
}

TEST(QLinear, EqualsTheDialect) {
  const Tensor x = Tensor::FromValues<uint8_t>(Shape{1, 1, 2}, {10, 200}),
               w = Tensor::FromValues<int8_t>(Shape{1, 1, 1}, {-3});
  const auto f = [](float v) { return Tensor::Scalar(v); };
  const Tensor y =
      Eval(NodeOf("QLinearConv", 8), {x, f(0.5f), Tensor::Scalar<uint8_t>(100), w, f(0.25f),
                                      Tensor::Scalar<int8_t>(0), f(1), Tensor::Scalar<int8_t>(7)});
  // (10 - 100) * -3 / 8 = 33.75, (200 - 100) * -3 / 8 = -37.5 -> -38.
  EXPECT_EQ(ToVector<int8_t>(y), (std::vector<int8_t>{41, -31}));
  const Tensor sums =
      Eval(NodeOf("MatMulInteger", 3),
           {Tensor::FromValues<uint8_t>(Shape{1, 2}, {3, 4}),
            Tensor::FromValues<int8_t>(Shape{2, 1}, {-1, 2}), Tensor::Scalar<uint8_t>(1)});
  EXPECT_EQ(ToVector<int32_t>(sums), (std::vector<int32_t>{4}));
}

// Results of 4 and of 2 bits lie in bytes from the lowest bits on, as ONNX has them. Files may ask
// for either.
TEST(Linear, IntegersOfFewBits) {
  const auto bytes = [](DType dtype, const std::vector<int32_t>& values) {
    const Tensor t =
        FromInt32s(TensorType(dtype, Shape{static_cast<int64_t>(values.size())}), values);
    std::vector<int> raw;
    for (size_t i = 0; i < t.bytes(); ++i) raw.push_back(std::to_integer<int>(t.raw()[i]));
    return raw;
  };
  EXPECT_EQ(bytes(DType::kUint2, {3, 0, 1, 2, 1}), (std::vector<int>{0b10010011, 1}));
  EXPECT_EQ(bytes(DType::kInt2, {-1, 1, -2}), (std::vector<int>{0b100111}));
  EXPECT_EQ(bytes(DType::kInt4, {-1, 2, 7}), (std::vector<int>{0x2f, 7}));
}

}  // namespace
}  // namespace evoq
