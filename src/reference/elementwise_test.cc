// Operators by element: one value, two values with broadcasting, casts.
#include <cmath>
#include <limits>

#include "kernels/requant.h"
#include "reference/test_node.h"

namespace evoq {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNaN = std::nanf("");

TensorType F(Shape shape) { return TensorType(DType::kFloat32, std::move(shape)); }
Shape NC(int64_t c) { return Shape(std::vector<Dim>{Dim::Symbolic("N"), Dim(c)}); }

std::vector<float> Unary1(const std::string& op, const std::vector<float>& x, Attrs attrs = {}) {
  return Values<float>(Eval(op, {Floats({static_cast<int64_t>(x.size())}, x)}, std::move(attrs)));
}

TEST(UnaryOps, HandValues) {
  EXPECT_EQ(Unary1("Relu", {-1, 0, 2}), (std::vector<float>{0, 0, 2}));
  EXPECT_EQ(Unary1("Round", {0.5f, 1.5f, -2.5f, 2.6f}), (std::vector<float>{0, 2, -2, 3}));
  EXPECT_EQ(Unary1("Abs", {-1.5f, 2}), (std::vector<float>{1.5f, 2}));
  EXPECT_EQ(Unary1("LeakyRelu", {-2, 4},
                   [] {
                     Attrs a;
                     a.Set("alpha", 0.5f);
                     return a;
                   }()),
            (std::vector<float>{-1, 4}));
  EXPECT_EQ(Unary1("Shrink", {-2, 0.25f, 2},
                   [] {
                     Attrs a;
                     a.Set("bias", 1.0f);
                     return a;
                   }()),
            (std::vector<float>{-1, 0, 1}));
  EXPECT_EQ(Unary1("ThresholdedRelu", {0.5f, 1, 3}), (std::vector<float>{0, 0, 3}));
  EXPECT_EQ(Unary1("Softsign", {-1, 3}), (std::vector<float>{-0.5f, 0.75f}));
  EXPECT_NEAR(Unary1("Sigmoid", {0})[0], 0.5f, 1e-7f);
  EXPECT_NEAR(Unary1("Swish", {2},
                     [] {
                       Attrs a;
                       a.Set("alpha", 0.5f);
                       return a;
                     }())[0],
              2 / (1 + std::exp(-1.0f)), 1e-6f);
  EXPECT_NEAR(Unary1("Elu", {-1})[0], std::exp(-1.0f) - 1, 1e-6f);
  EXPECT_EQ(Values<int8_t>(Eval("Abs", {Make<int8_t>({3}, {-128, -3, 5})})),
            (std::vector<int8_t>{-128, 3, 5}));
  EXPECT_EQ(Values<int32_t>(Eval("Sign", {Make<int32_t>({3}, {-7, 0, 9})})),
            (std::vector<int32_t>{-1, 0, 1}));
  EXPECT_EQ(Values<uint8_t>(Eval("BitwiseNot", {Make<uint8_t>({2}, {0, 0xf0})})),
            (std::vector<uint8_t>{0xff, 0x0f}));
  EXPECT_EQ(Values<bool>(Eval("Not", {Make<bool>({2}, {true, false})})),
            (std::vector<bool>{false, true}));
  EXPECT_EQ(Values<bool>(Eval("IsNaN", {Floats({2}, {1, kNaN})})),
            (std::vector<bool>{false, true}));
  Attrs no_negative;
  no_negative.Set("detect_negative", 0);
  EXPECT_EQ(Values<bool>(Eval("IsInf", {Floats({3}, {1, kInf, -kInf})}, no_negative)),
            (std::vector<bool>{false, true, false}));
}

TEST(UnaryOps, Clip) {
  const Tensor x = Floats({3}, {-3, 0.5f, 9});
  EXPECT_EQ(Values<float>(Eval("Clip", {x, Tensor::Scalar(0.0f), Tensor::Scalar(6.0f)})),
            (std::vector<float>{0, 0.5f, 6}));
  EXPECT_EQ(Values<float>(Eval("Clip", {x, Tensor(), Tensor::Scalar(6.0f)})),
            (std::vector<float>{-3, 0.5f, 6}));
  EXPECT_EQ(Values<float>(Eval("Clip", {x})), Values<float>(x));
  EXPECT_EQ(Values<int8_t>(Eval("Clip", {Make<int8_t>({2}, {-5, 5}), Tensor::Scalar<int8_t>(-1)})),
            (std::vector<int8_t>{-1, 5}));
  EXPECT_EQ(EvalError("Clip", {x, Floats({2}, {0, 1})}),
            "node n (Clip): input 1 is float32[2], expected one float32");
  EXPECT_EQ(EvalError("Not", {x}), "node n (Not): input 0 is float32[3], expected bool");
  Attrs wrong;
  wrong.Set("alpha", 1);
  EXPECT_EQ(EvalError("Elu", {x}, wrong), "node n (Elu): attribute alpha is not a number");
}

TEST(BinaryOps, Broadcasting) {
  const Tensor a = Floats({2, 1, 2}, {1, 2, 3, 4}), b = Floats({3, 1}, {10, 20, 30});
  EXPECT_EQ(Values<float>(Eval("Add", {a, b})),
            (std::vector<float>{11, 12, 21, 22, 31, 32, 13, 14, 23, 24, 33, 34}));
  const Tensor c = Floats({1, 2, 1, 1}, {1, 2}), x = Floats({1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(Values<float>(Eval("Mul", {x, c})), (std::vector<float>{1, 2, 3, 4, 10, 12, 14, 16}));
  EXPECT_EQ(Values<float>(Eval("Sub", {c, x})),
            (std::vector<float>{0, -1, -2, -3, -3, -4, -5, -6}));
  EXPECT_EQ(Eval("Add", {Floats({0, 2}, {}), Floats({2}, {1, 2})}).sizes(),
            (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(EvalError("Add", {Floats({2}, {1, 2}), Floats({3}, {1, 2, 3})}),
            "node n (Add): shapes [2] and [3] do not broadcast");
  EXPECT_EQ(InferText("Mul", {F(NC(3)), F({3})}), "float32[N, 3]");
  EXPECT_EQ(InferText("Less", {F(NC(3)), F(NC(1))}), "bool[N, 3]");
}

TEST(BinaryOps, IntegersNeverTrap) {
  const auto i32 = [](std::vector<int32_t> v) {
    return Make<int32_t>({static_cast<int64_t>(v.size())}, v);
  };
  const int32_t low = std::numeric_limits<int32_t>::min();
  EXPECT_EQ(Values<int32_t>(Eval("Div", {i32({7, -7, low, 5}), i32({2, 2, -1, 0})})),
            (std::vector<int32_t>{3, -3, low, 0}));
  EXPECT_EQ(Values<int32_t>(Eval("Mod", {i32({7, -7, low, 5}), i32({-3, 3, -1, 0})})),
            (std::vector<int32_t>{-2, 2, 0, 0}));
  EXPECT_EQ(
      Values<uint16_t>(Eval("Mul", {Make<uint16_t>({1}, {65535}), Make<uint16_t>({1}, {65535})})),
      (std::vector<uint16_t>{1}));
  EXPECT_EQ(Values<int32_t>(Eval("Pow", {i32({2, -1, 3, 0}), i32({10, -3, 0, -1})})),
            (std::vector<int32_t>{1024, -1, 1, 0}));
  Attrs left;
  left.Set("direction", "LEFT");
  EXPECT_EQ(
      Values<uint8_t>(Eval(
          "BitShift", {Make<uint8_t>({3}, {1, 0x81, 1}), Make<uint8_t>({3}, {3, 1, 200})}, left)),
      (std::vector<uint8_t>{8, 2, 0}));
  const Tensor x = Make<int8_t>({5}, {64, -64, -8, 4, -1}), n = Make<int8_t>({5}, {1, 1, 1, 9, -1});
  EXPECT_EQ(Values<int8_t>(Eval("BitShift", {x, n}, left)),
            (std::vector<int8_t>{-128, -128, -16, 0, 0}));
  Attrs right;
  right.Set("direction", "RIGHT");
  EXPECT_EQ(Values<int8_t>(Eval("BitShift", {x, n}, right)),
            (std::vector<int8_t>{32, -32, -4, 0, -1}));
}

TEST(BinaryOps, VariadicAndWhere) {
  const Tensor a = Floats({2}, {1, 6}), b = Floats({2}, {3, 2}), c = Floats({1}, {2});
  EXPECT_EQ(Values<float>(Eval("Max", {a, b, c})), (std::vector<float>{3, 6}));
  EXPECT_EQ(Values<float>(Eval("Min", {a, b, c})), (std::vector<float>{1, 2}));
  EXPECT_EQ(Values<float>(Eval("Mean", {a, b, c})), (std::vector<float>{2, 10.0f / 3}));
  EXPECT_EQ(Values<float>(Eval("Sum", {a})), (std::vector<float>{1, 6}));
  EXPECT_EQ(EvalError("Max", {a, Tensor(), c}), "node n (Max): input 1 is missing");
  const Tensor where = Eval("Where", {Make<bool>({2, 1}, {true, false}), a, c});
  EXPECT_EQ(Values<float>(where), (std::vector<float>{1, 6, 2, 2}));
  EXPECT_EQ(Values<float>(Eval("PRelu", {Floats({2, 2}, {-1, 2, -3, 4}), b})),
            (std::vector<float>{-3, 2, -9, 4}));
}

TEST(Add, FusedActivationAndQuantized) {
  Attrs relu;
  relu.Set("activation", "Relu");
  EXPECT_EQ(Values<float>(Eval("Add", {Floats({2}, {-3, 1}), Floats({2}, {1, 1})}, relu)),
            (std::vector<float>{0, 2}));
  Attrs wrong;
  wrong.Set("activation", "Sine");
  EXPECT_NE(EvalError("Add", {Floats({1}, {1}), Floats({1}, {1})}, wrong), "");

  const TensorType ta(DType::kUint8, Shape{4}, QuantParams::PerTensor(0.1f, 10));
  const TensorType tb(DType::kInt8, Shape{1}, QuantParams::PerTensor(0.25f, -3));
  const TensorType ty(DType::kUint8, Shape{4}, QuantParams::PerTensor(0.5f, 100));
  const Tensor a = Make<uint8_t>({4}, {0, 10, 100, 255}).WithType(ta),
               b = Make<int8_t>({1}, {5}).WithType(tb);
  const auto y = EvalAll("Add", {a, b}, {}, {ty});
  ASSERT_TRUE(y.has_value()) << y.error().message();
  EXPECT_EQ(Values<uint8_t>((*y)[0]), (std::vector<uint8_t>{102, 104, 122, 153}));
  EXPECT_EQ((*y)[0].type(), ty);
}

// Ties are rounded with the zero point in, and a signed type gives what the unsigned one of the
// same values gives.
TEST(Add, QuantizedTies) {
  const auto type = [](DType dtype, float scale, int32_t zero) {
    return TensorType(dtype, Shape{4}, QuantParams::PerTensor(scale, zero));
  };
  const Tensor a = Make<uint8_t>({4}, {1, 3, 5, 7}).WithType(type(DType::kUint8, 0.5f, 0));
  const Tensor b = Make<uint8_t>({4}, {0, 0, 0, 0}).WithType(type(DType::kUint8, 1, 0));
  const auto odd = EvalAll("Add", {a, b}, {}, {type(DType::kUint8, 1, 3)});
  ASSERT_TRUE(odd.has_value()) << odd.error().message();
  EXPECT_EQ(Values<uint8_t>((*odd)[0]), (std::vector<uint8_t>{4, 4, 6, 6}));  // 3.5, 4.5, 5.5, 6.5
  const Tensor c =
      Make<int8_t>({4}, {-127, -125, -123, -121}).WithType(type(DType::kInt8, 0.5f, -128));
  const auto also = EvalAll("Add", {c, b}, {}, {type(DType::kInt8, 1, -125)});
  ASSERT_TRUE(also.has_value()) << also.error().message();
  EXPECT_EQ(Values<int8_t>((*also)[0]), (std::vector<int8_t>{-124, -124, -122, -122}));
}

TEST(Cast, SaturatesAndConverts) {
  const auto cast = [](const Tensor& x, DType to) {
    Attrs attrs;
    attrs.Set("to", static_cast<int>(to));
    return Eval("Cast", {x}, attrs);
  };
  const Tensor x = Floats({6}, {-1.7f, 2.9f, 300, -1e30f, kNaN, kInf});
  EXPECT_EQ(Values<int8_t>(cast(x, DType::kInt8)), (std::vector<int8_t>{-1, 2, 127, -128, 0, 127}));
  EXPECT_EQ(Values<uint8_t>(cast(x, DType::kUint8)), (std::vector<uint8_t>{0, 2, 255, 0, 0, 255}));
  EXPECT_EQ(Values<int64_t>(cast(x, DType::kInt64)),
            (std::vector<int64_t>{-1, 2, 300, std::numeric_limits<int64_t>::min(), 0,
                                  std::numeric_limits<int64_t>::max()}));
  EXPECT_EQ(Values<bool>(cast(x, DType::kBool)),
            (std::vector<bool>{true, true, true, true, true, true}));
  EXPECT_EQ(Values<uint16_t>(cast(Floats({2}, {1, -2}), DType::kFloat16)),
            (std::vector<uint16_t>{0x3c00, 0xc000}));
  EXPECT_EQ(Values<float>(cast(cast(Floats({2}, {1.5f, -2}), DType::kBfloat16), DType::kFloat32)),
            (std::vector<float>{1.5f, -2}));
  EXPECT_EQ(Values<uint8_t>(cast(Make<int32_t>({2}, {-1, 257}), DType::kUint8)),
            (std::vector<uint8_t>{255, 1}));
  const Tensor nibbles = cast(Floats({3}, {-9, 3, 100}), DType::kInt4);
  EXPECT_EQ(Values<int8_t>(cast(nibbles, DType::kInt8)),
            (std::vector<int8_t>{7, 3, 4}));  // the low bits
  Attrs unknown;
  unknown.Set("to", 99);
  EXPECT_EQ(EvalError("Cast", {x}, unknown), "node n (Cast): cast to ONNX element type 99");
  EXPECT_EQ(Eval("CastLike", {x, Ints({1})}).dtype(), DType::kInt64);
}

}  // namespace
}  // namespace evoq
