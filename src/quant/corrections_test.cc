// Bias correction and equalization of channels against figures worked out by hand.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "quant/equalize.h"
#include "quant/params.h"
#include "quant/test_net.h"
#include "quant/unfuse.h"

namespace evoq {
namespace {

// ---- bias correction

// Stored weights with scale 1 of real ones that are 0.1, 0.2, ... larger: the errors are -0.1,
// -0.2, ... each, so that the sums show which mean each one met. Means 1, 10, 100, 1000.
std::vector<double> ErrorsOf(const Node& node, const Shape& shape,
                             const std::vector<float>& means) {
  Tensor real = Tensor::Allocate(TensorType(DType::kFloat32, shape));
  QuantParams params;
  params.axis = node.op == "MatMul" ? 1 : 0;
  params.scales.assign(static_cast<size_t>(shape[params.axis].value), 1);
  params.zero_points.assign(params.scales.size(), 0);
  Tensor stored = Tensor::Allocate(TensorType(DType::kInt8, shape, params));
  for (int64_t i = 0; i < real.elements(); ++i) {
    stored.mutable_data<int8_t>()[i] = static_cast<int8_t>(i);
    real.mutable_data<float>()[i] = static_cast<float>(i) + 0.125f * static_cast<float>(i + 1);
  }
  return WeightErrorMeans(node, real, stored, means);
}

Node Linear(const char* op, int64_t group = 1) {
  Node node{.op = op, .name = "n"};
  if (group != 1) node.attrs.Set("group", group);
  return node;
}

TEST(BiasCorrection, EachWeightMeetsTheMeanOfItsOwnChannel) {
  const std::vector<float> means = {1, 10, 100, 1000};
  const auto eighths = [](std::vector<double> sums) {
    for (double& s : sums) s *= -0.125;
    return sums;
  };
  // 4 inputs, 2 outputs: (1..4) . means, (5..8) . means
  EXPECT_EQ(ErrorsOf(Linear("Conv"), {2, 4, 1, 1}, means), eighths({4321, 8765}));
  // Two groups: outputs 0 and 1 read channels 0 and 1, outputs 2 and 3 read channels 2 and 3.
  EXPECT_EQ(ErrorsOf(Linear("Conv", 2), {4, 2, 1, 1}, means),
            eighths({1 + 20, 3 + 40, 500 + 6000, 700 + 8000}));
  // Depthwise, and with two outputs a channel.
  EXPECT_EQ(ErrorsOf(Linear("Conv", 4), {4, 1, 1, 1}, means), eighths({1, 20, 300, 4000}));
  EXPECT_EQ(ErrorsOf(Linear("Conv", 2), {4, 1, 1, 1}, {1, 10}), eighths({1, 2, 30, 40}));
  // Two taps: both of a channel meet its mean.
  EXPECT_EQ(ErrorsOf(Linear("Conv", 2), {2, 2, 1, 2}, means),
            eighths({1 + 2 + 30 + 40, 500 + 600 + 7000 + 8000}));
  // [C, M]
  EXPECT_EQ(ErrorsOf(Linear("MatMul"), {4, 2}, means),
            eighths({1 + 30 + 500 + 7000, 2 + 40 + 600 + 8000}));
  // Other numbers of channels, transposed convolutions: no correction.
  EXPECT_TRUE(ErrorsOf(Linear("Conv"), {2, 4, 1, 1}, {1, 10}).empty());
  EXPECT_TRUE(ErrorsOf(Linear("Conv", 2), {4, 4, 1, 1}, means).empty());
  EXPECT_TRUE(ErrorsOf(Linear("ConvTranspose"), {4, 2, 1, 1}, means).empty());
}

// From ranges to the int32 bias: two groups with means far apart, weights that all lose by
// rounding.
TEST(BiasCorrection, OfAGroupedConvolution) {
  Graph net = MakeNet(R"(graph grouped
input %x: float32[1, 4, 1, 1]
const %w: float32[2, 2, 1, 1]
const %b: float32[2]
c: %y: float32[1, 2, 1, 1] = Conv{group=2}(%x, %w, %b)
output %y
)");
  net.SetConstant(net.FindValue("w"),
                  Tensor::FromValues<float>(Shape{2, 2, 1, 1}, {127, 10.25f, 127, 20.25f}));
  net.SetConstant(net.FindValue("b"), Tensor::FromValues<float>(Shape{2}, {1000, 2000}));
  Ranges ranges = {{"x", {-100, 155, {1, 16, 2, 64}, {100, 100, 100, 100}}}, {"y", {-1e4f, 1e4f}}};
  for (const bool correct : {false, true}) {
    Graph q = net;
    const auto report = QuantizeStatic(q, ranges, {.correct_bias = correct, .equalize = false});
    ASSERT_TRUE(report) << report.error().message();
    const Node& conv = q.node(q.FindNode("c"));
    ASSERT_EQ(q.value(conv.input(1)).type.quant->scales, (std::vector<float>{1, 1}));
    const double scale = q.value(conv.input(0)).type.quant->scales[0];
    EXPECT_EQ(scale, 1);  // 255 / 255
    const auto bias = q.value(conv.input(2)).constant.values<int32_t>();
    // 10 and 20 are stored: the outputs miss 0.25 * 16 and 0.25 * 64.
    EXPECT_EQ(bias[0], correct ? 1004 : 1000);
    EXPECT_EQ(bias[1], correct ? 2016 : 2000);
  }
  // Where the weight's rounding has made up for it, nothing is corrected again.
  Graph kept = net;
  ASSERT_TRUE(QuantizeStatic(kept, ranges, {.equalize = false, .compensated = {"w"}}));
  const Node& as_it_was = kept.node(kept.FindNode("c"));
  EXPECT_EQ(kept.value(as_it_was.input(2)).constant.values<int32_t>()[0], 1000);
  // A runtime that reads float biases gets the corrected one too.
  Graph q = net;
  const QuantizeOptions options = {.equalize = false, .target = FindQdqTarget("tensorrt")};
  ASSERT_TRUE(QuantizeStatic(q, ranges, options));
  const Node& conv = q.node(q.FindNode("c"));
  EXPECT_EQ(q.value(conv.input(1)).type.dtype, DType::kInt8);
  const auto bias = q.value(conv.input(2)).constant.values<float>();
  EXPECT_EQ(std::vector<float>(bias.begin(), bias.end()), (std::vector<float>{1004, 2016}));
}

// ---- equalization

constexpr char kChain[] = R"(graph chain
input %x: float32[1, 1, 1, 1]
const %w: float32[2, 1, 1, 1]
const %b: float32[2]
a: %v: float32[1, 2, 1, 1] = Conv{ACTIVATION}(%x, %w, %b)
const %u: float32[SHAPE]
b: %y: float32[1, OUT, 1, 1] = Conv{group=GROUP}(%v, %u)
output %y
)";

Graph Chain(const std::string& activation, const std::string& shape, int out, int group,
            const Tensor& u) {
  std::string text = kChain;
  const auto put = [&](const std::string& what, const std::string& with) {
    text.replace(text.find(what), what.size(), with);
  };
  put("ACTIVATION", activation);
  put("SHAPE", shape);
  put("OUT", std::to_string(out));
  put("GROUP", std::to_string(group));
  Graph net = MakeNet(text);
  net.SetConstant(net.FindValue("w"), Tensor::FromValues<float>(Shape{2, 1, 1, 1}, {4, 8}));
  net.SetConstant(net.FindValue("b"), Tensor::FromValues<float>(Shape{2}, {1, -2}));
  net.SetConstant(net.FindValue("u"), u);
  return net;
}

Ranges ChainRanges() { return {{"x", {-1, 1}}, {"v", {0, 4, {2, 0.25f}, {4, 1}}}, {"y", {-9, 9}}}; }

std::vector<float> Constant(const Graph& graph, const char* node, size_t input) {
  const auto values = graph.ConstantInput(graph.node(graph.FindNode(node)), input)->values<float>();
  return {values.begin(), values.end()};
}

int Equalized(Graph& net, Ranges& ranges) {
  std::set<NodeId> all(net.order().begin(), net.order().end());
  return EqualizeChannels(net, all, ranges);
}

const Tensor kTwo = Tensor::FromValues<float>(Shape{2, 1, 1, 1}, {3, 5});

// A depthwise reader takes all: t = 4 / (1.25 * 4) -> 1, 4 / (1.25 * 1) = 3.2.
TEST(Equalize, FactorsByHandBeforeADepthwiseReader) {
  for (const char* activation :
       {"activation=\"Relu\"", "activation=\"Clip\", activation_alpha=0.0, activation_beta=6.0"}) {
    Graph net = Chain(activation, "2, 1, 1, 1", 2, 2, kTwo);
    Ranges ranges = ChainRanges();
    EXPECT_EQ(Equalized(net, ranges), 1) << activation;
    EXPECT_EQ(Constant(net, "a", 1), (std::vector<float>{4, 8 * 3.2f}));
    EXPECT_EQ(Constant(net, "a", 2), (std::vector<float>{1, -2 * 3.2f}));
    EXPECT_EQ(Constant(net, "b", 1), (std::vector<float>{3, 5 * (1 / 3.2f)}));
    EXPECT_EQ(ranges.at("v").channel_max, (std::vector<float>{4, 3.2f}));
    EXPECT_EQ(ranges.at("v").channel_means, (std::vector<float>{2, 0.25f * 3.2f}));
    EXPECT_EQ(ranges.at("v").max, 4);
  }
}

// A dense one loses precision: wish[1] = sqrt((4 / 255) * |2| / (2 / 127 * sqrt(0.25 * 1))) =
// sqrt(3.984314) = 1.996075 < 3.2.
TEST(Equalize, ADenseReaderLimitsTheFactor) {
  Graph net = Chain("activation=\"Relu\"", "1, 2, 1, 1", 1, 1,
                    Tensor::FromValues<float>(Shape{1, 2, 1, 1}, {1, 2}));
  Ranges ranges = ChainRanges();
  EXPECT_EQ(Equalized(net, ranges), 1);
  EXPECT_NEAR(Constant(net, "a", 1)[1], 8 * 1.996075, 1e-4);
  EXPECT_EQ(Constant(net, "a", 1)[0], 4);
  EXPECT_NEAR(Constant(net, "b", 1)[1], 2 / 1.996075, 1e-5);
}

TEST(Equalize, WhereItDoesNotApply) {
  const auto count = [&](const std::string& activation,
                         const std::function<void(Ranges&)>& change) {
    Graph net = Chain(activation, "2, 1, 1, 1", 2, 2, kTwo);
    Ranges ranges = ChainRanges();
    change(ranges);
    return Equalized(net, ranges);
  };
  const std::string relu = "activation=\"Relu\"";
  EXPECT_EQ(count(relu, [](Ranges&) {}), 1);
  EXPECT_EQ(count("activation=\"Sigmoid\"", [](Ranges&) {}), 0);
  EXPECT_EQ(
      count("activation=\"Clip\", activation_alpha=-1.0, activation_beta=6.0", [](Ranges&) {}), 0);
  EXPECT_EQ(count(relu, [](Ranges& r) { r.at("v").min = -0.1f; }), 0);
  EXPECT_EQ(count(relu, [](Ranges& r) { r.erase("v"); }), 0);
  EXPECT_EQ(count(relu, [](Ranges& r) { r.at("v").channel_means.clear(); }), 0);
  EXPECT_EQ(count(relu,
                  [](Ranges& r) {
                    r.at("v").channel_max = {4, 1, 1};
                    r.at("v").channel_means = {1, 1, 1};
                  }),
            0);
  // 4 / (1.25 * 3.05) = 1.0492, 4 / (1.25 * 3.04) = 1.0526: worth it from 1.05 on.
  EXPECT_EQ(count(relu, [](Ranges& r) { r.at("v").channel_max[1] = 3.05f; }), 0);
  EXPECT_EQ(count(relu, [](Ranges& r) { r.at("v").channel_max[1] = 3.04f; }), 1);
  // A dead channel: its maximum counts as a thousandth of the range's: 4 / (1.25 * 0.004) = 800.
  Graph net = Chain(relu, "2, 1, 1, 1", 2, 2, kTwo);
  Ranges ranges = ChainRanges();
  ranges.at("v").channel_max[1] = 0;
  EXPECT_EQ(Equalized(net, ranges), 1);
  EXPECT_NEAR(Constant(net, "a", 1)[1], 8 * 800.0, 0.01);
  // Someone else reads v: the model's output, an operator that stays float.
  Graph out = Chain(relu, "2, 1, 1, 1", 2, 2, kTwo);
  out.MarkOutput(out.FindValue("v"));
  ranges = ChainRanges();
  EXPECT_EQ(Equalized(out, ranges), 0);
  Graph apart = Chain(relu, "2, 1, 1, 1", 2, 2, kTwo);
  ranges = ChainRanges();
  EXPECT_EQ(EqualizeChannels(apart, {apart.FindNode("a")}, ranges), 0);
}

// wish[1] = sqrt(4 / 255 * w / (|w|max / 127 * size)): where w is the largest weight, sqrt(1.992157
// / size). A size of 1 and a scale of 1 are like others.
TEST(Equalize, SizesAndScalesOfOne) {
  struct Case {
    std::vector<float> u;
    float mean, max;
    double wanted;
  };
  for (const Case& c : {
           Case{{1, 3}, 0.25f, 1, 1.996075},
           Case{{1, 2}, 1, 1, 1.411438},
           Case{{63.5f, 127}, 0.25f, 1, 1.996075},
           Case{{63.5f, 127}, 0.5f, 0.5f, 1.996075},
           Case{{1, 0.5f}, 0.25f, 1, 1.411438},  // half of the largest weight
           Case{{0, 0}, 0.25f, 1, 3.2},          // nothing to lose
           Case{{1, 2}, 0, 0, 800},              // a dead channel
           Case{{0, 0}, 0, 0, 800},
       }) {
    Graph net = Chain("activation=\"Relu\"", "1, 2, 1, 1", 1, 1,
                      Tensor::FromValues<float>({1, 2, 1, 1}, c.u));
    net.attrs(net.FindNode("b")).Erase("group");
    Ranges ranges = ChainRanges();
    ranges.at("v").channel_means[1] = c.mean;
    ranges.at("v").channel_max[1] = c.max;
    EXPECT_EQ(Equalized(net, ranges), 1);
    EXPECT_NEAR(Constant(net, "a", 1)[1] / 8, c.wanted, 1e-5 * c.wanted) << c.wanted;
    EXPECT_EQ(Constant(net, "a", 1)[0], 4);
    EXPECT_NEAR(ranges.at("v").channel_max[1], c.max * c.wanted, 1e-5 * c.wanted);
  }
}

// Two groups of two channels and two outputs, two taps. The weights' scale is the mean of 3, 3, 6
// and 6 by 127, the root mean square of those that read channel 1 is 3, channel 3: 6. wish = sqrt(4
// / 255 * 3 / (4.5 / 127 * 0.5)) = 1.629788 and sqrt(2) times that. Channels 0 and 2 are full.
TEST(Equalize, GroupsOfTheReader) {
  Graph net = MakeNet(
      "graph g\ninput %x: float32[1, 1, 1, 2]\nconst %w: float32[4, 1, 1, 1]\na: %v = "
      "Conv(%x, %w)\nconst %u: float32[4, 2, 1, 2]\nb: %y = Conv{group=2}(%v, %u)\noutput %y\n");
  net.SetConstant(net.FindValue("w"), Tensor::FromValues<float>({4, 1, 1, 1}, {8, 8, 8, 8}));
  net.SetConstant(net.FindValue("u"),
                  Tensor::FromValues<float>({4, 2, 1, 2}, {1, -1, 3, 3, 1, 1, -3, 3,  //
                                                           1, 1, 6, 6, -1, 1, 6, -6}));
  Ranges ranges = {
      {"x", {-1, 1}}, {"v", {0, 4, {2, 0.25f, 2, 0.25f}, {4, 1, 4, 1}}}, {"y", {-9, 9}}};
  EXPECT_EQ(Equalized(net, ranges), 1);
  const std::vector<double> factors = {1, 1.629788, 1, 2.304869};
  for (int c = 0; c < 4; ++c) {
    EXPECT_NEAR(Constant(net, "a", 1)[c], 8 * factors[c], 1e-4) << c;
    EXPECT_NEAR(ranges.at("v").channel_max[c], (c % 2 ? 1 : 4) * factors[c], 1e-4) << c;
  }
  // The element [o, c, 0, t] is the 4 o + 2 c + t-th: outputs 0 and 1 read channels 0 and 1.
  const std::vector<float> u = Constant(net, "b", 1);
  EXPECT_EQ(u[0], 1);
  EXPECT_EQ(u[1], -1);
  EXPECT_NEAR(u[6], -3 / factors[1], 1e-5);
  EXPECT_NEAR(u[7], 3 / factors[1], 1e-5);
  EXPECT_EQ(u[12], -1);
  EXPECT_NEAR(u[10], 6 / factors[3], 1e-5);
  EXPECT_NEAR(u[15], -6 / factors[3], 1e-5);
}

// One channel, read by a convolution of one group: dense, so that it limits the factor. The first
// channel may be the one that gains.
TEST(Equalize, OneChannelAndTheFirst) {
  Graph net = MakeNet(
      "graph g\ninput %x: float32[1, 1, 1, 1]\nconst %w: float32[1, 1, 1, 1]\na: %v = "
      "Conv(%x, %w)\nconst %u: float32[1, 1, 1, 1]\nb: %y = Conv(%v, %u)\noutput %y\n");
  net.SetConstant(net.FindValue("w"), Tensor::FromValues<float>({1, 1, 1, 1}, {8}));
  net.SetConstant(net.FindValue("u"), Tensor::FromValues<float>({1, 1, 1, 1}, {2}));
  Ranges ranges = {{"v", {0, 4, {0.25f}, {1}}}};
  EXPECT_EQ(Equalized(net, ranges), 1);
  EXPECT_NEAR(Constant(net, "a", 1)[0], 8 * 1.996075, 1e-4);
  Graph first = Chain("", "2, 1, 1, 1", 2, 2, kTwo);
  ranges = ChainRanges();
  ranges.at("v").channel_max = {1, 4};
  ranges.at("v").channel_means = {0.25f, 2};
  EXPECT_EQ(Equalized(first, ranges), 1) << "no activation is as good as Relu";
  EXPECT_EQ(Constant(first, "a", 1), (std::vector<float>{4 * 3.2f, 8}));
  EXPECT_EQ(ranges.at("v").channel_max, (std::vector<float>{3.2f, 4}));
  EXPECT_EQ(ranges.at("v").channel_means, (std::vector<float>{0.25f * 3.2f, 2}));
}

// Producers and readers whose weights are no rows per channel, or that add something else to v.
TEST(Equalize, OperatorsThatDoNotScale) {
  const auto count = [](const std::string& producer, const std::string& reader) {
    Graph net = MakeNet(
        "graph g\ninput %x: float32[1, 2, 2, 2]\ninput %r: float32[1, 2, 2, 2]\nconst %w: "
        "float32[2, 2, 1, 1]\nconst %k: float32[2, 2]\na: %v = " +
        producer + "\nb: %y = " + reader + "\noutput %y\n");
    Ranges ranges = ChainRanges();
    return Equalized(net, ranges);
  };
  EXPECT_EQ(count("Conv(%x, %w)", "Conv(%v, %w)"), 1);
  EXPECT_EQ(count("ConvTranspose(%x, %w)", "Conv(%v, %w)"), 0);
  EXPECT_EQ(count("Conv(%x, %w)", "ConvTranspose(%v, %w)"), 0);
  EXPECT_EQ(count("Conv(%x, %w, _, %r)", "Conv(%v, %w)"), 0);
  EXPECT_EQ(count("Conv(%x, %w)", "Conv(%v, %w, _, %r)"), 1);
  EXPECT_EQ(count("Conv(%x, %w)", "Conv(%v, %w, _, %v)"), 0);
  EXPECT_EQ(count("Conv(%x, %w)", "Conv(%r, %w, _, %v)"), 0);
  EXPECT_EQ(count("MatMul(%x, %k)", "MatMul(%v, %k)"), 1);
  EXPECT_EQ(count("MatMul(%x, %r)", "MatMul(%v, %k)"), 0);
  EXPECT_EQ(count("MatMul(%x, %k)", "MatMul(%v, %r)"), 0);
  EXPECT_EQ(count("Conv(%x, %w)", "Relu(%v)"), 0);
  EXPECT_EQ(count("Relu(%x)", "Conv(%v, %w)"), 0);
  // A producer that stays float.
  Graph net = Chain("activation=\"Relu\"", "2, 1, 1, 1", 2, 2, kTwo);
  Ranges ranges = ChainRanges();
  EXPECT_EQ(EqualizeChannels(net, {net.FindNode("b")}, ranges), 0);
}

}  // namespace
}  // namespace evoq
