#include <gtest/gtest.h>

#include <cmath>

#include "reference/test_util.h"

namespace evoq {
namespace {

float Sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

std::vector<Tensor> RunCell(const char* op, std::vector<Tensor> inputs, Attrs attrs,
                            size_t outputs) {
  Node node = NodeOf(op, static_cast<int>(inputs.size()), std::move(attrs));
  for (size_t i = 1; i < outputs; ++i) node.outputs.push_back(ValueId{100});
  auto results = EvaluateNode(node, inputs, std::vector<TensorType>(outputs));
  if (results) return *results;
  ADD_FAILURE() << results.error().message();
  return std::vector<Tensor>(outputs);
}

TEST(Recurrent, LstmIsItsFormula) {
  // One unit, one input, gates in the order i, o, f, c.
  const std::vector<float> w = {0.5f, -1, 2, 0.25f}, r = {1, 0.5f, -0.5f, 2},
                           b = {0.1f, 0.2f, 0.3f, 0.4f, 0, 0, 0, -0.1f};
  const std::vector<float> x = {1, -2};
  const auto y = RunCell(
      "LSTM", {Floats({2, 1, 1}, x), Floats({1, 4, 1}, w), Floats({1, 4, 1}, r), Floats({1, 8}, b)},
      {}, 3);
  float h = 0, c = 0;
  for (int t = 0; t < 2; ++t) {
    const auto gate = [&](int g) { return w[g] * x[t] + r[g] * h + b[g] + b[4 + g]; };
    const float in = Sigmoid(gate(0)), out = Sigmoid(gate(1)), forget = Sigmoid(gate(2));
    c = forget * c + in * std::tanh(gate(3));
    h = out * std::tanh(c);
    EXPECT_NEAR(y[0].data<float>()[t], h, 1e-6);
  }
  EXPECT_NEAR(y[1].data<float>()[0], h, 1e-6);
  EXPECT_NEAR(y[2].data<float>()[0], c, 1e-6);
}

TEST(Recurrent, GruResetsBeforeOrAfterTheProduct) {
  const std::vector<float> w = {0.3f, -0.6f, 1}, r = {0.2f, 0.4f, 3}, b = {0, 0, 0.1f, 0, 0, 0.7f};
  for (int64_t linear : {0, 1}) {
    const auto y = RunCell("GRU",
                           {Floats({1, 1, 1}, {2}), Floats({1, 3, 1}, w), Floats({1, 3, 1}, r),
                            Floats({1, 6}, b), Tensor(), Floats({1, 1, 1}, {0.5f})},
                           WithAttrs({{"linear_before_reset", linear}}), 2);
    const float z = Sigmoid(0.6f + 0.1f), reset = Sigmoid(-1.2f + 0.2f);
    const float candidate =
        std::tanh(linear ? 2 + 0.1f + reset * (1.5f + 0.7f) : 2 + 0.1f + 3 * (reset * 0.5f) + 0.7f);
    EXPECT_NEAR(y[1].data<float>()[0], (1 - z) * candidate + z * 0.5f, 1e-6);
  }
}

TEST(Recurrent, LengthsAndBothDirections) {
  // h = x + h: the forward direction gives sums from the start, the backward one from the end of
  // each length.
  const Tensor x = Floats({3, 2, 1}, {1, 10, 2, 20, 4, 40}), one = Floats({2, 1, 1}, {1, 1});
  const Tensor lengths = Tensor::FromValues<int32_t>(Shape{2}, {3, 2});
  Attrs attrs = WithAttrs({{"direction", std::string("bidirectional")}});
  attrs.Set("activations", std::vector<std::string>{"Affine", "Affine"});
  const auto y = RunCell("RNN", {x, one, one, Tensor(), lengths}, attrs, 2);
  EXPECT_EQ(y[0].type().ToString(), "float32[3, 2, 2, 1]");
  EXPECT_EQ(ToVector(y[0]), (std::vector<float>{1, 10, 7, 30, 3, 30, 6, 20, 7, 0, 4, 0}));
  EXPECT_EQ(ToVector(y[1]), (std::vector<float>{7, 30, 7, 30}));
}

TEST(Recurrent, ShapesAreChecked) {
  EXPECT_EQ(EvalError(NodeOf("GRU", 3), {Floats({1, 1, 2}, {0, 0}), Floats({1, 3, 1}, {0, 0, 0}),
                                         Floats({1, 3, 1}, {0, 0, 0})}),
            "node node (GRU): input 1 is [1, 3, 1], expected [1, 3, 2]");
}

}  // namespace
}  // namespace evoq
