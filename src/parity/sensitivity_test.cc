#include "parity/sensitivity.h"

#include "quant/test_net.h"

namespace evoq {
namespace {

const std::vector<std::string> kLayers = {"stem", "depthwise", "project", "last", "classes"};

// In row `row` of input channels, all weights of outputs [Out, In, ..] or [In, Out].
void SetInputChannel(Tensor& weight, int64_t channel, float value, bool matrix) {
  const std::vector<int64_t> sizes = weight.sizes();
  const int64_t in = sizes[matrix ? 0 : 1], out = sizes[matrix ? 1 : 0];
  const int64_t inner = weight.elements() / (in * out);
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t i = 0; i < inner; ++i)
      weight.mutable_data<float>()[matrix ? channel * out + o : (o * in + channel) * inner + i] =
          value;
  }
}
void SetOutputChannel(Graph& net, const char* name, int64_t channels) {
  const ValueId v = net.FindValue(name);
  Tensor t = net.value(v).constant.Clone();
  std::fill_n(t.mutable_data<float>(), t.elements() / channels, 0.0f);
  net.SetConstant(v, t);
}

// kConvNet with channel 0 dead throughout, and the weights of `bad` that read it 300 times larger
// than others: they change nothing in float, and take all steps of the others in int8.
Graph Planted(const std::string& bad) {
  Graph net = MakeNet(kConvNet);
  for (const auto& [name, channels] : std::vector<std::pair<const char*, int64_t>>{
           {"w1", 8}, {"b1", 8}, {"w2", 8}, {"w3", 8}, {"b3", 8}, {"w4", 16}, {"b4", 16}})
    SetOutputChannel(net, name, channels);
  const std::map<std::string, const char*> weights = {
      {"project", "w3"}, {"last", "w4"}, {"classes", "w5"}};
  const ValueId w = net.FindValue(weights.at(bad));
  Tensor weight = net.value(w).constant.Clone();
  SetInputChannel(weight, 0, 90, bad == "classes");
  net.SetConstant(w, weight);
  if (bad != "classes") SetOutputChannel(net, weights.at(bad), weight.sizes()[0]);
  return net;
}

Samples SamplesOf(const Graph& net, int count = 6) {
  Samples samples;
  for (int i = 0; i < count; ++i) samples.inputs.push_back({RandomInput(net, 500 + i)});
  samples.labels.resize(samples.inputs.size());
  return samples;
}

SensitivityInput InputOf(const Graph& net, const char* scheme = "int8",
                         const char* method = "none") {
  const auto ranges = Calibrate(net, Reference(), RandomSamples(net, 4), {});
  EXPECT_TRUE(ranges);
  return {.scheme = FindScheme(scheme),
          .methods = *ParseMethods(method),
          .graph = net,
          .ranges = *ranges,
          .options = {},
          .data = {.prepare = Reference(), .samples = RandomSamples(net, 4)},
          .prepare = Reference()};
}

// The signal to noise of what `quantize --exclude` makes.
double SqnrWithout(const SensitivityInput& input, const std::vector<std::string>& exclude,
                   const Samples& samples) {
  Graph graph = input.graph;
  QuantizeOptions options = input.options;
  options.exclude = exclude;
  EXPECT_TRUE(QuantizeBy(*input.scheme, input.methods, graph, input.ranges, options, input.data));
  OutputErrors errors(Metric::kSqnr, false);
  for (const auto& inputs : samples.inputs) {
    const auto right = EvaluateGraph(input.graph, inputs), got = EvaluateGraph(graph, inputs);
    EXPECT_TRUE(right && got);
    EXPECT_TRUE(errors.Add(*right, *got, {}, {}));
  }
  return errors.Mean().sqnr_db;
}

std::vector<std::string> Without(std::vector<std::string> layers, const std::string& layer) {
  std::erase(layers, layer);
  return layers;
}

TEST(Sensitivity, APlantedLayerComesFirstBothWays) {
  for (const char* bad : {"project", "last", "classes"}) {
    const Graph net = Planted(bad);
    const auto found = MeasureSensitivity(InputOf(net), SamplesOf(net));
    ASSERT_TRUE(found) << found.error().message();
    ASSERT_EQ(found->layers.size(), kLayers.size());
    for (const LayerSensitivity& layer : found->layers) {
      EXPECT_EQ(layer.rank_alone == 1, layer.name == bad) << bad << ": " << layer.name;
      EXPECT_EQ(layer.rank_spared == 1, layer.name == bad) << bad << ": " << layer.name;
      if (layer.name != bad) continue;
      EXPECT_LT(layer.alone.sqnr_db, 25) << bad;
      EXPECT_GT(layer.spared.sqnr_db, found->all.sqnr_db + 6) << bad;
    }
  }
}

TEST(Sensitivity, EachFigureIsThatOfQuantizeWithExclude) {
  const Graph net = MakeNet(kConvNet);
  const Samples samples = SamplesOf(net);
  for (const char* method : {"none", "", "bias-correction", "bias-correction-empirical"}) {
    const SensitivityInput input = InputOf(net, "int8", method);
    const auto found = MeasureSensitivity(input, samples);
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_DOUBLE_EQ(found->all.sqnr_db, SqnrWithout(input, {}, samples)) << method;
    for (size_t i = 0; i < kLayers.size(); ++i) {
      const LayerSensitivity& layer = found->layers[i];
      EXPECT_EQ(layer.name, kLayers[i]);
      EXPECT_DOUBLE_EQ(layer.spared.sqnr_db, SqnrWithout(input, {layer.name}, samples))
          << method << ": " << layer.name;
      EXPECT_DOUBLE_EQ(layer.alone.sqnr_db,
                       SqnrWithout(input, Without(kLayers, layer.name), samples))
          << method << ": " << layer.name;
    }
  }
}

TEST(Sensitivity, RanksAreThoseOfTheNoise) {
  const Graph net = MakeNet(kConvNet);
  const auto found = MeasureSensitivity(InputOf(net), SamplesOf(net));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->metric, Metric::kAgreement);
  EXPECT_EQ(*found->float_metric, 1);
  for (const LayerSensitivity& a : found->layers) {
    EXPECT_GT(*a.alone.kl, 0);
    EXPECT_LT(a.alone.cosine, 1);
    for (const LayerSensitivity& b : found->layers) {
      if (a.alone.noise > b.alone.noise) EXPECT_LT(a.rank_alone, b.rank_alone);
      if (a.spared.noise < b.spared.noise) EXPECT_LT(a.rank_spared, b.rank_spared);
    }
  }
}

TEST(Sensitivity, TheExclusionHoldsAndNoLayerOfItIsTooMany) {
  const Graph net = MakeNet(kConvNet);
  const Samples samples = SamplesOf(net);
  Graph two = net;  // layers before p are bad for both outputs, and rank above those that limit c
  two.MarkOutput(two.FindValue("p"));
  size_t most = 0;
  // The default methods equalize: errors do not just add up.
  for (const auto& [graph, method] : {std::pair(&net, "none"), {&net, ""}, {&two, "none"}}) {
    SensitivityInput input = InputOf(*graph, "int8", method);
    const auto plain = MeasureSensitivity(input, samples);
    ASSERT_TRUE(plain);
    EXPECT_FALSE(plain->exclusion);
    for (double more = -0.25; more < 20; more += 0.5) {
      input.min_sqnr_db = plain->all.sqnr_db + more;
      const auto found = MeasureSensitivity(input, samples);
      ASSERT_TRUE(found) << found.error().message();
      const std::vector<std::string>& layers = found->exclusion->layers;
      EXPECT_EQ(layers.empty(), more < 0);
      EXPECT_DOUBLE_EQ(found->exclusion->error.sqnr_db, SqnrWithout(input, layers, samples));
      EXPECT_GE(found->exclusion->error.sqnr_db, *input.min_sqnr_db);
      for (const std::string& layer : layers)
        EXPECT_LT(SqnrWithout(input, Without(layers, layer), samples), *input.min_sqnr_db)
            << layer << " is too many for " << more << " dB more";
      EXPECT_LE(found->exclusion->tried, 12);
      most = std::max(most, layers.size());
    }
  }
  EXPECT_GT(most, 1);
  const Graph bad = Planted("last");
  SensitivityInput one = InputOf(bad);
  one.min_sqnr_db = 25;
  const auto found = MeasureSensitivity(one, SamplesOf(bad));
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(found->exclusion->layers, std::vector<std::string>{"last"});
}

// Methods that choose anew with layers left out: the figure is of what quantize makes then.
TEST(Sensitivity, AnExclusionIsMeasuredWithItsOwnMethods) {
  const Graph net = MakeNet(kConvNet);
  const Samples samples = SamplesOf(net);
  for (const char* method : {"gptq,bias-correction", "equalize,bias-correction"}) {
    SensitivityInput input = InputOf(net, "int8", method);
    const auto plain = MeasureSensitivity(input, samples);
    ASSERT_TRUE(plain) << plain.error().message();
    for (const double more : {2.0, 4.0, 8.0, 16.0}) {
      input.min_sqnr_db = plain->all.sqnr_db + more;
      const auto found = MeasureSensitivity(input, samples);
      ASSERT_TRUE(found) << found.error().message();
      EXPECT_FALSE(found->exclusion->layers.empty());
      EXPECT_GE(found->exclusion->error.sqnr_db, *input.min_sqnr_db);
      EXPECT_DOUBLE_EQ(found->exclusion->error.sqnr_db,
                       SqnrWithout(input, found->exclusion->layers, samples))
          << method << ", " << more << " dB more";
    }
  }
}

TEST(Sensitivity, OtherSchemesAndTop1) {
  const Graph net = MakeNet(kConvNet);
  Samples samples = SamplesOf(net);
  for (size_t i = 0; i < samples.labels.size(); ++i) {
    const auto right = EvaluateGraph(net, samples.inputs[i]);
    ASSERT_TRUE(right);
    samples.labels[i] = i == 0 ? 0 : ClassOf((*right)[0]);
  }
  for (const char* scheme : {"int8-weights", "int8-dynamic", "bf16", "int4-weights"}) {
    SensitivityInput input = InputOf(net, scheme, "");
    input.ranges.clear();
    const auto found = MeasureSensitivity(input, samples);
    ASSERT_TRUE(found) << scheme << ": " << found.error().message();
    EXPECT_EQ(found->metric, Metric::kTop1) << scheme;
    EXPECT_GE(*found->float_metric, 5.0 / 6) << scheme;
    EXPECT_FALSE(found->layers.empty()) << scheme;
    for (const LayerSensitivity& layer : found->layers) {
      EXPECT_GT(layer.alone.noise, 0) << scheme << ": " << layer.name;
      EXPECT_TRUE(layer.spared.metric) << scheme << ": " << layer.name;
    }
  }
}

TEST(Sensitivity, WhatCannotBeMeasured) {
  const Graph net = MakeNet(kConvNet);
  const auto none = MeasureSensitivity(InputOf(net, "float32", ""), SamplesOf(net));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), ErrorCode::kUsage);
  EXPECT_NE(none.error().message().find("--scheme float32 quantizes no layer"), std::string::npos)
      << none.error().message();
  EXPECT_FALSE(MeasureSensitivity(InputOf(net), Samples()));
  SensitivityInput stopped = InputOf(net);
  stopped.progress = [](const std::string& stage, double) {
    return stage == "each layer spared" ? Fail(ErrorCode::kConditionFailed, "enough") : Status();
  };
  const auto ended = MeasureSensitivity(stopped, SamplesOf(net));
  ASSERT_FALSE(ended);
  EXPECT_NE(ended.error().message().find("enough"), std::string::npos);
}

}  // namespace
}  // namespace evoq
