#include <cmath>
#include <limits>

#include "kernels/math/math.h"
#include "reference/test_node.h"

namespace evoq {
namespace {

Attrs NoKeep() {
  Attrs attrs;
  attrs.Set("keepdims", 0);
  return attrs;
}

TEST(Reduce, HandValues) {
  const Tensor x = Floats({2, 3}, {1, -2, 3, 4, 5, -6});
  const auto reduce = [&](const char* op, std::vector<int64_t> axes) {
    return Values<float>(Eval(op, {x, Ints(axes)}, NoKeep()));
  };
  EXPECT_EQ(reduce("ReduceSum", {0}), (std::vector<float>{5, 3, -3}));
  EXPECT_EQ(reduce("ReduceSum", {-1}), (std::vector<float>{2, 3}));
  EXPECT_EQ(reduce("ReduceMean", {0, 1}), (std::vector<float>{5.0f / 6}));
  EXPECT_EQ(reduce("ReduceMax", {1}), (std::vector<float>{3, 5}));
  EXPECT_EQ(reduce("ReduceMin", {0}), (std::vector<float>{1, -2, -6}));
  EXPECT_EQ(reduce("ReduceProd", {1}), (std::vector<float>{-6, -120}));
  EXPECT_EQ(reduce("ReduceL1", {1}), (std::vector<float>{6, 15}));
  EXPECT_EQ(reduce("ReduceSumSquare", {1}), (std::vector<float>{14, 77}));
  EXPECT_EQ(Values<float>(Eval("ReduceL2", {Floats({2}, {3, 4})}, NoKeep())),
            (std::vector<float>{5}));
  EXPECT_NEAR(Values<float>(Eval("ReduceLogSum", {Floats({2}, {3, 4})}, NoKeep()))[0],
              std::log(7.0f), 1e-6f);
  EXPECT_NEAR(Values<float>(Eval("ReduceLogSumExp", {Floats({2}, {1000, 1000})}))[0],
              1000 + std::log(2.0f), 1e-4f);
  // Integers: rounded towards 0; log(3e) = 2.1, log(2 e^1000) = 1000.7.
  const auto whole = [](const char* op, std::vector<int32_t> x) {
    const auto n = static_cast<int64_t>(x.size());
    return Values<int32_t>(Eval(op, {Make<int32_t>({n}, x)}, NoKeep()))[0];
  };
  EXPECT_EQ(whole("ReduceLogSum", {3, 4, 1}), 2);
  EXPECT_EQ(whole("ReduceLogSum", {3, -3}), INT32_MIN);
  EXPECT_EQ(whole("ReduceLogSumExp", {1000, 1000}), 1000);
  EXPECT_EQ(whole("ReduceLogSumExp", {1, 2, 3, 3}), 3);
  EXPECT_EQ(whole("ReduceLogSumExp", {-5, -5}), -4);
  EXPECT_EQ(whole("ReduceLogSumExp", {INT32_MAX, INT32_MAX}), INT32_MAX);
  EXPECT_EQ(Values<int32_t>(Eval("ReduceMean", {Make<int32_t>({2}, {3, 4})}, NoKeep())),
            (std::vector<int32_t>{3}));
  EXPECT_EQ(Values<float>(Eval("ReduceMax", {Floats({0, 2}, {}), Ints({0})}, NoKeep()))[0],
            -std::numeric_limits<float>::infinity());
}

TEST(Reduce, OrderOfSums) {
  std::vector<float> values;
  for (int i = 0; i < 3 * 37; ++i) values.push_back(1.0f / static_cast<float>(i + 3));
  const Tensor x = Floats({1, 3, 37}, values);
  EXPECT_EQ(Values<float>(Eval("ReduceSum", {x, Ints({2})}, NoKeep()))[1],
            SumF(values.data() + 37, 37));
  EXPECT_EQ(Values<float>(Eval("ReduceSum", {x, Ints({1, 2})}, NoKeep()))[0],
            SumF(values.data(), 111));
  float sum = 0;
  for (int i = 0; i < 3; ++i) sum += values[i * 37 + 5];
  EXPECT_EQ(Values<float>(Eval("ReduceSum", {x, Ints({1})}, NoKeep()))[5], sum);
}

TEST(Reduce, Inference) {
  const TensorType x(DType::kFloat32, Shape(std::vector<Dim>{Dim::Symbolic("N"), Dim(3), Dim(4)}));
  const TensorType axes(DType::kInt64, Shape{1});
  EXPECT_EQ(InferText("ReduceMean", {x, axes}, {Tensor(), Ints({2})}), "float32[N, 3, 1]");
  EXPECT_EQ(InferText("ReduceMean", {x, axes}, {Tensor(), Ints({2})}, NoKeep()), "float32[N, 3]");
  EXPECT_EQ(InferText("ReduceMean", {x}), "float32[1, 1, 1]");
  EXPECT_EQ(InferText("ReduceMean", {x, axes}), "float32[?, ?, ?]");
  EXPECT_EQ(InferText("ReduceMean", {x, axes}, {Tensor(), Ints({3})}),
            "node n (ReduceMean): axis 3 is outside [-3, 3)");
}

TEST(Reduce, QuantizedMean) {
  const TensorType tx(DType::kUint8, Shape{1, 2, 2}, QuantParams::PerTensor(0.5f, 10));
  const TensorType ty(DType::kInt8, Shape{1, 2, 1}, QuantParams::PerTensor(0.25f, -3));
  const Tensor x = Make<uint8_t>({1, 2, 2}, {10, 12, 255, 254}).WithType(tx);
  const auto y = EvalAll("ReduceMean", {x, Ints({2})}, {}, {ty});
  ASSERT_TRUE(y.has_value()) << y.error().message();
  // (0 + 2) * 0.5 / (0.25 * 2) = 2; (245 + 244) * 1 = 489, saturated.
  EXPECT_EQ(Values<int8_t>((*y)[0]), (std::vector<int8_t>{-1, 127}));
}

TEST(Arg, FirstAndLast) {
  const Tensor x = Floats({2, 3}, {1, 5, 5, 2, 2, 0});
  Attrs attrs;
  attrs.Set("axis", 1);
  EXPECT_EQ(Values<int64_t>(Eval("ArgMax", {x}, attrs)), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(Values<int64_t>(Eval("ArgMin", {x}, attrs)), (std::vector<int64_t>{0, 2}));
  attrs.Set("select_last_index", 1);
  EXPECT_EQ(Values<int64_t>(Eval("ArgMax", {x}, attrs)), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(EvalError("ArgMax", {Floats({0}, {})}), "node n (ArgMax): axis 0 of [0] is empty");
}

}  // namespace
}  // namespace evoq
