// The matrices that tell what rounding costs, against what it costs.
#include "quant/gram.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "quant/layer_rounding.h"
#include "quant/test_net.h"

namespace evoq {
namespace {

constexpr char kLayers[] = R"(graph net
input %x: float32[1, 4, 9, 7]
const %w1: float32[6, 2, 3, 2]
grouped: %a: float32[1, 6, 5, 6] = Conv{activation="Relu", dilations=[1, 2], group=2, pads=[1, 1, 1, 0], strides=[2, 1]}(%x, %w1)
const %w2: float32[6, 6, 1, 1]
one: %b: float32[1, 6, 5, 6] = Conv(%a, %w2, _, %a)
const %shape: int64[3] = [1, 6, 30]
flat: %f: float32[1, 6, 30] = Reshape(%b, %shape)
const %w3: float32[30, 16]
product: %y: float32[1, 6, 16] = MatMul(%f, %w3)
output %y
)";

SamplesFn Samples(std::vector<Tensor> samples) {
  return [samples](const std::function<Status(std::span<const Tensor>)>& use) -> Status {
    for (const Tensor& sample : samples) EVOQ_TRY(use(std::span(&sample, 1)));
    return {};
  };
}

std::vector<Tensor> SomeSamples(const Graph& net) {
  std::vector<Tensor> samples;
  for (int i = 0; i < 5; ++i) samples.push_back(RandomInput(net, i));
  return samples;
}

struct Seen {
  Gram gram;
  LayerMatrices matrices;
};

// What RoundLayers hands out of each layer, whose weights become `by`.
std::map<std::string, Seen> Look(const Graph& net, const MethodData& data, const RoundFn& by,
                                 int threads = 1) {
  std::map<std::string, Seen> seen;
  Graph graph = net;
  Ranges ranges;
  QuantizeOptions options{.threads = threads};
  std::map<std::string, Tensor> rounded;
  std::vector<std::string> warnings;
  MethodRun run{.scheme = *FindScheme("int8-dynamic"),
                .graph = graph,
                .float_graph = nullptr,
                .ranges = ranges,
                .options = options,
                .rounded = rounded,
                .data = data,
                .warnings = warnings};
  const Status status = RoundLayers(
      run,
      [&](const WeightRounding& r, const LayerMatrices& m, const Gram& gram) -> Result<Tensor> {
        seen[r.node] = {gram, m};
        return by(r);
      });
  EXPECT_TRUE(status) << status.error().message();
  EXPECT_EQ(rounded.size(), seen.size());
  return seen;
}

Tensor ToNearest(const WeightRounding& r) { return RoundToNearest(r, 1); }

// The squared error of a layer's results for a weight that is off is the quadratic form.
TEST(Gram, IsWhatAWeightCosts) {
  const Graph net = MakeNet(kLayers);
  const std::vector<Tensor> samples = SomeSamples(net);
  const auto seen = Look(net, {Reference(), Samples(samples)}, ToNearest);
  ASSERT_EQ(seen.size(), 3u);
  // Of the first layer, whose input is the graph's: without its activation.
  Graph exact = net, off = net;
  for (Graph* graph : {&exact, &off}) {
    graph->attrs(graph->FindNode("grouped")).Erase("activation");
    graph->MarkOutput(graph->FindValue("a"));
  }
  const ValueId w = off.FindValue("w1");
  const Tensor weight = off.value(w).constant;
  Tensor moved = weight.Clone();
  for (int64_t i = 0; i < moved.elements(); ++i)
    moved.mutable_data<float>()[i] += 0.01f * static_cast<float>(i % 7 - 2);
  off.SetConstant(w, moved);
  double cost = 0;
  for (const Tensor& sample : samples) {
    const auto a = EvaluateGraph(exact, std::span(&sample, 1)),
               b = EvaluateGraph(off, std::span(&sample, 1));
    for (int64_t i = 0; i < (*a)[1].elements(); ++i) {
      const double d = static_cast<double>((*a)[1].data<float>()[i]) - (*b)[1].data<float>()[i];
      cost += d * d;
    }
  }
  const auto& [gram, m] = seen.at("grouped");
  EXPECT_EQ(m.groups, 2);
  EXPECT_EQ(m.depth, 12);
  EXPECT_EQ(gram.rows, 5 * 30);
  double form = 0;
  for (int64_t g = 0; g < 2; ++g) {
    for (int64_t n = 0; n < 3; ++n) {
      const auto e = [&](int64_t k) {
        const int64_t at = m.Element(g, k, n);
        return static_cast<double>(moved.data<float>()[at]) - weight.data<float>()[at];
      };
      for (int64_t i = 0; i < 12; ++i) {
        for (int64_t j = 0; j < 12; ++j) form += e(i) * gram.groups[g][i * 12 + j] * e(j);
      }
    }
  }
  EXPECT_NEAR(form, cost, 2e-3 * cost);
}

// Where the layers before are exact nothing is missing; where they are rounded, the sums of the
// layer's inputs times what its results lack of the float model's.
TEST(Gram, WhatIsMissing) {
  const Graph net = MakeNet(kLayers);
  const std::vector<Tensor> samples = SomeSamples(net);
  const auto seen = Look(net, {Reference(), Samples(samples)}, ToNearest);
  for (const auto& m : seen.at("grouped").gram.missing) {
    for (double v : m) EXPECT_NEAR(v, 0, 1e-9);
  }
  Graph rounded = net, exact = net;
  for (Graph* graph : {&rounded, &exact}) {
    for (const char* name : {"a", "b"}) graph->MarkOutput(graph->FindValue(name));
  }
  // "one" of the quantized model, with its own weight in float: y' - y, times x.
  const auto first = Look(net, {Reference(), Samples(samples)}, ToNearest);
  Graph source = net;
  auto weights = WeightsToRound(*FindScheme("int8-dynamic"), source, {}, {});
  for (const WeightRounding& r : *weights) {
    if (r.node == "grouped")
      rounded.SetConstant(rounded.FindValue("w1"), *ToFloat32(RoundToNearest(r, 1)));
  }
  std::vector<double> wanted(36);
  for (const Tensor& sample : samples) {
    const auto q = EvaluateGraph(rounded, std::span(&sample, 1)),
               f = EvaluateGraph(exact, std::span(&sample, 1));
    for (int64_t p = 0; p < 30; ++p) {
      for (int64_t k = 0; k < 6; ++k) {
        for (int64_t n = 0; n < 6; ++n)
          wanted[k * 6 + n] += (*q)[1].data<float>()[k * 30 + p] *
                               (static_cast<double>((*f)[2].data<float>()[n * 30 + p]) -
                                (*q)[2].data<float>()[n * 30 + p]);
      }
    }
  }
  double most = 0;
  for (double v : wanted) most = std::max(most, std::fabs(v));
  const auto& missing = first.at("one").gram.missing[0];
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(missing[i], wanted[i], 0.02 * most);
}

TEST(Gram, DoesNotDependOnTheOrderOfSamplesOrThreads) {
  const Graph net = MakeNet(kLayers);
  std::vector<Tensor> samples = SomeSamples(net);
  const auto seen = Look(net, {Reference(), Samples(samples)}, ToNearest);
  std::ranges::reverse(samples);
  const auto other = Look(net, {Reference(), Samples(samples)}, ToNearest, 2);
  for (const auto& [name, s] : seen) {
    EXPECT_EQ(s.gram.groups, other.at(name).gram.groups) << name;
    EXPECT_EQ(s.gram.missing, other.at(name).gram.missing) << name;
  }
}

TEST(Gram, BadSamples) {
  const Graph net = MakeNet(kLayers);
  Graph graph = net;
  const auto refusal = [&](std::vector<Tensor> samples) {
    const auto report = QuantizeBy(*FindScheme("int8-dynamic"), *ParseMethods("gptq"), graph, {},
                                   {}, {Reference(), Samples(std::move(samples))});
    return report ? std::string() : report.error().message();
  };
  EXPECT_EQ(refusal({}), "gptq: no sample was given");
  Tensor poisoned = RandomInput(net, 1);
  poisoned.mutable_data<float>()[5] = NAN;
  EXPECT_EQ(refusal({poisoned}), "gptq: the input x of grouped holds a NaN or an infinity");
  const auto none = QuantizeBy(*FindScheme("int8-dynamic"), *ParseMethods("gptq"), graph, {}, {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message(), "--method gptq needs samples to observe layers on");
}

// Inputs whose elements have much in common, as those of real models do.
std::vector<Tensor> Correlated(const Graph& net, int count, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<Tensor> samples;
  for (int i = 0; i < count; ++i) {
    samples.push_back(RandomInput(net, 1000 * seed + i, 0.3f));
    const float common = normal(random);
    Tensor& t = samples.back();
    for (int64_t k = 0; k < t.elements(); ++k) t.mutable_data<float>()[k] += common;
  }
  return samples;
}

// Of the whole way: schemes with weights, every method of rounding, on samples that it has not
// seen.
TEST(RoundingMethods, LoseLessThanTheNearest) {
  const Graph net = MakeNet(kLayers);
  const std::vector<Tensor> unseen = Correlated(net, 20, 2);
  const MethodData data{Reference(), Samples(Correlated(net, 100, 1))};
  const auto ranges = Calibrate(net, data.prepare, data.samples, {});
  const auto loss = [&](const char* scheme, const char* names) {
    Graph graph = net;
    const auto report =
        QuantizeBy(*FindScheme(scheme), *ParseMethods(names), graph, *ranges, {}, data);
    EXPECT_TRUE(report) << names << ": " << report.error().message();
    double noise = 0;
    for (const Tensor& sample : unseen) {
      const auto x = EvaluateGraph(net, std::span(&sample, 1)),
                 y = EvaluateGraph(graph, std::span(&sample, 1));
      for (int64_t i = 0; i < (*x)[0].elements(); ++i) {
        const double d = static_cast<double>((*x)[0].data<float>()[i]) - (*y)[0].data<float>()[i];
        noise += d * d;
      }
    }
    return noise;
  };
  for (const char* scheme : {"int8-weights", "int4-weights", "int2-weights", "nf4-weights"}) {
    const double nearest = loss(scheme, "none");
    for (const char* method : {"gptq", "quantease", "adaround", "gptq,quantease"}) {
      if (CheckMethods(*ParseMethods(method), *FindScheme(scheme), {})) {
        const double left = loss(scheme, method) / nearest;
        RecordProperty(std::string(scheme) + "." + method, std::to_string(left));
        EXPECT_LT(left, 0.7) << scheme << " " << method;
      }
    }
  }
}

}  // namespace
}  // namespace evoq
