// Methods of static int8: each by the property that defines it, against an independent computation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "quant/layer_bits.h"
#include "quant/method.h"
#include "quant/observe.h"
#include "quant/params.h"
#include "quant/test_net.h"

namespace evoq {
namespace {

MethodChoice Named(std::string_view names) {
  auto methods = ParseMethods(names);
  EXPECT_TRUE(methods) << names;
  return methods ? *methods : MethodChoice();
}

Ranges RangesOf(const Graph& net) {
  auto ranges = Calibrate(net, Reference(), RandomSamples(net, 8), {});
  EXPECT_TRUE(ranges) << ranges.error().message();
  return ranges ? *ranges : Ranges();
}

MethodData DataOf(const Graph& net) { return {Reference(), RandomSamples(net, 8)}; }

// Quantizes by the methods. `float_graph`: what they made of the graph before the scheme ran.
Graph Quantized(const Graph& net, std::string_view names, QuantizeOptions options = {}) {
  Graph graph = net;
  const auto report =
      QuantizeBy(*FindScheme("int8"), Named(names), graph, RangesOf(net), options, DataOf(net));
  EXPECT_TRUE(report) << report.error().message();
  return graph;
}

// What the float methods make of the graph.
Graph Made(const Graph& net, std::string_view names, Ranges* ranges = nullptr) {
  Graph graph = net;
  Ranges known = RangesOf(net);
  QuantizeOptions options;
  std::map<std::string, Tensor> rounded;
  std::vector<std::string> warnings;
  const MethodData data = DataOf(net);
  const MethodChoice methods = Named(names);
  for (const QuantMethod* method : *methods) {
    MethodRun run{.scheme = *FindScheme("int8"),
                  .graph = graph,
                  .float_graph = nullptr,
                  .ranges = known,
                  .options = options,
                  .rounded = rounded,
                  .data = data,
                  .warnings = warnings};
    const Status status = method->run(run);
    EXPECT_TRUE(status) << status.error().message();
  }
  if (ranges != nullptr) *ranges = known;
  return graph;
}

// Largest difference of the first outputs, as a share of the largest value.
double Apart(const Graph& a, const Graph& b, int samples = 4) {
  double most = 0, apart = 0;
  for (int i = 0; i < samples; ++i) {
    const Tensor input = RandomInput(a, 2000 + i);
    auto x = EvaluateGraph(a, std::span(&input, 1)), y = EvaluateGraph(b, std::span(&input, 1));
    EXPECT_TRUE(x && y);
    for (int64_t k = 0; k < (*x)[0].elements(); ++k) {
      most = std::max<double>(most, std::fabs((*x)[0].data<float>()[k]));
      apart =
          std::max<double>(apart, std::fabs((*x)[0].data<float>()[k] - (*y)[0].data<float>()[k]));
    }
  }
  return apart / most;
}

// Pointwise, depthwise, pointwise: what MobileNet is made of.
constexpr char kMobile[] = R"(graph mobile
input %x: float32[1, 4, 6, 6]
const %w1: float32[8, 4, 1, 1]
const %b1: float32[8]
expand: %e: float32[1, 8, 6, 6] = Conv{activation="Relu"}(%x, %w1, %b1)
const %w2: float32[8, 1, 3, 3]
const %b2: float32[8]
depthwise: %d: float32[1, 8, 6, 6] = Conv{activation="ACTIVATION"ATTRIBUTES, group=8, pads=[1, 1, 1, 1]}(%e, %w2, %b2)
const %w3: float32[5, 8, 1, 1]
const %b3: float32[5]
project: %p: float32[1, 5, 6, 6] = Conv(%d, %w3, %b3)
output %p
)";

std::string TextOf(const std::string& activation, const std::string& attributes = "") {
  std::string text = kMobile;
  text.replace(text.find("ACTIVATION"), 10, activation);
  text.replace(text.find("ATTRIBUTES"), 10, attributes);
  return text;
}

// Multiplies element i of the constant by factor(i).
template <typename Factor>
void Multiply(Graph& net, const char* name, const Factor& factor) {
  const ValueId v = net.FindValue(name);
  Tensor t = net.value(v).constant.Clone();
  for (int64_t i = 0; i < t.elements(); ++i)
    t.mutable_data<float>()[i] *= static_cast<float>(factor(i));
  net.SetConstant(v, t);
}

// Its channels are made 2^-3 to 2^3 times larger and read as much smaller, as batch normalization
// leaves them.
Graph Mobile(const std::string& activation, const std::string& attributes = "") {
  Graph net = MakeNet(TextOf(activation, attributes));
  const auto first = [](int64_t c) { return std::ldexp(1.0, static_cast<int>(c * 5 % 7) - 3); };
  const auto second = [](int64_t c) { return std::ldexp(1.0, static_cast<int>(c * 3 % 7) - 3); };
  Multiply(net, "w1", [&](int64_t i) { return first(i / 4); });
  Multiply(net, "b1", first);
  Multiply(net, "w2", [&](int64_t i) { return second(i / 9) / first(i / 9); });
  Multiply(net, "b2", second);
  Multiply(net, "w3", [&](int64_t i) { return 1 / second(i % 8); });
  return net;
}

// The largest magnitude of the weights for each channel of the axis.
std::vector<float> LargestBy(const Tensor& w, int axis) {
  const std::vector<int64_t> sizes = w.sizes();
  int64_t inner = 1;
  for (size_t i = axis + 1; i < sizes.size(); ++i) inner *= sizes[i];
  std::vector<float> most(sizes[axis]);
  for (int64_t i = 0; i < w.elements(); ++i) {
    float& m = most[i / inner % sizes[axis]];
    m = std::max(m, std::fabs(w.data<float>()[i]));
  }
  return most;
}

const Tensor& WeightOf(const Graph& graph, const char* node) {
  return graph.value(graph.node(graph.FindNode(node)).input(1)).constant;
}

TEST(Cle, ChannelsMeetAndTheFunctionStays) {
  for (const char* activation : {"Relu", "LeakyRelu"}) {
    const Graph net = Mobile(activation, activation[0] == 'L' ? ", activation_alpha=0.1" : "");
    const Graph made = Made(net, "cle");
    EXPECT_LT(Apart(net, made), 1e-5) << activation;
    const auto expand = LargestBy(WeightOf(made, "expand"), 0);
    const auto depthwise = LargestBy(WeightOf(made, "depthwise"), 0);
    const auto project = LargestBy(WeightOf(made, "project"), 1);
    for (size_t c = 0; c < 8; ++c) {
      EXPECT_NEAR(depthwise[c] / expand[c], 1, 0.01) << c;
      EXPECT_NEAR(project[c] / depthwise[c], 1, 0.01) << c;
    }
    // They did not meet before.
    EXPECT_GT(LargestBy(WeightOf(net, "expand"), 0)[1] / LargestBy(WeightOf(net, "project"), 1)[1],
              1.5f);
  }
}

// A Clip that cuts is in the way, unless it is made a Relu; one that never cut is none.
TEST(Cle, Clips) {
  const Graph cuts = Mobile("Clip", ", activation_alpha=0.0, activation_beta=0.5");
  const Graph made = Made(cuts, "cle");
  EXPECT_LT(Apart(cuts, made), 1e-5);
  EXPECT_EQ(made.node(made.FindNode("depthwise")).attrs.String("activation"), "Clip");
  EXPECT_EQ(LargestBy(WeightOf(made, "project"), 1), LargestBy(WeightOf(cuts, "project"), 1));
  EXPECT_NE(LargestBy(WeightOf(made, "expand"), 0), LargestBy(WeightOf(cuts, "expand"), 0));
  const Graph relu = Made(cuts, "relu6-to-relu,cle");
  EXPECT_EQ(relu.node(relu.FindNode("depthwise")).attrs.String("activation"), "Relu");
  EXPECT_LT(Apart(Mobile("Relu"), relu), 1e-5);
  const Graph never = Mobile("Clip", ", activation_alpha=0.0, activation_beta=1000.0");
  const Graph opened = Made(never, "cle");
  EXPECT_EQ(opened.node(opened.FindNode("depthwise")).attrs.String("activation"), "Relu");
  EXPECT_LT(Apart(never, opened), 1e-5);
}

// The ranges that cle leaves are those that a calibration would find, for values from 0.
TEST(Cle, RangesFollow) {
  const Graph net = Mobile("Relu");
  Ranges ranges;
  const Graph made = Made(net, "cle", &ranges);
  const Ranges anew = RangesOf(made);
  for (const auto& [name, range] : anew) {
    EXPECT_NEAR(ranges.at(name).max, range.max, 1e-4 * range.max) << name;
    for (size_t c = 0; c < range.channel_means.size(); ++c)
      EXPECT_NEAR(ranges.at(name).channel_means[c], range.channel_means[c], 1e-4) << name;
  }
}

TEST(Cle, OneScalePerTensorGains) {
  const Graph net = Mobile("Relu");
  const QuantizeOptions per_tensor = {.per_channel = false};
  const double plain = Sqnr(net, Quantized(net, "none", per_tensor));
  const double equalized = Sqnr(net, Quantized(net, "cle", per_tensor));
  const double corrected = Sqnr(net, Quantized(net, "cle,bias-correction", per_tensor));
  EXPECT_GT(equalized, plain + 6);
  EXPECT_GT(corrected, plain + 6);
}

// Channels of the middle layer nearly always lie far above 0: their mean less three deviations, of
// the samples' values, is taken off there and given to the next layer's biases.
TEST(HighBias, WhatIsAlwaysThereIsAbsorbed) {
  Graph net = MakeNet(TextOf("Relu"));
  net.SetConstant(net.FindValue("b2"),
                  Tensor::FromValues<float>(Shape{8}, {9, 0, 6, 0, 0, 0, 0, 8}));
  const Graph made = Made(net, "high-bias");
  Graph inner = net;
  inner.MarkOutput(inner.FindValue("d"));
  std::vector<double> sums(8), squares(8);
  const Status status = DataOf(net).samples([&](std::span<const Tensor> inputs) -> Status {
    EVOQ_ASSIGN(const auto outputs, EvaluateGraph(inner, inputs));
    for (int64_t i = 0; i < 8 * 36; ++i) {
      const double x = outputs[1].data<float>()[i];
      sums[i / 36] += x / (8 * 36);
      squares[i / 36] += x * x / (8 * 36);
    }
    return {};
  });
  ASSERT_TRUE(status);
  const auto bias = [](const Graph& graph, const char* node) {
    return graph.value(graph.node(graph.FindNode(node)).input(2)).constant.values<float>();
  };
  const auto w3 = net.value(net.FindValue("w3")).constant.values<float>();
  std::vector<double> returned(5);
  int shifted = 0;
  for (size_t c = 0; c < 8; ++c) {
    const double shift = std::max(0.0, sums[c] - 3 * std::sqrt(squares[c] - sums[c] * sums[c]));
    shifted += shift > 1;
    EXPECT_NEAR(bias(net, "depthwise")[c] - bias(made, "depthwise")[c], shift, 1e-4) << c;
    for (size_t m = 0; m < 5; ++m) returned[m] += w3[m * 8 + c] * shift;
  }
  EXPECT_EQ(shifted, 3);
  for (size_t m = 0; m < 5; ++m)
    EXPECT_NEAR(bias(made, "project")[m] - bias(net, "project")[m], returned[m], 1e-4) << m;
  EXPECT_GT(Sqnr(net, made), 30);  // what lies below is cut off, one in a thousand
  EXPECT_LT(RangesOf(made).at("d").max, 0.7f * RangesOf(net).at("d").max);
  // The depthwise layer reads with zeros around: the first layer keeps its bias.
  EXPECT_TRUE(BitEqual(made.value(made.node(made.FindNode("expand")).input(2)).constant,
                       net.value(net.FindValue("b1")).constant));
}

// Methods that refit weights to the float model's results bring its means back: a correction by the
// ranges' means would do it twice. Clipping does not, and is corrected.
TEST(BiasCorrection, LeavesRefittedWeightsAlone) {
  const Graph net = Mobile("Relu");
  const QuantizeOptions few = {.weight_bits = {{"*", 4}}};
  for (const char* method : {"gptq", "adaround", "quantease", "seqmse", "clip,gptq"}) {
    const Graph alone = Quantized(net, method, few);
    const Graph corrected = Quantized(net, std::string(method) + ",bias-correction", few);
    EXPECT_EQ(Sqnr(alone, corrected), INFINITY) << method;
  }
  for (const char* method : {"clip", "gptq,clip"}) {
    const Graph alone = Quantized(net, method, few);
    const Graph corrected = Quantized(net, std::string(method) + ",bias-correction", few);
    EXPECT_LT(Sqnr(alone, corrected), 60) << method;
  }
}

// Mean over samples and positions of what the quantized layer's outputs differ, by channel.
std::vector<double> MeanErrors(const Graph& net, const Graph& quantized) {
  std::vector<double> errors;
  int64_t count = 0;
  const MethodData data = DataOf(net);
  const Status status = data.samples([&](std::span<const Tensor> inputs) -> Status {
    EVOQ_ASSIGN(const auto x, EvaluateGraph(net, inputs));
    EVOQ_ASSIGN(const auto y, EvaluateGraph(quantized, inputs));
    const int64_t channels = x[0].sizes()[1], inner = x[0].elements() / channels;
    errors.resize(channels);
    for (int64_t i = 0; i < x[0].elements(); ++i)
      errors[i / inner] += static_cast<double>(y[0].data<float>()[i]) - x[0].data<float>()[i];
    count += inner;
    return {};
  });
  EXPECT_TRUE(status);
  for (double& e : errors) e /= static_cast<double>(count);
  return errors;
}

// The means of the last layer's channels become those of the float model.
TEST(BiasCorrectionEmpirical, MeansAreThoseOfFloat) {
  const Graph net = Mobile("Relu");
  const QuantizeOptions per_tensor = {.per_channel = false};
  const auto largest = [](const std::vector<double>& errors) {
    double most = 0;
    for (double e : errors) most = std::max(most, std::fabs(e));
    return most;
  };
  const double plain = largest(MeanErrors(net, Quantized(net, "none", per_tensor)));
  const Graph corrected = Quantized(net, "bias-correction-empirical", per_tensor);
  EXPECT_LT(largest(MeanErrors(net, corrected)), 0.02 * plain);
  EXPECT_GT(Sqnr(net, corrected), Sqnr(net, Quantized(net, "none", per_tensor)));
  // Nothing of what observed it stays.
  EXPECT_EQ(corrected.FindNode("project.sum"), NodeId{});
}

// By hand: of a 1x1 convolution of values whose mean is 2, the sums of a channel miss 2 * sum_c (w
// - stored w) on average, whatever the activation cuts off.
TEST(BiasCorrectionEmpirical, SumsAreThoseBeforeTheActivation) {
  const Graph net = MakeNet(R"(graph cut
input %x: float32[1, 4, 24, 24]
const %two: float32[] = [2]
shift: %v: float32[1, 4, 24, 24] = Add(%x, %two)
const %w: float32[6, 4, 1, 1]
const %b: float32[6]
one: %a: float32[1, 6, 24, 24] = Conv{activation="Relu"}(%v, %w, %b)
const %u: float32[3, 6, 1, 1]
last: %y: float32[1, 3, 24, 24] = Conv(%a, %u)
output %y
)");
  const QuantizeOptions per_tensor = {.per_channel = false};
  const Graph plain = Quantized(net, "none", per_tensor),
              corrected = Quantized(net, "bias-correction-empirical", per_tensor);
  const auto of = [](const Graph& graph, size_t input) -> const Value& {
    return graph.value(graph.node(graph.FindNode("one")).input(input));
  };
  const double scale = of(plain, 1).type.quant->scales[0];
  const auto real = net.value(net.FindValue("w")).constant.values<float>();
  const auto stored = of(plain, 1).constant.values<int8_t>();
  const double step = scale * static_cast<double>(of(plain, 0).type.quant->scales[0]);
  for (size_t m = 0; m < 6; ++m) {
    double missed = 0;
    for (size_t c = 4 * m; c < 4 * m + 4; ++c)
      missed += 2 * (static_cast<double>(real[c]) - scale * stored[c]);
    const auto bias = [&](const Graph& graph) {
      return of(graph, 2).constant.values<int32_t>()[m];
    };
    EXPECT_NEAR(step * (bias(corrected) - bias(plain)), missed, 0.2 * std::fabs(missed) + 2e-4)
        << m;
  }
}

constexpr char kNormed[] = R"(graph normed
input %x: float32[1, 6, 16]
const %scale: float32[16]
const %shift: float32[16]
norm: %n: float32[1, 6, 16] = LayerNormalization{axis=-1}(%x, %scale, %shift)
const %w1: float32[16, 24]
const %b1: float32[24]
query: %q: float32[1, 6, 24] = MatMul(%n, %w1, %b1)
const %w2: float32[16, 24]
key: %k: float32[1, 6, 24] = MatMul(%n, %w2)
sum: %s: float32[1, 6, 24] = Add(%q, %k)
output %s
)";

// Three channels of a normalization are 50 times larger, and their weights as much smaller: as
// transformers have it.
Graph WithOutliers() {
  Graph net = MakeNet(kNormed);
  const auto is_out = [](int64_t c) { return c == 2 || c == 7 || c == 11; };
  for (const char* name : {"scale", "shift"})
    Multiply(net, name, [&](int64_t i) { return is_out(i) ? 50.0 : 1.0; });
  for (const char* name : {"w1", "w2"})
    Multiply(net, name, [&](int64_t i) { return is_out(i / 24) ? 0.02 : 1.0; });
  return net;
}

TEST(SmoothQuant, OutliersAreSharedWithTheWeights) {
  const Graph net = WithOutliers();
  Ranges ranges;
  const Graph made = Made(net, "smoothquant", &ranges);
  EXPECT_LT(Apart(net, made), 1e-5);
  EXPECT_LT(RangesOf(made).at("n").max, 0.2f * RangesOf(net).at("n").max);
  const double plain = Sqnr(net, Quantized(net, "none"));
  const double smoothed = Sqnr(net, Quantized(net, "smoothquant"));
  EXPECT_GT(smoothed, plain + 15);
  EXPECT_GT(smoothed, 30);
}

// A value that something else reads too is left alone.
TEST(SmoothQuant, OtherReadersStop) {
  std::string text = kNormed;
  text += "output %n\n";
  const Graph net = MakeNet(text);
  const Graph made = Made(net, "smoothquant");
  EXPECT_EQ(Print(made), Print(net));
}

constexpr char kChain[] = R"(graph chain
input %x: float32[1, 4, 6, 6]
const %w1: float32[10, 4, 3, 3]
const %b1: float32[10]
one: %a: float32[1, 10, 4, 4] = Conv{activation="Relu"}(%x, %w1, %b1)
const %w2: float32[5, 10, 1, 1]
two: %p: float32[1, 5, 4, 4] = Conv(%a, %w2)
output %p
)";

// The channel that reaches furthest is made twice with half the weights.
TEST(SplitOutliers, TheRangeHalves) {
  Graph net = MakeNet(kChain);
  Multiply(net, "w1", [](int64_t i) { return i / 36 == 6 ? 8 : 1; });
  Multiply(net, "b1", [](int64_t i) { return i == 6 ? 8 : 1; });
  Multiply(net, "w2", [](int64_t i) { return i % 10 == 6 ? 0.125 : 1; });
  const Graph made = Made(net, "split-outliers");
  EXPECT_LT(Apart(net, made), 1e-5);
  EXPECT_EQ(WeightOf(made, "one").sizes(), (std::vector<int64_t>{11, 4, 3, 3}));
  EXPECT_EQ(WeightOf(made, "two").sizes(), (std::vector<int64_t>{5, 11, 1, 1}));
  EXPECT_FLOAT_EQ(RangesOf(made).at("a").max, RangesOf(net).at("a").max / 2);
  EXPECT_GT(Sqnr(net, Quantized(net, "split-outliers")), Sqnr(net, Quantized(net, "none")) + 2);
  // Where nothing stands out a split gains nothing.
  const Graph even = MakeNet(kChain);
  Ranges ranges = RangesOf(even);
  ranges.at("a").channel_max.assign(10, ranges.at("a").max);
  Graph same = even;
  QuantizeOptions options;
  std::map<std::string, Tensor> rounded;
  std::vector<std::string> warnings;
  const MethodData data = DataOf(even);
  MethodRun run{*FindScheme("int8"), same, nullptr, ranges, options, rounded, data, warnings};
  ASSERT_TRUE(FindMethod("split-outliers")->run(run));
  EXPECT_EQ(Print(same), Print(even));
  EXPECT_FALSE(run.recalibrate);
}

// Weights of few bits that methods round: numbers that these bits hold, nearer to float32 than the
// nearest ones.
TEST(FewBits, MethodsRoundThem) {
  constexpr char kNet[] = R"(graph net
input %x: float32[2, 4, 8, 8]
const %w1: float32[16, 4, 3, 3]
const %b1: float32[16]
a: %a: float32[2, 16, 8, 8] = Conv{activation="Relu", pads=[1, 1, 1, 1]}(%x, %w1, %b1)
const %w2: float32[16, 1, 3, 3]
b: %b: float32[2, 16, 8, 8] = Conv{activation="Relu", group=16, pads=[1, 1, 1, 1]}(%a, %w2)
const %w3: float32[6, 16, 1, 1]
const %b3: float32[6]
c: %y: float32[2, 6, 8, 8] = Conv(%b, %w3, %b3)
output %y
)";
  const Graph net = MakeNet(kNet);
  for (const int bits : {4, 2}) {
    for (const bool per_channel : {true, false}) {
      QuantizeOptions options;
      options.weight_bits = {{"*", bits}};
      options.per_channel = per_channel;
      const double nearest = Sqnr(net, Quantized(net, "none", options));
      for (const char* method : {"gptq", "quantease", "adaround", "gptq,quantease"}) {
        const Graph quantized = Quantized(net, method, options);
        EXPECT_GT(Sqnr(net, quantized), nearest + 0.5) << method << " " << bits << per_channel;
        int weights = 0;
        for (NodeId id : quantized.order()) {
          const Node& node = quantized.node(id);
          const Tensor* const w = quantized.ConstantInput(node, 1);
          if (node.op != "Conv") continue;
          ASSERT_NE(w, nullptr);
          EXPECT_EQ(w->dtype(), DType::kInt8);
          EXPECT_TRUE(NarrowWeights(*w, bits)) << method << " " << node.name;
          ++weights;
        }
        EXPECT_EQ(weights, 3);
      }
    }
  }
}

}  // namespace
}  // namespace evoq
