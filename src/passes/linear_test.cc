// What folds into the channels of linear operators, and where it stays outside.
#include "passes/linear.h"

#include <gtest/gtest.h>

#include <limits>

#include "reference/reference.h"
#include "reference/test_graph.h"

namespace evoq {
namespace {

NodeId Last(const Graph& graph) { return graph.order().back(); }

std::vector<float> Floats(const Graph& graph, ValueId value) {
  const Tensor* tensor = FloatConstant(graph, value);
  if (tensor == nullptr) return {};
  const auto values = tensor->values<float>();
  return {values.begin(), values.end()};
}

TEST(Linear, ChannelsOfTheOutputAndOfTheWeights) {
  const struct {
    const char* text;
    int output_axis, weight_axis;
    std::optional<int64_t> channels;
  } kRows[] = {
      {"input %x: float32[1, 4, 5, 5]\ninput %w: float32[6, 2, 3, 3]\n"
       "c: %y = Conv{group=2}(%x, %w)\noutput %y\n",
       1, 0, 6},
      {"input %x: float32[1, 4, 5, 5]\ninput %w: float32[4, 3, 2, 2]\n"
       "c: %y = ConvTranspose(%x, %w)\noutput %y\n",
       1, 1, 3},
      {"input %x: float32[1, 4, 5, 5]\ninput %w: float32[4, 3, 2, 2]\n"
       "c: %y = ConvTranspose{group=2}(%x, %w)\noutput %y\n",
       1, 1, 6},
      {"input %x: float32[7, 2, 4]\ninput %w: float32[4, 3]\n"
       "c: %y = MatMul(%x, %w)\noutput %y\n",
       2, 1, 3},
      {"input %x: float32[7, 2, 4]\ninput %w: float32[7, 4, 3]\n"
       "c: %y = MatMul(%x, %w)\noutput %y\n",
       2, 2, 3},
      // A vector has no channels, nor have weights of no known rank, of no known size or of none.
      {"input %x: float32[2, 4]\ninput %w: float32[4]\nc: %y = MatMul(%x, %w)\noutput %y\n",
       0,
       0,
       {}},
      {"input %x: float32[2, 4]\ninput %w: float32[...]\nc: %y = MatMul(%x, %w)\noutput %y\n",
       -1,
       -1,
       {}},
      {"input %x: float32[2, 4]\ninput %w: float32[4, N]\nc: %y = MatMul(%x, %w)\noutput %y\n",
       1,
       1,
       {}},
      {"input %x: float32[2, 4]\ninput %w: float32[4, 0]\nc: %y = MatMul(%x, %w)\noutput %y\n",
       1,
       1,
       {}},
      {"input %x: float32[2, 4]\ninput %w: float32[4, 1]\nc: %y = MatMul(%x, %w)\noutput %y\n", 1,
       1, 1},
  };
  for (const auto& row : kRows) {
    const Graph graph = Parsed(row.text);
    const Node& node = graph.node(Last(graph));
    EXPECT_EQ(ChannelAxis(graph, node), row.output_axis) << row.text;
    EXPECT_EQ(OutputChannels(graph, node), row.channels) << row.text;
    const Shape& w = graph.value(node.input(1)).type.shape;
    if (w.ranked()) EXPECT_EQ(WeightAxis(node, w.rank()), row.weight_axis) << row.text;
  }
}

TEST(Linear, ConstantsPerChannel) {
  using Values = std::optional<std::vector<float>>;
  const Values three({1, 2, 3}), same({7, 7, 7}), none;
  const struct {
    const char* constant;
    int rank, axis;
    Values expected;
  } kRows[] = {
      {"float32[3] = [1, 2, 3]", 2, 1, three},
      {"float32[3] = [1, 2, 3]", 2, 0, none},
      {"float32[1, 3] = [1, 2, 3]", 2, 1, three},
      {"float32[3, 1] = [1, 2, 3]", 3, 1, three},
      {"float32[1, 3, 1] = [1, 2, 3]", 3, 1, three},
      {"float32[3, 1, 1] = [1, 2, 3]", 3, 0, three},
      {"float32[1, 3] = [1, 2, 3]", 1, 0, none},  // of more dimensions than the tensor
      {"float32[1, 3] = [1, 2, 3]", 3, 1, none},  // on another axis
      {"float32[4] = [1, 2, 3, 4]", 2, 1, none},  // of other channels
      {"float32[2, 3] = [1, 2, 3, 4, 5, 6]", 2, 1, none},
      {"float32[] = [7]", 2, 1, same},
      {"float32[1, 1] = [7]", 2, 1, same},
      {"float32[1, 1] = [7]", 2, 0, same},
      {"float32[] = [7]", 2, -1, none},
      {"int32[3] = [1, 2, 3]", 2, 1, none},
  };
  for (const auto& row : kRows) {
    const Graph graph = Parsed(std::string("input %x: float32[1]\nconst %c: ") + row.constant +
                               "\ni: %y = Identity(%c)\noutput %y\n");
    const ValueId c = graph.node(Last(graph)).input(0);
    EXPECT_EQ(PerChannel(graph, c, row.rank, row.axis, 3), row.expected)
        << row.constant << " " << row.rank << " " << row.axis;
  }
}

constexpr char kInputs[] =
    "input %x: float32[2, 4]\ninput %r: float32[2, 3]\ninput %v: float32[3]\n"
    "input %q: int8[2, 4](scale 0.5, zero 0)\ninput %open: float32[4, N]\n"
    "const %w: float32[4, 3] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]\n"
    "const %k: int8[4, 3](scale 0.5, zero 0) = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -127]\n"
    "const %low: int8[4, 3](scale 0.5, zero 0) = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -128]\n"
    "const %u: uint8[4, 3](scale 0.5, zero 0) = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]\n"
    "const %z: int8[4, 3](scale 0.5, zero 1) = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]\n"
    "const %b: float32[3] = [1, 2, 3]\n"
    "input %qk: int8[4, 3](scale 0.5, zero 0)\nconst %s: float32[] = [0.5]\n"
    "const %p: int8[4, 3] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]\n"
    "const %each: int8[4, 3](3 scales on axis 1) = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]\n"
    "const %rows: int8[4, 3](4 scales on axis 0) = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]\n"
    "dc: %dc = DequantizeLinear(%qk)\ndp: %dp = DequantizeLinear(%p, %s)\n"
    "const %blocks: int8[4, 3](4 scales on axis 1, block 3) = "
    "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]\ndb: %db = DequantizeLinear(%blocks)\n"
    "de: %de = DequantizeLinear(%each)\ndr: %dr = DequantizeLinear(%rows)\n"
    "input %i: float32[1, 2, 3]\nconst %t: int8[2, 2, 1](scale 0.5, zero 0) = [1, 2, 3, 4]\n"
    "dt: %dt = DequantizeLinear(%t)\n"
    "input %half: bfloat16[2, 4]\ninput %hw: bfloat16[4, 3]\n"
    "dk: %dk = DequantizeLinear(%k)\ndl: %dl = DequantizeLinear(%low)\n"
    "du: %du = DequantizeLinear(%u)\ndz: %dz = DequantizeLinear(%z)\n";

TEST(Linear, TakesBiasesAndFactors) {
  const std::vector<float> plus{1, 2, 0}, minus{1, -2, 3},
      endless{1, std::numeric_limits<float>::infinity(), 1};
  const struct {
    const char* node;
    bool bias, plus, minus, endless;
  } kRows[] = {
      {"MatMul(%x, %w)", true, true, true, true},
      {"MatMul(%x, %w, %b)", true, true, true, true},
      {"MatMul(%x, %w, %v)", false, false, false, false},  // a computed bias
      {"MatMul(%x, %w, _, %r)", true, false, false, false},
      {"MatMul{activation=\"Relu\"}(%x, %w)", false, false, false, false},
      {"MatMul(%x, %open)", false, false, false, false},
      {"MatMul(%q, %w)", false, false, false, false},
      {"MatMul(%x, %dk)", true, true, true, false},
      {"MatMul(%x, %dl)", true, true, false, false},   // -128 has no negative
      {"MatMul(%x, %du)", true, true, false, false},   // nor has an unsigned number
      {"MatMul(%x, %dz)", true, true, false, false},   // nor one with a zero point
      {"MatMul(%x, %dc)", true, false, false, false},  // computed weights
      {"MatMul(%x, %dp)", true, false, false, false},  // a scale that is an input
      {"MatMul(%x, %de)", true, true, true, false},
      {"MatMul(%x, %dr)", true, false, false, false},  // scales of input channels
      {"MatMul(%x, %db)", true, false, false, false},  // scales of blocks
      {"MatMul(%half, %hw)", false, false, false, false},
      {"ConvTranspose(%i, %dt)", true, true, true, false},
      {"ConvTranspose{group=2}(%i, %dt)", true, false, false, false},
      {"Relu(%x)", false, false, false, false},
  };
  for (const auto& row : kRows) {
    auto parsed = ParseGraph(std::string(kInputs) + "m: %y = " + row.node + "\noutput %y\n");
    ASSERT_TRUE(parsed) << row.node << ": " << parsed.error().message();
    const Status typed = InferTypes(*parsed);
    ASSERT_TRUE(typed) << row.node << ": " << typed.error().message();
    const Node& node = parsed->node(Last(*parsed));
    EXPECT_EQ(TakesBias(*parsed, node), row.bias) << row.node;
    EXPECT_EQ(TakesFactor(*parsed, node, plus), row.plus) << row.node;
    EXPECT_EQ(TakesFactor(*parsed, node, minus), row.minus) << row.node;
    EXPECT_EQ(TakesFactor(*parsed, node, endless), row.endless) << row.node;
  }
}

TEST(Linear, FactorsGoIntoWeightsAndBias) {
  const struct {
    const char* text;
    std::vector<float> factor, weights, bias;
  } kRows[] = {
      {"input %x: float32[1, 1, 3]\nconst %w: float32[2, 1, 2] = [1, 2, 3, 4]\nconst %b: "
       "float32[2] = [5, 6]\n"
       "c: %y = Conv(%x, %w, %b)\noutput %y\n",
       {10, -1},
       {10, 20, -3, -4},
       {50, -6}},
      {"input %x: float32[1, 3]\nconst %w: float32[3, 2] = [1, 2, 3, 4, 5, 6]\n"
       "const %b: float32[2] = [5, 6]\nc: %y = MatMul(%x, %w, %b)\noutput %y\n",
       {10, -1},
       {10, -2, 30, -4, 50, -6},
       {50, -6}},
      {"input %x: float32[1, 2, 3]\nconst %w: float32[2, 2, 2] = [1, 2, 3, 4, 5, 6, 7, 8]\n"
       "c: %y = ConvTranspose(%x, %w)\noutput %y\n",
       {10, -1},
       {10, 20, -3, -4, 50, 60, -7, -8},
       {}},
      // Two groups of one input channel and two output channels each.
      {"input %x: float32[1, 2, 3]\nconst %w: float32[2, 2, 2] = [1, 2, 3, 4, 5, 6, 7, 8]\n"
       "c: %y = ConvTranspose{group=2}(%x, %w)\noutput %y\n",
       {1, 10, 100, -1},
       {1, 2, 30, 40, 500, 600, -7, -8},
       {}},
      // Two groups of two input channels and one output channel each.
      {"input %x: float32[1, 4, 3]\nconst %w: float32[4, 1, 2] = [1, 2, 3, 4, 5, 6, 7, 8]\n"
       "c: %y = ConvTranspose{group=2}(%x, %w)\noutput %y\n",
       {10, -1},
       {10, 20, 30, 40, -5, -6, -7, -8},
       {}},
  };
  for (const auto& row : kRows) {
    Graph graph = Parsed(row.text);
    ScaleChannels(graph, Last(graph), row.factor);
    const Node& node = graph.node(Last(graph));
    EXPECT_EQ(Floats(graph, node.input(1)), row.weights) << row.text;
    EXPECT_EQ(Floats(graph, node.input(2)), row.bias) << row.text;
  }
}

TEST(Linear, FactorsGoIntoScalesAndTheirSignsIntoIntegers) {
  const std::string one = "int8[2, 3](scale 0.5, zero 0)";
  // The smallest normal float stands for a scale of 0.
  const float least = std::numeric_limits<float>::min();
  const struct {
    const char* text;
    std::vector<float> factor, scales;
    std::vector<int64_t> integers;
    int axis;
  } kRows[] = {
      {"MatMul(%x, %d)", {2, 0, 4}, {1, least, 2}, {1, 2, 3, 4, 5, -127}, 1},
      {"MatMul(%x, %d)", {2, -2, -4}, {1, 1, 2}, {1, -2, -3, 4, -5, 127}, 1},
      {"MatMul(%x, %d)", {-2, 0, 4}, {1, least, 2}, {-1, 2, 3, -4, 5, -127}, 1},
  };
  for (const auto& row : kRows) {
    Graph graph =
        Parsed("input %x: float32[1, 2]\nconst %w: " + one +
               " = [1, 2, 3, 4, 5, -127]\nd: %d = DequantizeLinear(%w)\nm: %y = " + row.text +
               "\noutput %y\n");
    const NodeId matmul = Last(graph);
    ScaleChannels(graph, matmul, row.factor);
    const NodeId dequantize = graph.value(graph.node(matmul).input(1)).producer;
    const Tensor& w = graph.value(graph.node(dequantize).input(0)).constant;
    EXPECT_EQ(w.type().quant->scales, row.scales);
    EXPECT_EQ(w.type().quant->zero_points, (std::vector<int32_t>{0, 0, 0}));
    EXPECT_EQ(w.type().quant->axis, row.axis);
    const auto q = ToInt64s(w.WithType(TensorType(DType::kInt8, Shape{2, 3})));
    ASSERT_TRUE(q);
    EXPECT_EQ(*q, row.integers);
  }
}

TEST(Linear, OffsetsGoIntoTheBias) {
  const std::string start = "input %x: float32[1, 2]\nconst %w: float32[2, 2] = [1, 2, 3, 4]\n";
  Graph without = Parsed(start + "m: %y = MatMul(%x, %w)\noutput %y\n");
  OffsetChannels(without, Last(without), {10, 20});
  const ValueId made = without.node(Last(without)).input(2);
  EXPECT_EQ(Floats(without, made), (std::vector<float>{10, 20}));
  EXPECT_EQ(without.value(made).name, "m_bias");
  Graph with =
      Parsed(start + "const %b: float32[2] = [5, 6]\nm: %y = MatMul(%x, %w, %b)\noutput %y\n");
  const ValueId bias = with.node(Last(with)).input(2);
  OffsetChannels(with, Last(with), {10, 20});
  EXPECT_EQ(with.node(Last(with)).input(2), bias) << "nothing else reads it";
  EXPECT_EQ(Floats(with, bias), (std::vector<float>{15, 26}));
  Graph shared =
      Parsed(start +
             "const %b: float32[2] = [5, 6]\nn: %z = Neg(%b)\nm: %y = MatMul(%x, %w, %b)\n"
             "output %y\noutput %z\n");
  NodeId matmul, negation;
  for (NodeId id : shared.order()) (shared.node(id).op == "Neg" ? negation : matmul) = id;
  OffsetChannels(shared, matmul, {10, 20});
  EXPECT_EQ(Floats(shared, shared.node(matmul).input(2)), (std::vector<float>{15, 26}));
  EXPECT_EQ(Floats(shared, shared.node(negation).input(0)), (std::vector<float>{5, 6}));
}

}  // namespace
}  // namespace evoq
