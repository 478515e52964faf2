// Integer arithmetic on quantized values by hand, without the functions of kernels/requant.h:
// definitions and kernels on every instruction set give the integers that stand in these tables,
// worked out on paper.
#include "kernels/activation.h"
#include "kernels/test_util.h"
#include "reference/test_util.h"

namespace evoq {
namespace {

// One product of x = 1 .. n with a weight of 1: y = the sum * s_x s_w / s_y, rounded.
struct Row {
  const char* what;
  float scale_x, scale_w, scale_y;
  int32_t zero_x, zero_y;
  Activation activation;
  std::vector<int> x, y;  // stored
};

const Row kRows[] = {
    // In steps of a half: -2.5 -1.5 -0.5 0.5 1.5 2.5 round to the even neighbour.
    {"ties", 0.5f, 1, 1, 10, 100, {}, {5, 7, 9, 10, 11, 13, 15}, {98, 98, 100, 100, 100, 102, 102}},
    // 0.75 of x: 0.75 1.5 2.25 3 3.75.
    {"three quarters", 0.75f, 1, 1, 0, 7, {}, {1, 2, 3, 4, 5}, {8, 9, 9, 10, 11}},
    {"saturation",
     4,
     1,
     1,
     128,
     128,
     {},
     {0, 96, 97, 128, 159, 160, 255},
     {0, 0, 4, 128, 252, 255, 255}},
    // Relu cuts at the real 0, which is 100.
    {"Relu",
     0.5f,
     1,
     1,
     10,
     100,
     {ActivationKind::kRelu, 0, 0},
     {0, 9, 10, 13, 15},
     {100, 100, 100, 102, 102}},
    // Bounds -1.25 and 2.5 in steps of 0.5 are -2.5 and 5: clamped before rounding, -2.5 to the
    // even -2.
    {"Clip",
     0.5f,
     1,
     0.5f,
     10,
     100,
     {ActivationKind::kClip, -1.25f, 2.5f},
     {0, 7, 8, 9, 10, 14, 15, 16, 90},
     {98, 98, 98, 99, 100, 104, 105, 105, 105}},
    // A quarter of what is negative: -10 -> -2.5, -6 -> -1.5, -2 -> -0.5.
    {"LeakyRelu",
     1,
     1,
     1,
     10,
     100,
     {ActivationKind::kLeakyRelu, 0.25f, 0},
     {0, 4, 8, 10, 13},
     {98, 98, 100, 100, 103}},
};

TEST(Requantization, ProductsByHand) {
  for (const Row& r : kRows) {
    const auto n = static_cast<int64_t>(r.x.size());
    TestCall t;
    t.op = "MatMul";
    ActivationToAttrs(r.activation, t.attrs);
    t.inputs = {Quantized<uint8_t>({n, 1}, std::vector<uint8_t>(r.x.begin(), r.x.end()),
                                   QuantParams::PerTensor(r.scale_x, r.zero_x)),
                Quantized<int8_t>({1, 1}, {1}, QuantParams::PerTensor(r.scale_w, 0))};
    t.is_constant = {false, true};
    t.outputs = {
        TensorType(DType::kUint8, Shape{n, 1}, QuantParams::PerTensor(r.scale_y, r.zero_y))};
    const Tensor want = Quantized<uint8_t>({n, 1}, std::vector<uint8_t>(r.y.begin(), r.y.end()),
                                           *t.outputs[0].quant);
    ExpectKernel(*FindKernel("matmul_int8"), t, {want}, r.what);
    EXPECT_EQ(FirstDifference(Eval(NodeOf("MatMul", 2, t.attrs), t.inputs, t.outputs[0]), want), "")
        << r.what;
    // Into int8: the same 128 lower.
    const TensorType lower(DType::kInt8, Shape{n, 1},
                           QuantParams::PerTensor(r.scale_y, r.zero_y - 128));
    Tensor low = Tensor::Allocate(lower);
    for (int64_t i = 0; i < n; ++i)
      low.mutable_data<int8_t>()[i] = static_cast<int8_t>(r.y[static_cast<size_t>(i)] - 128);
    t.outputs = {lower};
    ExpectKernel(*FindKernel("matmul_int8"), t, {low}, r.what);
    EXPECT_EQ(FirstDifference(Eval(NodeOf("MatMul", 2, t.attrs), t.inputs, lower), low), "")
        << r.what;
  }
}

// y = (x + bias) / 2 + 3 (r - 5) in steps of 1: 4.5 + 0 -> 4, 5.5 + 3 -> 8 (8.5), 6.5 - 3 -> 4
// (3.5), and the activation comes last.
TEST(Requantization, BiasAndResidualByHand) {
  const Tensor x = Quantized<uint8_t>({3, 1}, {10, 12, 14}, QuantParams::PerTensor(0.5f, 2)),
               w = Quantized<int8_t>({1, 1}, {1}, QuantParams::PerTensor(1, 0));
  const Tensor bias = Tensor::FromValues<int32_t>(Shape{1}, {1}),
               r = Quantized<uint8_t>({3, 1}, {5, 6, 4}, QuantParams::PerTensor(3, 5));
  for (const auto& [activation, want] :
       {std::pair{Activation{}, std::vector<uint8_t>{64, 68, 64}},
        std::pair{Activation{ActivationKind::kClip, 4, 8}, std::vector<uint8_t>{64, 68, 64}},
        std::pair{Activation{ActivationKind::kClip, -1, 4}, std::vector<uint8_t>{64, 64, 64}}}) {
    TestCall t;
    t.op = "MatMul";
    ActivationToAttrs(activation, t.attrs);
    t.inputs = {x, w, bias, r};
    t.is_constant = {false, true, true, false};
    t.outputs = {TensorType(DType::kUint8, Shape{3, 1}, QuantParams::PerTensor(1, 60))};
    const Tensor y = Quantized<uint8_t>({3, 1}, want, *t.outputs[0].quant);
    ExpectKernel(*FindKernel("matmul_int8"), t, {y}, ActivationName(activation.kind));
    EXPECT_EQ(FirstDifference(Eval(NodeOf("MatMul", 4, t.attrs), t.inputs, t.outputs[0]), y), "")
        << ActivationName(activation.kind);
  }
}

// Scales per column: 1/2, 1/4, 2 of the sum 6 + bias: 3.5, 1.5 (6 / 4), 12.
TEST(Requantization, ScalesPerColumnByHand) {
  QuantParams columns;
  columns.axis = 1;
  columns.scales = {0.5f, 0.25f, 2};
  columns.zero_points = {0, 0, 0};
  TestCall t;
  t.op = "MatMul";
  t.inputs = {Quantized<uint8_t>({1, 2}, {4, 5}, QuantParams::PerTensor(1, 3)),
              Quantized<int8_t>({2, 3}, {2, 2, 2, 2, 2, 2}, columns),
              Tensor::FromValues<int32_t>(Shape{3}, {1, 0, 0})};
  t.is_constant = {false, true, true};
  t.outputs = {TensorType(DType::kUint8, Shape{1, 3}, QuantParams::PerTensor(1, 0))};
  const Tensor want =
      Quantized<uint8_t>({1, 3}, {4, 2, 12}, *t.outputs[0].quant);  // 3.5 -> 4, 1.5 -> 2
  ExpectKernel(*FindKernel("matmul_int8"), t, {want}, "columns");
  EXPECT_EQ(FirstDifference(Eval(NodeOf("MatMul", 3), t.inputs, t.outputs[0]), want), "");
}

// Averages of 1 2 4 8 (stored 11 12 14 18 about 10) in steps of 0.5: 3.75 / 0.5 = 7.5 -> 8 about 0,
// and 1.5 of each pair.
TEST(Requantization, AveragesByHand) {
  TestCall t;
  t.op = "GlobalAveragePool";
  t.attrs.Set("channels_last", 1);
  t.inputs = {Quantized<uint8_t>({1, 4, 1}, {11, 12, 14, 18}, QuantParams::PerTensor(1, 10))};
  t.outputs = {TensorType(DType::kUint8, Shape{1, 1, 1}, QuantParams::PerTensor(0.5f, 0))};
  const Tensor want = Quantized<uint8_t>({1, 1, 1}, {8}, *t.outputs[0].quant);
  ExpectKernel(*FindKernel("global_avgpool_u8"), t, {want}, "average");
  EXPECT_EQ(
      FirstDifference(Eval(NodeOf("GlobalAveragePool", 1, t.attrs), t.inputs, t.outputs[0]), want),
      "");
}

// -128 and 127 times 3e36 are infinite in float32, and are cut off as any large value is.
TEST(Requantization, AveragesBeyondFloat32Saturate) {
  for (int64_t c : {1, 7, 16, 64, 300}) {
    TestCall t;
    t.op = "AveragePool";
    t.attrs.Set("channels_last", 1);
    t.attrs.Set("kernel_shape", std::vector<int64_t>{1});
    t.outputs = {TensorType(DType::kUint8, Shape{1, 3, c}, QuantParams::PerTensor(1, 7))};
    std::vector<uint8_t> x, y;
    for (int64_t i = 0; i < 3 * c; ++i) {
      x.push_back(static_cast<uint8_t>(i < c ? 0 : i < 2 * c ? 128 : 255));
      y.push_back(static_cast<uint8_t>(i < c ? 0 : i < 2 * c ? 7 : 255));
    }
    t.inputs = {Quantized<uint8_t>({1, 3, c}, x, QuantParams::PerTensor(3e36f, 128))};
    const Tensor want = Quantized<uint8_t>({1, 3, c}, y, *t.outputs[0].quant);
    ExpectKernel(*FindKernel("avgpool_u8"), t, {want}, "average");
    EXPECT_EQ(
        FirstDifference(Eval(NodeOf("AveragePool", 1, t.attrs), t.inputs, t.outputs[0]), want), "");
  }
}

// (p - 2) 0.5 + (q - 3) 0.25 in steps of 0.5 about 10: the zero point is inside of what is rounded,
// so ties go to even integers and not to even distances. p = 2, q = 4, 5, 6, 8: 0.5, 1, 1.5, 2.5 ->
// 10 (10.5), 11, 12 (11.5), 12 (12.5); Relu leaves 10 for negatives.
TEST(Requantization, SumsByHand) {
  for (bool relu : {false, true}) {
    TestCall t;
    t.op = "Add";
    if (relu) t.attrs.Set("activation", "Relu");
    t.inputs = {Quantized<uint8_t>({6}, {2, 2, 2, 2, 0, 0}, QuantParams::PerTensor(0.5f, 2)),
                Quantized<uint8_t>({6}, {4, 5, 6, 8, 3, 0}, QuantParams::PerTensor(0.25f, 3))};
    t.outputs = {TensorType(DType::kUint8, Shape{6}, QuantParams::PerTensor(0.5f, 10))};
    const uint8_t negative = relu ? 10 : 8,
                  lower = relu ? 10 : 6;  // -1 / 0.5 = -2; -1.75 / 0.5 = -3.5: 6.5 -> 6
    const Tensor want =
        Quantized<uint8_t>({6}, {10, 11, 12, 12, negative, lower}, *t.outputs[0].quant);
    ExpectKernel(*FindKernel("add_u8"), t, {want}, relu ? "Relu" : "");
    EXPECT_EQ(FirstDifference(Eval(NodeOf("Add", 2, t.attrs), t.inputs, t.outputs[0]), want), "")
        << relu;
  }
}

// (p - 10) (q - 3) 0.5 in steps of 1 about 100: 1 * 1 * 0.5 -> 0, 3 * 1 * 0.5 -> 2 (1.5), 5 * 1 *
// 0.5 -> 2, -7 * 3 * 0.5 -> -10 (-10.5).
TEST(Requantization, ElementwiseProductsByHand) {
  TestCall t;
  t.op = "Mul";
  t.inputs = {Quantized<uint8_t>({4}, {11, 13, 15, 3}, QuantParams::PerTensor(1, 10)),
              Quantized<uint8_t>({4}, {4, 4, 4, 6}, QuantParams::PerTensor(0.5f, 3))};
  t.outputs = {TensorType(DType::kUint8, Shape{4}, QuantParams::PerTensor(1, 100))};
  const Tensor want = Quantized<uint8_t>({4}, {100, 102, 102, 90}, *t.outputs[0].quant);
  ExpectKernel(*FindKernel("mul_u8"), t, {want}, "Mul");
  EXPECT_EQ(FirstDifference(Eval(NodeOf("Mul", 2), t.inputs, t.outputs[0]), want), "");
}

// 0.3 of values around ties and ends; real values of integers.
TEST(Requantization, QuantizeAndDequantizeByHand) {
  TestCall t;
  t.op = "QuantizeLinear";
  t.inputs = {Floats({9}, {-1.25f, -0.75f, -0.25f, 0.25f, 0.75f, 1.25f, 100, -100, 0.3f})};
  t.outputs = {TensorType(DType::kUint8, Shape{9}, QuantParams::PerTensor(0.5f, 7))};
  // In steps of 0.5: -2.5 -1.5 -0.5 0.5 1.5 2.5 200 -200 0.6.
  const Tensor q = Quantized<uint8_t>({9}, {5, 5, 7, 7, 9, 9, 207, 0, 8}, *t.outputs[0].quant);
  ExpectKernel(*FindKernel("quantize"), t, {q}, "QuantizeLinear");
  EXPECT_EQ(FirstDifference(Eval(NodeOf("QuantizeLinear", 1), t.inputs, t.outputs[0]), q), "");
  TestCall d;
  d.op = "DequantizeLinear";
  d.inputs = {q};
  d.outputs = {TensorType(DType::kFloat32, Shape{9})};
  const Tensor real = Floats({9}, {-1, -1, 0, 0, 1, 1, 100, -3.5f, 0.5f});
  ExpectKernel(*FindKernel("dequantize"), d, {real}, "DequantizeLinear");
  EXPECT_EQ(FirstDifference(Eval(NodeOf("DequantizeLinear", 1), d.inputs, d.outputs[0]), real), "");
}

}  // namespace
}  // namespace evoq
