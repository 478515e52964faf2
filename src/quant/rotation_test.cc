// The method hadamard: the function stays, weights are those of the explicit products with Q, and
// what lies far out of the values between layers is spread.
#include <gtest/gtest.h>

#include <cmath>

#include "quant/hadamard.h"
#include "quant/method.h"
#include "quant/test_net.h"

namespace evoq {
namespace {

// Two blocks as Llama's: a table and positions make the stream, gated layers add to it.
constexpr char kLlama[] = R"(graph llama
input %x: float32[1, 6, 10]
const %w0: float32[10, 24]
const %b0: float32[24]
embed: %e: float32[1, 6, 24] = MatMul(%x, %w0, %b0)
const %places: int64[6] = [0, 1, 2, 3, 4, 5]
const %table: float32[8, 24]
positions: %p: float32[6, 24] = Gather{axis=0}(%table, %places)
enter: %s0: float32[1, 6, 24] = Add(%e, %p)
const %g1: float32[24]
norm1: %n1: float32[1, 6, 24] = RMSNormalization{axis=-1}(%s0, %g1)
const %w1: float32[24, 40]
up: %u: float32[1, 6, 40] = MatMul(%n1, %w1)
const %w2: float32[24, 40]
gate: %g: float32[1, 6, 40] = MatMul{activation="Silu"}(%n1, %w2)
gated: %m: float32[1, 6, 40] = Mul(%g, %u)
const %w3: float32[40, 24]
down: %s1: float32[1, 6, 24] = MatMul(%m, %w3, _, %s0)
const %at: int64[1, 2, 1] = [5, 2]
wanted: %r: float32[1, 2, 24] = GatherND{batch_dims=1}(%s1, %at)
const %g2: float32[24]
norm2: %n2: float32[1, 2, 24] = RMSNormalization{axis=-1}(%r, %g2)
const %w4: float32[24, 12]
head: %y: float32[1, 2, 12] = MatMul(%n2, %w4)
output %y
)";

Result<Graph> Rotated(const Graph& net) {
  Graph graph = net;
  Ranges ranges;
  QuantizeOptions options;
  std::map<std::string, Tensor> rounded;
  std::vector<std::string> warnings;
  const MethodData data;
  MethodRun run{.scheme = *FindScheme("int4-weights"),
                .graph = graph,
                .float_graph = nullptr,
                .ranges = ranges,
                .options = options,
                .rounded = rounded,
                .data = data,
                .warnings = warnings};
  EVOQ_TRY(FindMethod("hadamard")->run(run));
  return graph;
}

std::string Refusal(const Graph& net) {
  const auto rotated = Rotated(net);
  return rotated ? "" : rotated.error().message();
}

const Tensor& InputOf(const Graph& graph, const char* node, size_t i) {
  return graph.value(graph.node(graph.FindNode(node)).input(i)).constant;
}

// One channel of the stream is far larger, and what reads it as much smaller, as transformers
// have it.
Graph WithOutliers() {
  Graph net = MakeNet(kLlama);
  for (const char* name : {"w0", "b0", "table", "w3"}) {
    const ValueId v = net.FindValue(name);
    Tensor t = net.value(v).constant.Clone();
    for (int64_t i = 0; i < t.elements(); ++i)
      t.mutable_data<float>()[i] *= i % 24 == 17 ? 60.0f : 1.0f;
    net.SetConstant(v, t);
  }
  for (const char* name : {"w1", "w2", "w4"}) {
    const ValueId v = net.FindValue(name);
    Tensor t = net.value(v).constant.Clone();
    for (int64_t i = 0; i < t.elements(); ++i) {
      const int64_t row = i / t.sizes()[1];
      t.mutable_data<float>()[i] *= row == 17 ? 1 / 60.0f : 1.0f;
    }
    net.SetConstant(v, t);
  }
  return net;
}

TEST(Hadamard, TheFunctionStays) {
  const Graph net = WithOutliers();
  const auto made = Rotated(net);
  ASSERT_TRUE(made) << made.error().message();
  double most = 0, apart = 0;
  for (int i = 0; i < 4; ++i) {
    const Tensor input = RandomInput(net, i);
    const auto x = EvaluateGraph(net, std::span(&input, 1)),
               y = EvaluateGraph(*made, std::span(&input, 1));
    ASSERT_TRUE(x && y);
    for (int64_t k = 0; k < (*x)[0].elements(); ++k) {
      const float a = (*x)[0].data<float>()[k], b = (*y)[0].data<float>()[k];
      most = std::max<double>(most, std::fabs(a));
      apart = std::max<double>(apart, std::fabs(a - b));
    }
  }
  EXPECT_GT(most, 0.1);
  EXPECT_LT(apart, 1e-5 * most);
}

// Against products with the matrix itself.
TEST(Hadamard, WeightsAreTheProducts) {
  const Graph net = MakeNet(kLlama);
  const auto made = Rotated(net);
  ASSERT_TRUE(made) << made.error().message();
  double q[24][24];
  for (int i = 0; i < 24; ++i) {
    std::fill_n(q[i], 24, 0);
    q[i][i] = 1;
    Rotation::Of(24, 1)->Apply(q[i]);
  }
  const auto rows = [&](const char* node, size_t input) {
    const Tensor &a = InputOf(net, node, input), &b = InputOf(*made, node, input);
    for (int64_t i = 0; i < a.elements(); ++i) {
      double sum = 0;
      for (int64_t k = 0; k < 24; ++k) sum += a.data<float>()[i / 24 * 24 + k] * q[k][i % 24];
      EXPECT_NEAR(b.data<float>()[i], sum, 1e-5) << node;
    }
  };
  rows("embed", 1);
  rows("embed", 2);
  rows("positions", 0);
  rows("down", 1);
  for (const auto& [node, scale] : {std::pair("up", "g1"), {"gate", "g1"}, {"head", "g2"}}) {
    const Tensor &a = InputOf(net, node, 1), &b = InputOf(*made, node, 1);
    const auto g = net.value(net.FindValue(scale)).constant.values<float>();
    const int64_t columns = a.sizes()[1];
    for (int64_t i = 0; i < a.elements(); ++i) {
      double sum = 0;
      for (int64_t k = 0; k < 24; ++k)
        sum += q[k][i / columns] * g[k] * a.data<float>()[k * columns + i % columns];
      EXPECT_NEAR(b.data<float>()[i], sum, 1e-5) << node;
    }
  }
  for (float s : InputOf(*made, "norm1", 1).values<float>()) EXPECT_EQ(s, 1);
}

// The largest channel of the stream beside the root mean square of all.
double Peak(Graph graph) {
  graph.MarkOutput(graph.FindValue("s1"));
  double squares = 0, most = 0;
  int64_t count = 0;
  for (int i = 0; i < 4; ++i) {
    const Tensor input = RandomInput(graph, i);
    const auto outputs = EvaluateGraph(graph, std::span(&input, 1));
    EXPECT_TRUE(outputs);
    for (float v : (*outputs)[1].values<float>()) {
      squares += static_cast<double>(v) * v;
      most = std::max<double>(most, std::fabs(v));
      ++count;
    }
  }
  return most / std::sqrt(squares / static_cast<double>(count));
}

TEST(Hadamard, OutliersAreSpread) {
  const Graph net = WithOutliers();
  const auto made = Rotated(net);
  ASSERT_TRUE(made);
  EXPECT_GT(Peak(net), 4.5);
  EXPECT_LT(Peak(*made), 0.75 * Peak(net));
}

TEST(Hadamard, WhereItDoesNotReach) {
  EXPECT_EQ(Refusal(MakeNet(kConvNet)),
            "it does not reach the values of this model: there is no RMSNormalization");
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = kLlama;
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
    return MakeNet(text);
  };
  const std::string start = "it does not reach the values of this model: ";
  EXPECT_EQ(Refusal(with("output %y\n", "output %y\noutput %s1\n")),
            start + "s1 is an output of the model");
  EXPECT_EQ(
      Refusal(with("norm2: %n2: float32[1, 2, 24] = RMSNormalization{axis=-1}(%r, %g2)",
                   "norm2: %n2: float32[1, 2, 24] = LayerNormalization{axis=-1}(%r, %g2)")),
      start + "r is read by node norm2 (LayerNormalization), which no rotation passes through");
  EXPECT_EQ(Refusal(with("embed: %e: float32[1, 6, 24] = MatMul(",
                         "embed: %e: float32[1, 6, 24] = MatMul{activation=\"Relu\"}(")),
            start + "e is made by node embed (MatMul), which no rotation passes through");
  EXPECT_EQ(Refusal(with("24", "28")),
            start + "s0 has 28 channels, for which it has no Hadamard matrix");
}

// Ranges are observed anew, or there is a reason.
TEST(Hadamard, RangesNeedSamples) {
  const Graph net = WithOutliers();
  const auto ranges = Calibrate(net, Reference(), RandomSamples(net, 8), {});
  ASSERT_TRUE(ranges);
  Graph graph = net;
  const auto without =
      QuantizeBy(*FindScheme("int8"), *ParseMethods("hadamard"), graph, *ranges, {});
  ASSERT_FALSE(without);
  EXPECT_EQ(
      without.error().message(),
      "hadamard: ranges are of values that it rotates: it needs samples to observe them anew");
  Graph with = net;
  ASSERT_TRUE(QuantizeBy(*FindScheme("int8"), *ParseMethods("hadamard"), with, *ranges, {},
                         {Reference(), RandomSamples(net, 8)}));
  EXPECT_GT(Sqnr(net, with), 15);
}

}  // namespace
}  // namespace evoq
