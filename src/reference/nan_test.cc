// What the definitions make of NaN, infinities and -0: as ONNX's reference implementation (numpy)
// has it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reference/test_util.h"

namespace evoq {
namespace {

using Ints = std::vector<int64_t>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInf = std::numeric_limits<double>::infinity();

// The values of a float32 or float64 tensor.
Tensor Values(DType dtype, Shape shape, const std::vector<double>& values) {
  if (dtype == DType::kFloat64) return Tensor::FromValues<double>(std::move(shape), values);
  return Floats(std::move(shape), std::vector<float>(values.begin(), values.end()));
}

void ExpectValues(const Tensor& got, const std::vector<double>& want, const std::string& what) {
  ASSERT_EQ(got.elements(), static_cast<int64_t>(want.size())) << what;
  for (size_t i = 0; i < want.size(); ++i) {
    const double v = got.dtype() == DType::kFloat64 ? got.data<double>()[i] : got.data<float>()[i];
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(v)) << what << " element " << i << " is " << v;
    } else {
      EXPECT_EQ(v, want[i]) << what << " element " << i;
    }
  }
}

TEST(NanDefinitions, ComparisonsPassIt) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const Tensor x = Values(dtype, {6}, {kNan, -kInf, -2, -0.0, 2, kInf});
    const Tensor low = Values(dtype, {}, {-1}), high = Values(dtype, {}, {1});
    ExpectValues(Eval(NodeOf("Relu", 1), {x}), {kNan, 0, 0, 0, 2, kInf}, "Relu");
    ExpectValues(Eval(NodeOf("Clip", 3), {x, low, high}), {kNan, -1, -1, 0, 1, 1}, "Clip");
    ExpectValues(Eval(NodeOf("Clip", 1), {x}), {kNan, -kInf, -2, 0, 2, kInf},
                 "Clip without bounds");
    ExpectValues(Eval(NodeOf("Clip", 2), {x, low}), {kNan, -1, -1, 0, 2, kInf}, "Clip from below");
    ExpectValues(Eval(NodeOf("HardSigmoid", 1, WithAttrs({{"alpha", 0.25f}, {"beta", 0.5f}})), {x}),
                 {kNan, 0, 0, 0.5, 1, 1}, "HardSigmoid");
    ExpectValues(Eval(NodeOf("LeakyRelu", 1, WithAttrs({{"alpha", 0.5f}})), {x}),
                 {kNan, -kInf, -1, 0, 2, kInf}, "LeakyRelu");
    ExpectValues(Eval(NodeOf("Sign", 1), {x}), {kNan, -1, -1, 0, 1, 1}, "Sign");
    // ONNX: 0 where no comparison holds.
    ExpectValues(Eval(NodeOf("Shrink", 1, WithAttrs({{"lambd", 1.0f}})), {x}),
                 {0, -kInf, -2, 0, 2, kInf}, "Shrink");
    ExpectValues(Eval(NodeOf("ThresholdedRelu", 1), {x}), {0, 0, 0, 0, 2, kInf}, "ThresholdedRelu");
    const Tensor y = Values(dtype, {6}, {1, kNan, kNan, 1, kInf, -kInf});
    ExpectValues(Eval(NodeOf("Max", 2), {x, y}), {kNan, kNan, kNan, 1, kInf, kInf}, "Max");
    ExpectValues(Eval(NodeOf("Max", 2), {y, x}), {kNan, kNan, kNan, 1, kInf, kInf}, "Max, swapped");
    ExpectValues(Eval(NodeOf("Min", 2), {x, y}), {kNan, kNan, kNan, 0, 2, -kInf}, "Min");
    ExpectValues(Eval(NodeOf("Min", 2), {y, x}), {kNan, kNan, kNan, 0, 2, -kInf}, "Min, swapped");
    ExpectValues(Eval(NodeOf("Max", 3), {y, x, low}), {kNan, kNan, kNan, 1, kInf, kInf},
                 "Max of three");
  }
}

TEST(NanDefinitions, ReductionsAndPoolingPassIt) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const Tensor x = Values(dtype, {1, 2, 4}, {1, kNan, 3, 2, -kInf, 4, kInf, 5});
    const Tensor axis = Tensor::FromValues<int64_t>(Shape{1}, {2}),
                 first = Tensor::FromValues<int64_t>(Shape{1}, {1});
    ExpectValues(Eval(NodeOf("ReduceMax", 2), {x, axis}), {kNan, kInf}, "ReduceMax");
    ExpectValues(Eval(NodeOf("ReduceMin", 2), {x, axis}), {kNan, -kInf}, "ReduceMin");
    ExpectValues(Eval(NodeOf("ReduceMax", 2), {x, first}), {1, kNan, kInf, 5},
                 "ReduceMax of columns");
    ExpectValues(Eval(NodeOf("ReduceMin", 2), {x, first}), {-kInf, kNan, 3, 2},
                 "ReduceMin of columns");
    ExpectValues(Eval(NodeOf("GlobalMaxPool", 1), {x}), {kNan, kInf}, "GlobalMaxPool");
    Node pool = NodeOf("MaxPool", 1, WithAttrs({{"kernel_shape", Ints{2}}}));
    pool.outputs.push_back(ValueId{2});
    auto pooled = EvaluateNode(pool, std::vector<Tensor>{x}, std::vector<TensorType>(2));
    ASSERT_TRUE(pooled) << pooled.error().message();
    ExpectValues((*pooled)[0], {kNan, kNan, 3, 4, kInf, kInf}, "MaxPool");
    EXPECT_EQ(ToVector<int64_t>((*pooled)[1]), (Ints{1, 1, 2, 5, 6, 6}));
    EXPECT_EQ(ToVector<int64_t>(Eval(NodeOf("ArgMax", 1, WithAttrs({{"axis", int64_t{2}}})), {x})),
              (Ints{1, 2}));
    EXPECT_EQ(ToVector<int64_t>(Eval(NodeOf("ArgMin", 1, WithAttrs({{"axis", int64_t{2}}})), {x})),
              (Ints{1, 0}));
    const Tensor two = Values(dtype, {3}, {kNan, 7, kNan});
    EXPECT_EQ(ToVector<int64_t>(Eval(NodeOf("ArgMax", 1), {two}))[0], 0);
    EXPECT_EQ(ToVector<int64_t>(Eval(
                  NodeOf("ArgMax", 1, WithAttrs({{"select_last_index", int64_t{1}}})), {two}))[0],
              2);
    ExpectValues(Eval(NodeOf("Hardmax", 1), {x}), {0, 1, 0, 0, 0, 0, 1, 0}, "Hardmax");
    ExpectValues(Eval(NodeOf("Softmax", 1), {Values(dtype, {3}, {1, kNan, 2})}), {kNan, kNan, kNan},
                 "Softmax");
    const Tensor image = Values(dtype, {1, 1, 1, 4}, {1, kNan, 3, 2}),
                 roi = Values(dtype, {1, 5}, {0, 0, 0, 3, 0});
    ExpectValues(
        Eval(NodeOf("MaxRoiPool", 2, WithAttrs({{"pooled_shape", Ints{1, 2}}})), {image, roi}),
        {kNan, 3}, "MaxRoiPool");
  }
}

// Fused into a sum, as alone.
TEST(NanDefinitions, FusedActivationsPassIt) {
  const Tensor a = Floats({1, 3}, {static_cast<float>(kNan), -3, 9}),
               unit = Floats({3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1});
  const auto activated = [](const char* name) {
    return WithAttrs(
        {{"activation", name}, {"activation_alpha", -1.0f}, {"activation_beta", 6.0f}});
  };
  ExpectValues(Eval(NodeOf("Add", 2, activated("Relu")), {a, Floats({1}, {1})}), {kNan, 0, 10},
               "Add with Relu");
  ExpectValues(Eval(NodeOf("Add", 2, activated("Clip")), {a, Floats({1}, {1})}), {kNan, -1, 6},
               "Add with Clip");
  const Tensor row = Floats({3, 1}, {static_cast<float>(kNan), -3, 9}), one = Floats({1, 1}, {1});
  ExpectValues(Eval(NodeOf("MatMul", 2, activated("Relu")), {row, one}), {kNan, 0, 9},
               "MatMul with Relu");
  ExpectValues(Eval(NodeOf("MatMul", 2, activated("Clip")), {row, one}), {kNan, -1, 6},
               "MatMul with Clip");
  // Integers from a float32 residual that is NaN: the zero point, as QuantizeLinear has it.
  const Tensor x = Quantized<uint8_t>({1, 1}, {1}, QuantParams::PerTensor(1, 0)),
               w = Quantized<int8_t>({1, 1}, {1}, QuantParams::PerTensor(1, 0));
  for (const char* name : {"", "Relu", "Clip"}) {
    const Tensor y = Eval(NodeOf("MatMul", 4, *name != 0 ? activated(name) : Attrs()),
                          {x, w, Tensor(), Floats({1, 1}, {static_cast<float>(kNan)})},
                          TensorType(DType::kUint8, Shape{1, 1}, QuantParams::PerTensor(1, 55)));
    ASSERT_TRUE(y.defined());
    EXPECT_EQ(y.data<uint8_t>()[0], 55) << name;
  }
}

}  // namespace
}  // namespace evoq
