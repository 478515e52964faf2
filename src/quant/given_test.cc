// Parameters that were given, against a simulation that rounds every value as it was told.
#include "quant/given.h"

#include "quant/mixed.h"
#include "quant/test_net.h"

namespace evoq {
namespace {

GivenType Byte(float scale, int32_t zero, DType dtype = DType::kUint8) {
  return {.dtype = dtype, .params = QuantParams::PerTensor(scale, zero)};
}

// Every activation of kConvNet, some signed, some not; the pool's output unlike its input.
GivenTypes Activations() {
  return {{"x", Byte(0.03f, 120)},
          {"s", Byte(0.02f, 0)},
          {"d", Byte(0.011f, 0)},
          {"p", Byte(0.05f, 3, DType::kInt8)},
          {"m", Byte(0.04f, 140)},
          {"l.linear", Byte(0.06f, 128)},
          {"l", Byte(0.025f, 11)},
          {"g", Byte(0.01f, 0, DType::kInt8)},
          {"f", Byte(0.01f, 0, DType::kInt8)},
          {"c", Byte(0.013f, 100)}};
}

GivenType Channels(DType dtype, int axis, int64_t count, float first, int32_t zero) {
  GivenType given{.dtype = dtype};
  given.params.axis = axis;
  for (int64_t c = 0; c < count; ++c) {
    given.params.scales.push_back(first * (1 + 0.1f * static_cast<float>(c)));
    given.params.zero_points.push_back(zero);
  }
  return given;
}

GivenTypes Everything() {
  GivenTypes given = Activations();
  given["w1"] = Channels(DType::kInt8, 0, 8, 0.008f, 0);
  given["w2"] = {.dtype = DType::kUint8, .params = QuantParams::PerTensor(0.007f, 131)};
  given["w3"] = Channels(DType::kInt4, 0, 8, 0.09f, 0);
  given["w4"] = Channels(DType::kInt8, 0, 16, 0.009f, 0);
  given["w5"] = {.dtype = DType::kInt8, .params = QuantParams::PerTensor(0.02f, 0), .bits = 6};
  return given;
}

// The tensor rounded to the type, within so many bits, and back.
Tensor Rounded(const Tensor& tensor, const GivenType& given) {
  auto q = QuantizeGiven(tensor, given);
  EXPECT_TRUE(q) << q.error().message();
  return ToFloat32(*q).value();
}

// The net's outputs where every value of `given` is rounded once it is computed: what AIMET's
// simulation means. Activations that have a NAME.linear are split before.
std::vector<Tensor> Simulated(Graph net, const GivenTypes& given, const Tensor& input) {
  std::map<ValueId, Tensor> values;
  const auto set = [&](ValueId v, Tensor tensor) {
    const auto type = given.find(net.value(v).name);
    values[v] = type == given.end() || type->second.real ? tensor : Rounded(tensor, type->second);
  };
  set(net.inputs()[0], input);
  for (NodeId id : net.order()) {
    const Node& node = net.node(id);
    std::vector<Tensor> inputs;
    for (ValueId in : node.inputs) {
      if (in.valid() && net.value(in).is_constant() && !values.count(in))
        set(in, net.value(in).constant);
      inputs.push_back(in.valid() ? values.at(in) : Tensor());
    }
    const TensorType type = net.value(node.outputs[0]).type;
    auto outputs = EvaluateNode(node, inputs, std::span(&type, 1));
    EXPECT_TRUE(outputs) << outputs.error().message();
    set(node.outputs[0], (*outputs)[0]);
  }
  return {values.at(net.outputs()[0])};
}

// The net with Silu as a node of its own, as it is where its operand has a type.
Graph SplitNet() {
  std::string text = kConvNet;
  const std::string fused =
      "last: %l: float32[1, 16, 4, 4] = Conv{activation=\"Silu\"}(%m, %w4, %b4)";
  const size_t at = text.find(fused);
  EXPECT_NE(at, std::string::npos);
  text.replace(at, fused.size(),
               "last: %l.linear: float32[1, 16, 4, 4] = Conv(%m, %w4, %b4)\n"
               "silu: %l: float32[1, 16, 4, 4] = evoq::Silu(%l.linear)");
  return MakeNet(text);
}

struct Quantized {
  Graph graph;
  QuantizeReport report;
};
Quantized Quantize(const GivenTypes& given, QuantizeOptions options = {}) {
  Quantized done{MakeNet(kConvNet), {}};
  options.given = given;
  auto report = QuantizeStatic(done.graph, {}, options);
  EXPECT_TRUE(report) << report.error().message();
  if (report) done.report = std::move(*report);
  return done;
}

// The largest difference of the outputs, in steps of `scale`.
double StepsApart(const Graph& graph, const GivenTypes& given, float scale) {
  const Graph net = SplitNet();
  double apart = 0;
  for (int i = 0; i < 8; ++i) {
    const Tensor input = RandomInput(net, 50 + i);
    const auto y = EvaluateGraph(graph, std::span(&input, 1));
    EXPECT_TRUE(y) << y.error().message();
    if (!y) return INFINITY;
    const Tensor wanted = Simulated(net, given, input)[0];
    for (int64_t k = 0; k < wanted.elements(); ++k)
      apart = std::max<double>(
          apart, std::fabs((*y)[0].data<float>()[k] - wanted.data<float>()[k]) / scale);
  }
  return apart;
}

TEST(Given, StaticComputesWhatItWasTold) {
  const GivenTypes given = Everything();
  const Quantized done = Quantize(given);
  EXPECT_EQ(done.report.not_used, (std::map<std::string, std::string>()));
  for (const auto& [name, type] : given) {
    ASSERT_TRUE(done.report.used.count(name)) << name;
    EXPECT_EQ(*done.report.used.at(name).quant, type.params) << name;
    EXPECT_EQ(done.report.used.at(name).dtype, type.dtype) << name;
  }
  EXPECT_EQ(done.report.nodes[Precision::kInt8], 9) << Print(done.graph);
  EXPECT_LE(StepsApart(done.graph, given, 0.013f), 1.01) << Print(done.graph);
}

TEST(Given, WhatOnlyMovesNeedsNone) {
  GivenTypes given = Everything();
  for (const char* moved : {"m", "f"}) given.erase(moved);
  const Quantized done = Quantize(given);
  EXPECT_EQ(done.report.nodes[Precision::kInt8], 9) << Print(done.graph);
  EXPECT_EQ(*done.report.used.at("m").quant, given["p"].params);
  EXPECT_EQ(*done.report.used.at("f").quant, given["g"].params);
  EXPECT_LE(StepsApart(done.graph, given, 0.013f), 1.01) << Print(done.graph);
}

TEST(Given, OtherBitsAndFloatsKeepTheRest) {
  GivenTypes given = Everything();
  given["d"] = {.dtype = DType::kUint16, .params = QuantParams::PerTensor(1e-4f, 0)};
  given["m"] = {.dtype = DType::kUint4, .params = QuantParams::PerTensor(0.4f, 7)};
  given["l"] = {.real = true};
  const Quantized done = Quantize(given);
  EXPECT_EQ(done.report.not_used, (std::map<std::string, std::string>()));
  EXPECT_EQ(done.report.used.at("d").dtype, DType::kUint16);
  EXPECT_FALSE(done.report.used.count("l"));
  for (const auto& [node, reason] : done.report.float_reasons)
    EXPECT_EQ(node.find(".rounded"), std::string::npos) << node;
  EXPECT_EQ(done.report.float_reasons.at("project").ToString(),
            "types: d.rounded was given as uint16: integer kernels take 8 bits with one scale");
  EXPECT_LE(StepsApart(done.graph, given, 0.013f), 1.01) << Print(done.graph);
}

TEST(Given, BlocksOfWeightsStayBesideFloats) {
  GivenTypes given = Everything();
  GivenType blocks{.dtype = DType::kInt4};
  blocks.params.axis = 0;
  blocks.params.block = 8;
  for (int i = 0; i < 20; ++i) {
    blocks.params.scales.push_back(0.05f + 0.01f * static_cast<float>(i));
    blocks.params.zero_points.push_back(i % 3 - 1);
  }
  given["w5"] = blocks;
  const Quantized done = Quantize(given);
  EXPECT_EQ(done.report.used.at("w5").quant->scales, blocks.params.scales);
  EXPECT_EQ(done.report.low_bit_weights.at("int4"), 1);
  EXPECT_LE(StepsApart(done.graph, given, 0.013f), 1.01) << Print(done.graph);
}

TEST(Given, WhatIsNotGivenTakesRanges) {
  Graph net = MakeNet(kConvNet);
  const Ranges ranges = Calibrate(net, Reference(), RandomSamples(net, 4), {}).value();
  QuantizeOptions options;
  options.given = {{"s", Byte(0.0123f, 0)}};
  Graph graph = net;
  const auto report = QuantizeStatic(graph, ranges, options);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->used.at("s").quant->scales[0], 0.0123f);
  EXPECT_TRUE(report->used.count("d"));
  EXPECT_GT(Sqnr(net, graph), 20);
}

TEST(Given, TheBiasMustFitInt32) {
  GivenTypes given = Everything();
  for (float& scale : given["w1"].params.scales) scale = 1e-30f;
  const Quantized done = Quantize(given);
  EXPECT_EQ(done.report.float_reasons.at("stem").code, "types");
}

TEST(Given, ABiasOfAnotherScaleIsReported) {
  GivenTypes given = Everything();
  given["b5"] = {.dtype = DType::kInt32, .params = QuantParams::PerTensor(0.5f, 0)};
  const Quantized done = Quantize(given);
  EXPECT_EQ(done.report.not_used.at("b5"),
            "a bias has the scale of its sums, data times weights: 0.0002, not 0.5");
  given["b5"].params.scales[0] = 0.01f * 0.02f;
  EXPECT_EQ(Quantize(given).report.not_used, (std::map<std::string, std::string>()));
}

TEST(Given, FewerBitsClip) {
  const Tensor weight = Tensor::FromValues<float>(Shape{4}, {-9, -0.5f, 1.0f, 40});
  const GivenType given{
      .dtype = DType::kInt8, .params = QuantParams::PerTensor(0.5f, 0), .bits = 5};
  const Tensor q = QuantizeGiven(weight, given).value();
  EXPECT_EQ(ToInt64s(q.WithType(TensorType(DType::kInt8, Shape{4}))).value(),
            (std::vector<int64_t>{-16, -1, 2, 15}));
}

TEST(Given, WeightsOnlyTakesWeights) {
  Graph graph = MakeNet(kConvNet);
  QuantizeOptions options;
  options.given = Everything();
  options.given["w4"].real = true;
  const auto report = QuantizeWeights(graph, options);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(*report->used.at("w3").quant, options.given["w3"].params);
  EXPECT_FALSE(report->used.count("w4"));
  EXPECT_EQ(report->float_reasons.at("last").code, "excluded");
  EXPECT_EQ(report->not_used.at("x"), "the scheme quantizes weights only");
  GivenTypes weights = options.given;
  for (const auto& [name, type] : Activations()) weights.erase(name);
  EXPECT_LE(StepsApart(graph, weights, 1e-4f), 1);
}

TEST(Given, DynamicTakesSymmetricWeights) {
  Graph graph = MakeNet(kConvNet);
  QuantizeOptions options;
  options.given = Everything();
  const auto report = QuantizeDynamic(graph, options);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(*report->used.at("w1").quant, options.given["w1"].params);
  EXPECT_EQ(report->float_reasons.count("stem"), 0u);
  EXPECT_EQ(*report->used.at("w2").quant, options.given["w2"].params);  // beside floats
  EXPECT_EQ(report->float_reasons.at("depthwise").code, "types");
}

}  // namespace
}  // namespace evoq
