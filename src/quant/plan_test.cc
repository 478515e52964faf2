// What becomes integers, what stays float and why, and the types that each scheme writes.
#include "quant/plan.h"

#include <gtest/gtest.h>

#include <string>

#include "quant/bf16.h"
#include "quant/params.h"
#include "quant/test_net.h"
#include "quant/unfuse.h"

namespace evoq {
namespace {

// The plan of one product of depth k.
std::string ReasonOf(const std::string& text, const char* node, const QuantizeOptions& options = {},
                     const std::vector<std::string>& missing = {}) {
  const Graph net = MakeNet(text);
  Ranges ranges;
  for (int i = 0; i < net.value_count(); ++i) ranges[net.value(ValueId{i}).name] = {-1, 1};
  for (const std::string& name : missing) ranges.erase(name);
  const QuantPlan plan = MakePlan(net, ranges, options);
  const NodeId id = net.FindNode(node);
  EXPECT_NE(plan.integer.count(id) > 0, plan.reasons.count(id) > 0) << node << " in " << text;
  return plan.integer.count(id) ? "" : plan.reasons.at(id).code;
}

// `w`: "const" or "input".
std::string Product(int64_t depth, const char* w = "const") {
  return fmt::format(
      "graph g\ninput %x: float32[1, {0}]\n{1} %w: float32[{0}, 2]\nm: %y: float32[1, 2] = "
      "MatMul(%x, %w)\noutput %y\n",
      depth, w);
}

// A model that is quantized already is told as one, not as one that stays float.
TEST(Plan, IntegersStayIntegers) {
  Graph net = MakeNet(Product(16));
  const Ranges ranges = {{"x", {-1, 1}}, {"y", {-1, 1}}};
  ASSERT_TRUE(QuantizeStatic(net, ranges, {}));
  const auto again = QuantizeStatic(net, ranges, {});
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_FALSE(again->float_reasons.contains("m"));
  EXPECT_EQ(again->nodes[Precision::kInt8], 1);
  EXPECT_EQ(again->warnings,
            std::vector<std::string>{"no node became integer arithmetic, 1 computed with integers "
                                     "before: the model is unchanged"});
}

TEST(Plan, DepthsThatInt32Holds) {
  EXPECT_EQ(ReasonOf(Product(33000), "m"), "");
  EXPECT_EQ(ReasonOf(Product(33001), "m"), "depth");
  EXPECT_EQ(ReasonOf(Product(33000, "input"), "m"), "");
  EXPECT_EQ(ReasonOf(Product(33001, "input"), "m"), "depth");
  // 2 x 11000 x 3 taps of two groups of 11000 = 33000 a sum.
  const auto conv = [](int64_t taps) {
    return fmt::format(
        "graph g\ninput %x: float32[1, 6, 1, 11100]\nconst %w: float32[2, 3, 1, {0}]\nc: %y = "
        "Conv{{group=2}}(%x, %w)\noutput %y\n",
        taps);
  };
  EXPECT_EQ(ReasonOf(conv(11000), "c"), "");
  EXPECT_EQ(ReasonOf(conv(11001), "c"), "depth");
}

// A Transpose of floats moves integers where nothing else reads it; else it is a float step.
TEST(Plan, TransposesOfFloatsThatOnlyIntegersRead) {
  const auto code = [](const char* readers) {
    const Graph net =
        MakeNet(fmt::format("graph g\ninput %x: float32[4, 6]\nconst %w: float32[4, 4]\n"
                            "t: %t = Transpose{{perm=[1, 0]}}(%x)\n{}",
                            readers));
    Ranges ranges;
    for (int i = 0; i < net.value_count(); ++i) ranges[net.value(ValueId{i}).name] = {-1, 1};
    const QuantPlan plan = MakePlan(net, ranges, {});
    const NodeId id = net.FindNode("t");
    EXPECT_EQ(plan.integer.count(id), 0u);
    const auto found = plan.reasons.find(id);
    return found == plan.reasons.end() ? "" : found->second.code;
  };
  const std::string product = "m: %y = MatMul(%t, %w)\noutput %y\n";
  EXPECT_EQ(code(product.c_str()), "");
  EXPECT_EQ(code((product + "output %t\n").c_str()), "float-inputs");
  EXPECT_EQ(code((product + "s: %z = Softmax(%t)\noutput %z\n").c_str()), "float-inputs");
  EXPECT_EQ(code("output %t\n"), "float-inputs");
}

TEST(Plan, WhatKeepsALinearOperatorFloat) {
  const std::string conv = R"(graph g
input %x: float32[1, 4, 3, 3]
const %w: float32[4, 4, 1, 1]
const %b: float32[4]
c: %y: float32[1, 4, 3, 3] = Conv{activation="ACT"}(%x, %w, %b, %x)
output %y
)";
  const auto with = [&](const char* activation) {
    std::string text = conv;
    text.replace(text.find("ACT"), 3, activation);
    return text;
  };
  EXPECT_EQ(ReasonOf(with("Relu"), "c"), "");
  EXPECT_EQ(ReasonOf(with("Relu"), "c", {}, {"x"}), "no-range");
  EXPECT_EQ(ReasonOf(with("Relu"), "c", {}, {"y"}), "no-range");
  EXPECT_EQ(ReasonOf(with("Sigmoid"), "c"), "no-range") << "y.linear was not calibrated";
  EXPECT_EQ(ReasonOf(with("Relu"), "c", {.skip_first_last = true}), "first-or-last");
  EXPECT_EQ(ReasonOf(with("Relu"), "c", {.exclude = {"c"}}), "excluded");
  EXPECT_EQ(ReasonOf("graph g\ninput %x: float32[2, 1, 4]\nconst %w: float32[2, 4, 2]\nm: %y = "
                     "MatMul(%x, %w)\noutput %y\n",
                     "m"),
            "shape");
  EXPECT_EQ(ReasonOf("graph g\ninput %x: float32[1, 4]\nconst %w: float32[4, 0]\nm: %y = "
                     "MatMul(%x, %w)\noutput %y\n",
                     "m"),
            "shape");
  EXPECT_EQ(ReasonOf("graph g\ninput %x: float64[1, 4]\nconst %w: float64[4, 2]\nm: %y = "
                     "MatMul(%x, %w)\noutput %y\n",
                     "m"),
            "types");
  EXPECT_EQ(ReasonOf("graph g\ninput %x: float32[1, 4, 3, 3]\ninput %w: float32[4, 4, 1, 1]\nm: %y "
                     "= Conv(%x, %w)\noutput %y\n",
                     "m"),
            "weights-not-constant");
  EXPECT_EQ(ReasonOf("graph g\ninput %x: float32[1, 4, 3, 3]\nconst %w: float32[4, 4, 1, 1]\ninput "
                     "%b: float32[4]\nm: %y = Conv(%x, %w, %b)\noutput %y\n",
                     "m"),
            "bias-not-constant");
  EXPECT_EQ(ReasonOf("graph g\ninput %b: float32[4]\ninput %x: float32[4, 4]\nm: %y = MatMul(%b, "
                     "%x)\noutput %y\n",
                     "m"),
            "weights-not-constant");
}

// Followers: all real inputs must be integers, of operators that move values one; backwards, what
// no integer node reads retreats.
TEST(Plan, FollowersAndRetreats) {
  const std::string head =
      "graph g\ninput %x: float32[1, 4, 4, 4]\ninput %z: float32[1, 4, 4, 4]\nconst %w: float32[4, "
      "4, 1, 1]\na: %a = Conv(%x, %w)\n";
  const std::string tail = "const %u: float32[4, 4, 1, 1]\nl: %l = Conv(%n, %u)\noutput %l\n";
  EXPECT_EQ(ReasonOf(head + "n: %n = Add(%a, %x)\n" + tail, "n"), "float-inputs");
  EXPECT_EQ(ReasonOf(head + "n: %n = Add(%a, %a)\n" + tail, "n"), "");
  EXPECT_EQ(ReasonOf(head + "n: %n = Add(%x, %z)\n" + tail, "n"), "float-inputs");
  EXPECT_EQ(ReasonOf(head + "n: %n = Relu(%a)\n" + tail, "n"), "");
  EXPECT_EQ(ReasonOf(head + "n: %n = Relu(%a)\n" + tail, "n", {}, {"n"}), "no-range");
  EXPECT_EQ(ReasonOf(head + "n: %n = Relu(%a)\n" + tail, "n", {.exclude = {"n"}}), "excluded");
  EXPECT_EQ(ReasonOf(head + "n: %n = Relu(%a)\noutput %n\n", "n"), "float-readers");
  EXPECT_EQ(ReasonOf(head + "n: %n = Softmax{axis=1}(%a)\n" + tail, "n"), "no-int8-kernel");
  const std::string wide = "const %u: float32[4, 8, 1, 1]\nl: %l = Conv(%n, %u)\noutput %l\n";
  EXPECT_EQ(ReasonOf(head + "n: %n = Concat{axis=1}(%a, %z)\n" + wide, "n"), "")
      << "a move follows one integer input";
  EXPECT_EQ(ReasonOf(head + "n: %n = Concat{axis=1}(%x, %z)\n" + wide, "n"), "float-inputs");
  // A Split's other output has no reader; other operators with two outputs stay.
  const std::string half =
      "const %u: float32[4, 2, 1, 1]\nl: %l = Conv(%n, %u)\noutput %l\noutput %o\n";
  EXPECT_EQ(ReasonOf(head + "n: %n, %o = Split{axis=1, num_outputs=2}(%a)\n" + half, "n"), "");
}

// The stream of a transformer before its first block: a product that writes float32 adds it as
// float32. One that an integer operator reads adds integers, also behind a product in between.
TEST(Plan, ResidualsOfFloatResultsAreFloat) {
  const auto stream = [](const std::string& rest) {
    return "graph g\ninput %x: float32[1, 4]\nconst %w: float32[4, 4]\na: %a = MatMul(%x, %w)\n"
           "b: %b = MatMul(%x, %w)\ns: %s = Add(%a, %b)\n"
           "n: %n = Softmax{axis=1}(%s)\np: %p = MatMul(%n, %w, _, %s)\n" +
           rest;
  };
  const std::string block = "m: %m = Softmax{axis=1}(%p)\nq: %q = MatMul(%m, %w, _, %p)\n";
  EXPECT_EQ(ReasonOf(stream("output %p\n"), "s"), "float-readers");
  EXPECT_EQ(ReasonOf(stream("output %p\n"), "p"), "");
  EXPECT_EQ(ReasonOf(stream(block + "output %q\n"), "s"), "float-readers");
  EXPECT_EQ(ReasonOf(stream(block + "r: %r = MatMul(%q, %w)\noutput %r\n"), "s"), "");
  EXPECT_EQ(ReasonOf(stream("r: %r = MatMul(%p, %w)\noutput %r\n"), "s"), "");
  EXPECT_EQ(ReasonOf(stream("r: %r = MatMul(%s, %w)\noutput %r\noutput %p\n"), "s"), "");
}

// A second operand of a product whose range is nearly even gets no zero point: within a factor
// of 1.25.
TEST(Static, BalancedOperandsHaveNoZeroPoint) {
  const Graph net = MakeNet(R"(graph pair
input %a: float32[1, 4]
input %b: float32[4, 2]
m: %y: float32[1, 2] = MatMul(%a, %b)
output %y
)");
  const auto zero = [&](float min, float max) {
    Graph q = net;
    const auto report = QuantizeStatic(q, {{"a", {-1, 3}}, {"b", {min, max}}, {"y", {-9, 9}}}, {});
    EXPECT_TRUE(report) << report.error().message();
    const Node& m = q.node(q.FindNode("m"));
    EXPECT_EQ(q.value(m.input(0)).type.quant->zero_points[0], 64)
        << "the first operand keeps its own";
    return q.value(m.input(1)).type.quant->zero_points[0];
  };
  EXPECT_EQ(zero(-1, 1.24f), 128);
  EXPECT_EQ(zero(-1.24f, 1), 128);
  EXPECT_EQ(zero(-1, 1.25f), 113);  // 255 / 2.25 = 113.3
  EXPECT_EQ(zero(-1.25f, 1), 142);
  EXPECT_EQ(zero(-1, 1.26f), 113);  // 255 / 2.26 = 112.8
  EXPECT_EQ(zero(-1.26f, 1), 142);
}

// [C, M / group, k...]: a scale for each index of axis 1, whatever the group; a bias of M numbers
// that needs larger scales raises all of them.
TEST(Static, TransposedConvolutionsHaveTheirChannelsOnAxisOne) {
  for (const int group : {1, 2}) {
    Graph net = MakeNet(fmt::format(
        "graph t\ninput %x: float32[1, 4, 3, 3]\nconst %w: float32[4, 3, 2, 2]\nconst %b: "
        "float32[{0}]\n"
        "n: %y: float32[1, {0}, 4, 4] = ConvTranspose{{group={1}}}(%x, %w, %b)\noutput %y\n",
        3 * group, group));
    Tensor w = Tensor::Allocate(TensorType(DType::kFloat32, Shape{4, 3, 2, 2}));
    for (int64_t i = 0; i < 48; ++i)
      w.mutable_data<float>()[i] =
          static_cast<float>(127 << (i / 4 % 3)) * (i % 4 == 0 ? 1.0f : 0.5f);
    net.SetConstant(net.FindValue("w"), w);
    const auto scales = [&](float bias) {
      Tensor b = Tensor::Allocate(TensorType(DType::kFloat32, Shape{3 * group}));
      b.mutable_data<float>()[0] = bias;
      net.SetConstant(net.FindValue("b"), b);
      Graph q = net;
      // As a file for others has it, whichever groups evoq's own kernels take.
      const auto report =
          QuantizeStatic(q, {{"x", {0, 255}}, {"y", {-1, 1}}}, {.target = FindQdqTarget("evoq")});
      EXPECT_TRUE(report) << report.error().message();
      const QuantParams& params = *q.value(q.node(q.FindNode("n")).input(1)).type.quant;
      EXPECT_EQ(params.axis, 1);
      return params.scales;
    };
    EXPECT_EQ(scales(0), (std::vector<float>{1, 2, 4})) << group;
    // 3e9 / (0.999 * 2^30) = 2.797: of the first channel, or of all where channels share scales.
    const std::vector<float> raised = scales(3e9f);
    EXPECT_NEAR(raised[0], 2.797, 0.002) << group;
    EXPECT_NEAR(raised[1], group == 1 ? 2 : 2.797, 0.002) << group;
    EXPECT_EQ(raised[2], 4) << group;
  }
}

// Values that an operator only moves share one range: the smallest minimum and the largest maximum
// of all.
TEST(Static, MovedValuesShareTheUnionOfTheirRanges) {
  const Graph net = MakeNet(R"(graph join
input %x: float32[1, 2, 3, 3]
const %w: float32[2, 2, 1, 1]
a: %a: float32[1, 2, 3, 3] = Conv(%x, %w)
b: %b: float32[1, 2, 3, 3] = Conv(%x, %w)
c: %c: float32[1, 4, 3, 3] = Concat{axis=1}(%a, %b)
const %u: float32[2, 4, 1, 1]
l: %l: float32[1, 2, 3, 3] = Conv(%c, %u)
output %l
)");
  const QuantParams wanted = ActivationParams({-5, 7}, DType::kUint8, false);
  const Range wide = {-5, 2}, high = {-1, 7}, narrow = {-1, 1};
  for (const std::vector<Range>& r : std::vector<std::vector<Range>>{{wide, high, narrow},
                                                                     {high, wide, narrow},
                                                                     {narrow, high, wide},
                                                                     {wide, narrow, high}}) {
    Graph q = net;
    ASSERT_TRUE(QuantizeStatic(
        q, {{"x", {-1, 1}}, {"a", r[0]}, {"b", r[1]}, {"c", r[2]}, {"l", {-1, 1}}}, {}));
    for (const char* name : {"a", "b", "c"})
      EXPECT_EQ(*q.value(q.FindValue(name)).type.quant, wanted) << name;
  }
}

// Both results of a Split have the range of what it splits, and each other's.
TEST(Static, SplitValuesShareTheUnionOfTheirRanges) {
  const Graph net = MakeNet(R"(graph split
input %x: float32[1, 2, 3, 3]
const %w: float32[2, 2, 1, 1]
a: %a = Conv(%x, %w)
s: %s, %t = Split{axis=1, num_outputs=2}(%a)
const %u: float32[1, 1, 1, 1]
l: %l = Conv(%s, %u)
m: %m = Conv(%t, %u)
output %l
output %m
)");
  const QuantParams wanted = ActivationParams({-5, 7}, DType::kUint8, false);
  const Range wide = {-5, 2}, high = {-1, 7}, narrow = {-1, 1};
  for (const std::vector<Range>& r :
       std::vector<std::vector<Range>>{{wide, high, narrow}, {narrow, wide, high}}) {
    Graph q = net;
    ASSERT_TRUE(QuantizeStatic(
        q, {{"x", {-1, 1}}, {"a", r[0]}, {"s", r[1]}, {"t", r[2]}, {"l", {-1, 1}}, {"m", {-1, 1}}},
        {}));
    for (const char* name : {"a", "s", "t"})
      EXPECT_EQ(*q.value(q.FindValue(name)).type.quant, wanted) << name;
    EXPECT_EQ(q.node(q.FindNode("l")).input(1), q.node(q.FindNode("m")).input(1))
        << "readers of one weight share its integers";
  }
}

// A constant Pad without a value gets the real 0; others are left alone.
TEST(Static, PadsThatFillWithZeros) {
  const auto fill = [](const std::string& pad) {
    Graph q = MakeNet(
        "graph g\ninput %x: float32[1, 2, 4, 4]\nconst %w: float32[2, 2, 1, 1]\na: "
        "%a = Conv(%x, %w)\nconst %pads: int64[8] = [0, 0, 1, 1, 0, 0, 1, 1]\nconst "
        "%two: float32[] = [2.0]\np: %p = " +
        pad + "\nl: %l = Conv(%p, %w)\noutput %l\n");
    const auto report =
        QuantizeStatic(q, {{"x", {-1, 1}}, {"a", {-1, 3}}, {"p", {-1, 3}}, {"l", {-1, 1}}}, {});
    EXPECT_TRUE(report) << report.error().message();
    const ValueId value = q.node(q.FindNode("p")).input(2);
    return value.valid() ? q.value(value).name : "";
  };
  EXPECT_EQ(fill("Pad(%a, %pads)"), "p.fill.int8");
  EXPECT_EQ(fill("Pad{mode=\"constant\"}(%a, %pads)"), "p.fill.int8");
  EXPECT_EQ(fill("Pad{mode=\"reflect\"}(%a, %pads)"), "");
  EXPECT_EQ(fill("Pad(%a, %pads, %two)"), "two.int8");
}

// ---- the other schemes

std::string Layer(const std::string& input, const std::string& weight, const std::string& node) {
  return "graph g\ninput %x: float32[" + input + "]\nconst %w: float32[" + weight +
         "]\nn: %y = " + node + "(%x, %w)\noutput %y\n";
}

TEST(WeightsOnly, FromSoManyElementsOn) {
  for (const auto& [columns, narrowed] :
       std::vector<std::pair<int, int>>{{15, 0}, {16, 1}}) {  // 16 x 15 = 240, 16 x 16 = 256
    Graph q = MakeNet(Layer("1, 16", fmt::format("16, {}", columns), "MatMul"));
    const auto report = QuantizeWeights(q, {});
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->int8_weights, narrowed) << columns;
    EXPECT_EQ(report->nodes.Total(), 1);
    EXPECT_EQ(report->warnings.size(), 1 - narrowed);
    if (narrowed) EXPECT_EQ(q.value(q.node(q.FindNode("n")).input(1)).type.quant->axis, 1);
  }
  // A table has a scale for each row; per tensor it has one.
  const std::string table =
      "graph g\ninput %i: int64[3]\nconst %w: float32[64, 8]\nn: %y = Gather{axis=0}(%w, "
      "%i)\noutput %y\n";
  for (const bool per_channel : {true, false}) {
    Graph q = MakeNet(table);
    ASSERT_TRUE(QuantizeWeights(q, {.per_channel = per_channel}));
    const QuantParams& params = *q.value(q.node(q.FindNode("n")).input(0)).type.quant;
    EXPECT_EQ(params.scales.size(), per_channel ? 64 : 1);
    if (per_channel) EXPECT_EQ(params.axis, 0);
  }
}

TEST(Bf16, WhatStaysFloat) {
  const auto reason = [](const std::string& text) {
    Graph q = MakeNet(text);
    const auto report = ConvertToBf16(q, {});
    EXPECT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->nodes.Total(), 1);
    EXPECT_EQ(report->nodes[Precision::kBf16] + report->nodes[Precision::kFloat32], 1);
    return report->float_reasons.empty() ? "" : report->float_reasons.at("n").ToString();
  };
  EXPECT_EQ(reason(Layer("1, 4, 3, 3", "4, 2, 2, 2", "ConvTranspose")), "");
  EXPECT_EQ(reason(Layer("1, 3, 3, 3", "3, 2, 2, 2", "ConvTranspose")),
            "shape: 3 input channels in a group, expected an even number");
  EXPECT_EQ(reason(Layer("1, 4, 3, 3", "4, 2, 2, 2", "ConvTranspose{group=2}")), "");
  EXPECT_EQ(reason(Layer("1, 6, 3, 3", "6, 2, 2, 2", "ConvTranspose{group=2}")),
            "shape: 3 input channels in a group, expected an even number");
  EXPECT_EQ(reason(Layer("2, 1, 4", "2, 4, 2", "MatMul")),
            "shape: a constant factor of rank 3, expected 2");
  EXPECT_EQ(reason(Layer("1, 3", "3, 2", "MatMul")), "");
}

// y = activation(sum * scales + bias + residual), each input quantized once: two layers on one
// input share it.
TEST(Dynamic, LayersAreWrittenAsOnnxHasThem) {
  Graph net = MakeNet(R"(graph two
input %x: float32[1, 2, 3, 3]
const %v: float32[3, 2, 1, 1]
r: %r: float32[1, 3, 3, 3] = Conv{activation="LeakyRelu", activation_alpha=0.25}(%x, %v)
const %w: float32[3, 2, 1, 1]
const %b: float32[3]
a: %a = Conv{activation="Clip", activation_alpha=-1.0, activation_beta=2.0}(%x, %w, %b, %r)
output %a
)");
  Graph q = net;
  const auto report = QuantizeDynamic(q, {});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->nodes[Precision::kInt8], 2);
  EXPECT_EQ(report->nodes.Total(), 2);
  EXPECT_TRUE(report->warnings.empty());
  std::map<std::string, int> ops;
  for (NodeId id : q.order()) ++ops[q.node(id).op];
  EXPECT_EQ(ops, (std::map<std::string, int>{{"DynamicQuantizeLinear", 1},
                                             {"ConvInteger", 2},
                                             {"Cast", 2},
                                             {"Mul", 4},
                                             {"Add", 2},
                                             {"Clip", 1},
                                             {"LeakyRelu", 1}}));
  EXPECT_EQ(q.value(q.FindValue("w.scale")).type.ToString(), "float32[3, 1, 1]");
  EXPECT_EQ(q.node(q.FindNode("r_activation")).attrs.Float("alpha", 0), 0.25f);
  EXPECT_GE(Sqnr(net, q), 30);
  Graph per_tensor = net;
  ASSERT_TRUE(QuantizeDynamic(per_tensor, {.per_channel = false}));
  EXPECT_EQ(per_tensor.value(per_tensor.FindValue("w.scale")).type.ToString(), "float32[1]");
}

}  // namespace
}  // namespace evoq
