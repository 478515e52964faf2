// AWQ: the function stays, and of all scales that it may take those are taken that cost the layers'
// results least, by running them.
#include <gtest/gtest.h>

#include <cmath>

#include "quant/method.h"
#include "quant/params.h"
#include "quant/test_net.h"

namespace evoq {
namespace {

constexpr char kShared[] = R"(graph shared
input %x: float32[1, 12, 32]
const %scale: float32[32]
norm: %n: float32[1, 12, 32] = RMSNormalization{axis=-1}(%x, %scale)
const %w1: float32[32, 12]
one: %a: float32[1, 12, 12] = MatMul(%n, %w1)
const %w2: float32[32, 20]
two: %b: float32[1, 12, 20] = MatMul(%n, %w2)
output %a
output %b
)";

constexpr char kGated[] = R"(graph gated
input %x: float32[1, 6, 32]
const %wg: float32[32, 48]
gate: %g: float32[1, 6, 48] = MatMul{activation="Silu"}(%x, %wg)
const %wu: float32[32, 48]
const %bu: float32[48]
up: %u: float32[1, 6, 48] = MatMul(%x, %wu, %bu)
gated: %p: float32[1, 6, 48] = Mul(%g, %u)
const %wd: float32[48, 32]
down: %d: float32[1, 6, 32] = MatMul(%p, %wd)
output %d
)";

// A few channels of the constant are larger.
Graph WithOutliers(const char* text, const char* name, float factor) {
  Graph net = MakeNet(text);
  const ValueId v = net.FindValue(name);
  Tensor t = net.value(v).constant.Clone();
  const int64_t last = t.sizes().back();
  for (int64_t i = 0; i < t.elements(); ++i)
    t.mutable_data<float>()[i] *= i % last % 11 == 3 ? factor : 1;
  net.SetConstant(v, t);
  return net;
}

constexpr int kSamples = 8;

Graph Awq(const Graph& net, const char* scheme) {
  Graph graph = net;
  Ranges ranges;
  QuantizeOptions options;
  std::map<std::string, Tensor> rounded;
  std::vector<std::string> warnings;
  const MethodData data{Reference(), RandomSamples(net, kSamples)};
  MethodRun run{.scheme = *FindScheme(scheme),
                .graph = graph,
                .float_graph = nullptr,
                .ranges = ranges,
                .options = options,
                .rounded = rounded,
                .data = data,
                .warnings = warnings};
  const Status status = FindMethod("awq")->run(run);
  EXPECT_TRUE(status) << status.error().message();
  return graph;
}

// Squared differences of all outputs on the calibration's samples.
double Difference(const Graph& a, const Graph& b) {
  double sum = 0;
  for (int i = 0; i < kSamples; ++i) {
    const Tensor input = RandomInput(a, 100 + i);
    const auto x = EvaluateGraph(a, std::span(&input, 1)),
               y = EvaluateGraph(b, std::span(&input, 1));
    EXPECT_TRUE(x && y);
    for (size_t o = 0; o < x->size(); ++o) {
      for (int64_t k = 0; k < (*x)[o].elements(); ++k) {
        const double d = static_cast<double>((*x)[o].data<float>()[k]) - (*y)[o].data<float>()[k];
        sum += d * d;
      }
    }
  }
  return sum;
}

Graph Rounded(Graph graph, const char* scheme) {
  EXPECT_TRUE(FindScheme(scheme)->run(graph, {}, {}));
  return graph;
}

// The readers' weights rounded as they are when channel c is multiplied by s[c].
Graph RoundedBy(const Graph& net, const std::vector<double>& s) {
  Graph scaled = net;
  for (const char* name : {"w1", "w2"}) {
    const ValueId v = scaled.FindValue(name);
    Tensor t = scaled.value(v).constant.Clone();
    for (int64_t i = 0; i < t.elements(); ++i) {
      float& w = t.mutable_data<float>()[i];
      w = static_cast<float>(w * s[i / t.sizes()[1]]);
    }
    scaled.SetConstant(v, t);
  }
  Graph rounded = Rounded(scaled, "int4-weights");
  const ValueId scale = rounded.FindValue("scale");
  Tensor divided = rounded.value(scale).constant.Clone();
  for (int64_t c = 0; c < 32; ++c)
    divided.mutable_data<float>()[c] = static_cast<float>(divided.data<float>()[c] / s[c]);
  rounded.SetConstant(scale, divided);
  return rounded;
}

TEST(Awq, TakesTheScalesThatCostLeast) {
  const Graph net = WithOutliers(kShared, "scale", 20);
  const Graph made = Awq(net, "int4-weights");
  EXPECT_LT(Difference(net, made), 1e-10 * Difference(net, Graph(Rounded(net, "int2-weights"))));
  // Root mean squares of the channels and of the weights that read them.
  std::vector<double> x(32), w(32);
  Graph inner = net;
  inner.MarkOutput(inner.FindValue("n"));
  for (int i = 0; i < kSamples; ++i) {
    const Tensor input = RandomInput(net, 100 + i);
    const auto outputs = EvaluateGraph(inner, std::span(&input, 1));
    ASSERT_TRUE(outputs);
    for (int64_t k = 0; k < outputs->back().elements(); ++k)
      x[k % 32] += std::pow(outputs->back().data<float>()[k], 2) / (12 * kSamples);
  }
  for (const char* name : {"w1", "w2"}) {
    const Tensor& t = net.value(net.FindValue(name)).constant;
    for (int64_t i = 0; i < t.elements(); ++i)
      w[i / t.sizes()[1]] += std::pow(t.data<float>()[i], 2) / 32;
  }
  const double plain = Difference(net, RoundedBy(net, std::vector<double>(32, 1.0)));
  double least = plain;
  for (const bool by_weights : {false, true}) {
    for (int i = 1; i <= 20; ++i) {
      std::vector<double> s;
      for (int c = 0; c < 32; ++c)
        s.push_back(std::pow(x[c], i / 40.0) / (by_weights ? std::pow(w[c], 0.5 - i / 40.0) : 1));
      const double unit = std::sqrt(*std::ranges::min_element(s) * *std::ranges::max_element(s));
      for (double& v : s) v /= unit;
      least = std::min(least, Difference(net, RoundedBy(net, s)));
    }
  }
  const double got = Difference(net, Rounded(made, "int4-weights"));
  RecordProperty("plain", std::to_string(plain));
  RecordProperty("least", std::to_string(least));
  RecordProperty("got", std::to_string(got));
  EXPECT_LT(least, 0.5 * plain);
  EXPECT_NEAR(got, least, 0.01 * least);
}

// Through the product of a gated layer, into what makes the factor without an activation.
TEST(Awq, GatedLayers) {
  const Graph net = WithOutliers(kGated, "wu", 20);
  const Graph made = Awq(net, "int4-weights");
  EXPECT_LT(Difference(net, made), 1e-9 * Difference(net, Rounded(net, "int2-weights")));
  EXPECT_EQ(made.node(made.FindNode("gate")).input(1), net.node(net.FindNode("gate")).input(1));
  EXPECT_NE(made.node(made.FindNode("up")).input(1), net.node(net.FindNode("up")).input(1));
  EXPECT_NE(made.node(made.FindNode("up")).input(2), net.node(net.FindNode("up")).input(2));
  EXPECT_LT(Difference(net, Rounded(made, "int4-weights")),
            0.9 * Difference(net, Rounded(net, "int4-weights")));
}

// Where something else reads the value there is nothing to scale, and a warning says so.
TEST(Awq, OtherReadersStop) {
  const Graph net = MakeNet(std::string(kShared) + "output %n\n");
  EXPECT_EQ(Print(Awq(net, "int4-weights")), Print(net));
}

}  // namespace
}  // namespace evoq
