// Channel pruning: a graph without channels is the graph in which nothing reads them.
#include "prune/channels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "prune/choose_channels.h"
#include "prune/prune.h"
#include "reference/reference.h"

namespace evoq {
namespace {

Tensor Random(const Shape& shape, uint32_t seed) {
  Tensor t = Tensor::Allocate(TensorType(DType::kFloat32, shape));
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  for (int64_t i = 0; i < t.elements(); ++i) t.mutable_data<float>()[i] = normal(random);
  return t;
}

// Graphs in a few words; weights by the node's name.
struct Net {
  Graph g;
  uint32_t seed = 0;

  ValueId Weight(const std::string& name, const Shape& shape) {
    return g.AddConstant(name, Random(shape, ++seed));
  }
  ValueId Conv(const std::string& name, ValueId x, int64_t from, int64_t to, int64_t group = 1,
               int64_t size = 3) {
    Attrs attrs;
    attrs.Set("group", group);
    attrs.Set("pads", std::vector<int64_t>(4, size / 2));
    return g.Apply(
        "Conv", name,
        {x, Weight(name + ".w", Shape{to, from / group, size, size}), Weight(name + ".b", {to})},
        attrs);
  }
  ValueId Norm(const std::string& name, ValueId x, int64_t n) {
    Tensor variance = Random(Shape{n}, ++seed);
    for (int64_t i = 0; i < n; ++i)
      variance.mutable_data<float>()[i] = 0.5f + std::fabs(variance.data<float>()[i]);
    return g.Apply("BatchNormalization", name,
                   {x, Weight(name + ".scale", {n}), Weight(name + ".bias", {n}),
                    Weight(name + ".mean", {n}), g.AddConstant(name + ".var", variance)});
  }
  ValueId Ints(const std::string& name, std::vector<int64_t> ints) {
    const auto n = static_cast<int64_t>(ints.size());
    return g.AddConstant(name, Tensor::FromValues<int64_t>(Shape{n}, ints));
  }
  ValueId Op(const char* op, const std::string& name, std::vector<ValueId> inputs,
             const char* attr = nullptr, AttrValue value = int64_t{0}) {
    Attrs attrs;
    if (attr != nullptr) attrs.Set(attr, std::move(value));
    return g.Apply(op, name, std::move(inputs), attrs);
  }
  ValueId Gemm(const std::string& name, ValueId x, int64_t from, int64_t to) {
    return Op("Gemm", name, {x, Weight(name + ".w", {to, from}), Weight(name + ".b", {to})},
              "transB", int64_t{1});
  }
  Graph Finish(ValueId y) {
    g.MarkOutput(y);
    const Status inferred = InferTypes(g);
    EXPECT_TRUE(inferred) << (inferred ? "" : inferred.error().message());
    return std::move(g);
  }
  ValueId Image(int64_t channels, int64_t size) {
    return g.AddInput("x", TensorType(DType::kFloat32, Shape{2, channels, size, size}));
  }
};

Tensor Output(const Graph& graph, const Tensor& x) {
  auto out = EvaluateGraph(graph, std::vector<Tensor>{x});
  EXPECT_TRUE(out) << (out ? "" : out.error().message());
  return out ? (*out)[0] : Tensor();
}

// The graph in which the removed channels are read by nobody: the weights that multiply them are 0.
Graph Unread(const Graph& graph, const Channels& channels, const std::vector<bool>& removed) {
  Graph out = graph;
  for (const ChannelSlices& s : channels.slices) {
    if (!s.consumes) continue;
    Tensor w = out.value(s.constant).constant.Clone();
    int64_t inner = 1;
    for (int i = s.along.axis + 1; i < w.shape().rank(); ++i) inner *= w.shape()[i].value;
    const auto indices = static_cast<int64_t>(s.along.groups.size());
    for (int64_t i = 0; i < w.elements(); ++i) {
      const auto index = static_cast<size_t>(i / inner % indices);
      if (removed[static_cast<size_t>(s.along.groups[index])]) w.mutable_data<float>()[i] = 0;
    }
    out.SetConstant(s.constant, std::move(w));
  }
  return out;
}

// Prunes half of all channels and compares; returns the report.
PruneReport CheckHalf(const Graph& graph, double share = 0.5) {
  const Channels channels = FindChannels(graph);
  Graph pruned = graph;
  const auto report = PruneGraph(pruned, {.pattern = "channel", .sparsity = share});
  EXPECT_TRUE(report) << (report ? "" : report.error().message());
  if (!report) return {};
  const ChannelChoice choice{.score = AllPruneScores()[0], .share = share};
  const auto removed = ChooseChannels(graph, channels, choice, [&](const ChannelSlices& s) {
    return ChannelNumbers{graph.value(s.constant).constant.values<float>(), {}};
  });
  EXPECT_GT(std::ranges::count(removed, true), 0);
  const Tensor x = Random(graph.value(graph.inputs()[0]).type.shape, 99);
  const Tensor wanted = Output(Unread(graph, channels, removed), x), found = Output(pruned, x);
  EXPECT_EQ(wanted.shape(), found.shape());
  double most = 0;
  for (int64_t i = 0; i < wanted.elements(); ++i)
    most = std::max(most, std::fabs(double(wanted.data<float>()[i])));
  EXPECT_GT(most, 0);
  for (int64_t i = 0; i < wanted.elements(); ++i)
    EXPECT_NEAR(wanted.data<float>()[i], found.data<float>()[i], 1e-5 * most) << i;
  return *report;
}

const PrunedChannels& Of(const PruneReport& report, const std::string& node) {
  const auto at = std::ranges::find(report.channels, node, &PrunedChannels::node);
  EXPECT_NE(at, report.channels.end()) << node;
  return at == report.channels.end() ? report.channels[0] : *at;
}

// Convolution, BatchNormalization, a depthwise one, Flatten and Gemm.
TEST(Channels, ConvDepthwiseFlattenGemm) {
  Net n;
  ValueId y = n.Norm("bn", n.Conv("a", n.Image(3, 6), 3, 8), 8);
  y = n.Conv("depthwise", n.Op("Relu", "relu", {y}), 8, 8, 8);
  y = n.Op("Flatten", "flat",
           {n.Op("MaxPool", "pool", {y}, "kernel_shape", std::vector<int64_t>{3, 3})});
  y = n.Gemm("fc", y, 8 * 16, 6);
  const Graph graph = n.Finish(n.Gemm("last", n.Op("Relu", "r2", {y}), 6, 4));
  const PruneReport report = CheckHalf(graph);
  EXPECT_EQ(Of(report, "a").outputs, 4);
  EXPECT_EQ(Of(report, "depthwise").inputs, 4);
  EXPECT_EQ(Of(report, "depthwise").weights, 4 * 9);
  EXPECT_EQ(Of(report, "fc").inputs, 4 * 16);
  EXPECT_EQ(Of(report, "fc").outputs, 3);
  EXPECT_EQ(Of(report, "last").outputs, 4);
  ASSERT_EQ(report.left.size(), 1u);
  EXPECT_EQ(report.left[0].second, "they are the output last");
  EXPECT_LT(report.bytes, report.bytes_before / 2);
  EXPECT_LT(*report.macs, *report.macs_before);
}

// What an Add joins goes together; the inside of a block by itself.
TEST(Channels, Residual) {
  Net n;
  const ValueId x = n.Conv("stem", n.Image(3, 5), 3, 8);
  ValueId y = n.Conv("b", n.Op("Relu", "r", {n.Conv("a", x, 8, 12)}), 12, 8);
  y = n.Op("Add", "sum", {x, y});
  y = n.Op("GlobalAveragePool", "pool", {y});
  const Graph graph = n.Finish(n.Gemm("fc", n.Op("Flatten", "flat", {y}), 8, 4));
  const Channels channels = FindChannels(graph);
  EXPECT_EQ(channels.layers[0].outputs, channels.layers[2].outputs);  // stem and b
  const PruneReport report = CheckHalf(graph);
  EXPECT_EQ(Of(report, "stem").outputs, 4);
  EXPECT_EQ(Of(report, "b").outputs, 4);
  EXPECT_EQ(Of(report, "a").outputs, 6);
}

// Branches beside each other, cut again, and shuffled as ShuffleNet does.
TEST(Channels, ConcatSplitShuffle) {
  Net n;
  const ValueId x = n.Image(3, 4);
  ValueId y =
      n.Op("Concat", "cat", {n.Conv("a", x, 3, 4), n.Conv("b", x, 3, 8), x}, "axis", int64_t{1});
  y = n.Conv("c", y, 15, 12);
  y = n.Op("Reshape", "cut", {y, n.Ints("s1", {2, 3, 4, 4, 4})});
  y = n.Op("Transpose", "turn", {y}, "perm", std::vector<int64_t>{0, 2, 1, 3, 4});
  y = n.Op("Reshape", "join", {y, n.Ints("s2", {2, 12, 4, 4})});
  Attrs axis;
  axis.Set("axis", 1);
  const ValueId first = n.g.AddValue("first"), second = n.g.AddValue("second");
  n.g.AddNode({.op = "Split",
               .name = "split",
               .attrs = axis,
               .inputs = {y, n.Ints("s3", {6, 6})},
               .outputs = {first, second}});
  y = n.Op("Add", "sum", {n.Conv("d", first, 6, 8), n.Conv("e", second, 6, 8)});
  const Graph graph = n.Finish(n.Conv("f", y, 8, 2));
  const PruneReport report = CheckHalf(graph);
  EXPECT_EQ(Of(report, "a").outputs, 2);
  EXPECT_EQ(Of(report, "b").outputs, 4);
  EXPECT_EQ(Of(report, "c").inputs, 2 + 4 + 3);
  // Of four groups of three the two least go, both of one part: one comes back.
  EXPECT_EQ(Of(report, "c").outputs, 9);
  EXPECT_EQ(Of(report, "d").inputs + Of(report, "e").inputs, 9);
  EXPECT_EQ(std::min(Of(report, "d").inputs, Of(report, "e").inputs), 3);
}

// Gates of squeeze-and-excitation, a reduction, a slope for each channel, padded channels, groups.
TEST(Channels, GatesReductionsGroups) {
  Net n;
  const ValueId a = n.Conv("a", n.Image(3, 4), 3, 8);
  ValueId gate = n.Op("ReduceMean", "mean", {a, n.Ints("axes", {2, 3})});
  gate = n.Op("Sigmoid", "gate",
              {n.Conv("up", n.Op("Relu", "r", {n.Conv("down", gate, 8, 4, 1, 1)}), 4, 8, 1, 1)});
  ValueId y = n.Op("Mul", "gated", {a, gate});
  y = n.Op("PRelu", "slopes", {y, n.Weight("slope", {8, 1, 1})});
  y = n.Conv("grouped", y, 8, 16, 4);
  y = n.Op("Pad", "pad", {y, n.Ints("pads", {0, 1, 0, 0, 0, 2, 0, 0})});
  y = n.Conv("last", y, 19, 2);
  const PruneReport report = CheckHalf(n.Finish(y));
  EXPECT_EQ(Of(report, "a").outputs, 4);  // two of four groups
  EXPECT_EQ(Of(report, "up").outputs, 4);
  EXPECT_EQ(Of(report, "down").outputs, 2);
  EXPECT_EQ(Of(report, "grouped").outputs, 8);
  EXPECT_EQ(Of(report, "last").inputs, 8 + 3);
}

// Products with the channels behind, and their transposed weights.
TEST(Channels, MatMulAndTransposedConvolution) {
  Net n;
  const ValueId x = n.g.AddInput("x", TensorType(DType::kFloat32, Shape{2, 5, 6}));
  ValueId y = n.Op("MatMul", "a", {x, n.Weight("a.w", {6, 8})});
  y = n.Op("Add", "bias", {y, n.Weight("b", {8})});
  y = n.Op("MatMul", "b", {n.Op("Gelu", "gelu", {y}), n.Weight("b.w", {8, 4})});
  y = n.Op(
      "Unsqueeze", "image",
      {n.Op("Transpose", "turn", {y}, "perm", std::vector<int64_t>{0, 2, 1}), n.Ints("at", {3})});
  Attrs group;
  group.Set("group", 2);
  y = n.g.Apply("ConvTranspose", "up", {y, n.Weight("up.w", {4, 3, 2, 1})}, group);
  const PruneReport report = CheckHalf(n.Finish(n.Conv("last", y, 6, 2, 1, 1)));
  EXPECT_EQ(Of(report, "a").outputs, 4);
  EXPECT_EQ(Of(report, "b").outputs, 2);
  EXPECT_EQ(Of(report, "up").outputs, 3);
}

// What is not followed stays, with the reason.
TEST(Channels, SaysWhatStays) {
  const auto why = [](Net& n, ValueId y) {
    const Graph graph = n.Finish(n.Conv("last", y, n.g.value(y).type.shape.rank() > 0 ? 4 : 4, 2));
    Graph pruned = graph;
    const auto report = PruneGraph(pruned, {.pattern = "channel"});
    return report ? std::string("pruned") : report.error().message();
  };
  Net softmax;
  EXPECT_EQ(
      why(softmax, softmax.Op("Softmax", "s", {softmax.Conv("a", softmax.Image(3, 4), 3, 4)},
                              "axis", int64_t{1})),
      "--pattern channel: no channel can go: a: node s (Softmax) computes along the channels");
  Net sum;
  const ValueId x = sum.Image(4, 4);
  EXPECT_EQ(why(sum, sum.Op("Add", "add", {sum.Conv("a", x, 4, 4), x})),
            "--pattern channel: no channel can go: a: node add (Add) joins them with x, whose "
            "channels are not followed");
  Net shared;
  const ValueId a = shared.Conv("a", shared.Image(3, 4), 3, 4);
  shared.g.MarkOutput(shared.Op("Neg", "neg", {shared.g.FindValue("a.b")}));
  EXPECT_EQ(why(shared, a),
            "--pattern channel: no channel can go: a: a.b is read in another way too");
}

TEST(Channels, LayersMultiplesAndScope) {
  const auto net = [] {
    Net n;
    ValueId y = n.Conv("a", n.Image(3, 4), 3, 20);
    y = n.Conv("b", y, 20, 6);
    return n.Finish(n.Conv("last", y, 6, 2));
  };
  Graph g = net();
  const auto one = *PruneGraph(g, {.pattern = "channel", .layers = {"a"}});
  EXPECT_EQ(Of(one, "a").outputs, 10);
  EXPECT_EQ(Of(one, "b").outputs, 6);
  g = net();
  const auto eights = *PruneGraph(g, {.pattern = "channel", .multiple = 8});
  EXPECT_EQ(Of(eights, "a").outputs, 16);
  EXPECT_EQ(Of(eights, "b").outputs, 6);
  g = net();
  const auto all = *PruneGraph(g, {.pattern = "channel", .sparsity = 0.9, .scope = "global"});
  EXPECT_EQ(Of(all, "a").outputs + Of(all, "b").outputs, 3);
  EXPECT_GE(Of(all, "a").outputs, 1);
  EXPECT_GE(Of(all, "b").outputs, 1);
  g = net();
  EXPECT_EQ(PruneGraph(g, {.pattern = "channel", .layers = {"c"}}).error().message(),
            "--layers c: no product has such a name");
}

// The channels of the least magnitude go, those of two constants alike by the mean of both.
TEST(Channels, LeastMagnitudeGoes) {
  Net n;
  const ValueId a = n.Conv("a", n.Image(1, 3), 1, 4, 1, 1);
  Graph graph = n.Finish(n.Conv("last", a, 4, 1, 1, 1));
  const auto set = [&](const char* name, const Shape& shape, std::vector<float> values) {
    graph.SetConstant(graph.FindValue(name), Tensor::FromValues<float>(shape, values));
  };
  set("a.w", {4, 1, 1, 1}, {1, -2, 3, 2});      // in units of the mean: 0.5, 1, 1.5, 1
  set("last.w", {1, 4, 1, 1}, {9, 3, 0, -12});  // 1.5, 0.5, 0, 2; together 1, 0.75, 0.75, 1.5
  const auto report = *PruneGraph(graph, {.pattern = "channel"});
  EXPECT_EQ(Of(report, "a").outputs, 2);
  const auto kept = graph.value(graph.FindValue("a.w")).constant.values<float>();
  EXPECT_EQ(std::vector<float>(kept.begin(), kept.end()), (std::vector<float>{1, 2}));
}

// Pads as PyTorch's exporter leaves them: numbers that nodes turn around.
TEST(Channels, PadsThatNodesComputeFromConstants) {
  Net n;
  const ValueId first = n.Op("Relu", "r", {n.Conv("first", n.Image(3, 6), 3, 8)});
  const ValueId zeros = n.Op("ConstantOfShape", "zeros", {n.Ints("count", {4})}, "value",
                             Tensor::FromValues<int64_t>(Shape{1}, std::vector<int64_t>{0}));
  const ValueId all =
      n.Op("Concat", "pads", {zeros, n.Ints("last", {0, 0, 1, 2})}, "axis", int64_t{0});
  const ValueId padded = n.Op("Pad", "pad", {first, all});
  Graph g = n.Finish(n.Conv("second", padded, 8, 4));
  const Channels channels = FindChannels(g);
  ASSERT_EQ(channels.layers.size(), 2u);
  for (const int32_t group : channels.layers[0].outputs)
    EXPECT_EQ(channels.groups[static_cast<size_t>(group)].stays, "");
  EXPECT_TRUE(PruneGraph(g, {.pattern = "channel"}));
  EXPECT_EQ(g.value(padded).type.shape[1].value, 4);
}

// What has weights and keeps them all is named.
TEST(Channels, RecurrentLayersAreLeft) {
  for (const char* pattern : {"channel", "unstructured"}) {
    Graph g;
    const ValueId x = g.AddInput("x", TensorType(DType::kFloat32, Shape{3, 2, 4}));
    const ValueId w = g.AddConstant("w", Random(Shape{1, 20, 4}, 1)),
                  r = g.AddConstant("r", Random(Shape{1, 20, 5}, 2));
    Node lstm{.op = "LSTM", .name = "lstm", .inputs = {x, w, r}};
    lstm.attrs.Set("hidden_size", int64_t{5});
    lstm.outputs = {g.AddValue("h")};
    const ValueId h = lstm.outputs[0];
    g.AddNode(std::move(lstm));
    const ValueId a = g.Apply("MatMul", "a", {h, g.AddConstant("aw", Random(Shape{5, 8}, 3))});
    const ValueId b = g.Apply("MatMul", "b", {a, g.AddConstant("bw", Random(Shape{8, 4}, 4))});
    g.MarkOutput(b);
    ASSERT_TRUE(InferTypes(g));
    const auto report = PruneGraph(g, {.pattern = pattern});
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(std::ranges::count(report->left,
                                 std::pair(std::string("lstm"), std::string(kRecurrentStays))),
              1)
        << pattern;
  }
}

}  // namespace
}  // namespace evoq
