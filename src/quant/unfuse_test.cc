// Fused activations and residuals taken off again, and what the runtimes of ONNX files ask for.
#include "quant/unfuse.h"

#include "quant/plan.h"
#include "quant/test_net.h"

namespace evoq {
namespace {

std::string ConvWith(const std::string& attrs) {
  return "graph g\ninput %x: float32[1, 2, 3, 3]\nconst %w: float32[2, 2, 1, 1]\nc: %y: float32[1, "
         "2, 3, 3] = Conv{" +
         attrs + "}(%x, %w, _, %x)\noutput %y\n";
}

// The node's operator and attributes, as the graph's text has them.
std::string Written(const Graph& graph, const char* node) {
  const NodeId id = graph.FindNode(node);
  if (!id.valid()) return "none";
  const Node& n = graph.node(id);
  return (n.domain.empty() ? "" : n.domain + "::") + n.op + n.attrs.ToString();
}

TEST(Unfuse, AnActivationBecomesANodeWithItsAttributes) {
  struct Case {
    const char *attrs, *node;
    bool table, foreign;
  };
  for (const Case& c : {
           Case{"activation=\"LeakyRelu\", activation_alpha=0.25, group=1", "LeakyRelu{alpha=0.25}",
                false, true},
           Case{"activation=\"Silu\", group=1", "evoq::Silu", true, true},
           Case{"activation=\"Sigmoid\", group=1", "Sigmoid", true, true},
           Case{"activation=\"Relu\", group=1", "Relu", false, false},
       }) {
    Graph graph = MakeNet(ConvWith(c.attrs));
    const NodeId conv = graph.FindNode("c");
    EXPECT_EQ(HasTableActivation(graph.node(conv)), c.table) << c.attrs;
    EXPECT_EQ(HasForeignActivation(graph.node(conv)), c.foreign) << c.attrs;
    SplitActivation(graph, conv);
    EXPECT_EQ(Written(graph, "c"), "Conv{group=1}");
    EXPECT_EQ(Written(graph, "c.activation"), c.node);
    const Node& activation = graph.node(graph.FindNode("c.activation"));
    EXPECT_EQ(graph.value(activation.input(0)).name, "y.linear");
    EXPECT_EQ(graph.value(activation.outputs[0]).name, "y");
    EXPECT_FALSE(HasTableActivation(graph.node(conv)));
  }
}

TEST(Unfuse, SlopesBecomeAPRelu) {
  Graph graph = MakeNet(ConvWith("activation=\"PRelu\", activation_slopes=[0.5, -0.25], group=1"));
  const NodeId conv = graph.FindNode("c");
  EXPECT_TRUE(HasSlopes(graph.node(conv)));
  SplitActivation(graph, conv);
  EXPECT_FALSE(HasSlopes(graph.node(conv)));
  EXPECT_EQ(Written(graph, "c"), "Conv{group=1}");
  const Node& activation = graph.node(graph.FindNode("c.activation"));
  EXPECT_EQ(activation.op, "PRelu");
  const Tensor& slopes = graph.value(activation.input(1)).constant;
  EXPECT_EQ(slopes.shape().ToString(), "[1, 2, 1, 1]");
  EXPECT_EQ(slopes.values<float>()[1], -0.25f);
}

TEST(Unfuse, AResidualTakesTheActivationAlong) {
  Graph graph =
      MakeNet(ConvWith("activation=\"Clip\", activation_alpha=-1.0, activation_beta=6.0, group=1"));
  const NodeId conv = graph.FindNode("c");
  EXPECT_TRUE(HasResidual(graph.node(conv)));
  SplitResidual(graph, conv);
  EXPECT_FALSE(HasResidual(graph.node(conv)));
  EXPECT_EQ(Written(graph, "c"), "Conv{group=1}");
  EXPECT_EQ(Written(graph, "c.add"),
            "Add{activation=\"Clip\", activation_alpha=-1, activation_beta=6}");
  const Node& add = graph.node(graph.FindNode("c.add"));
  EXPECT_EQ(graph.value(add.input(0)).name, "y.product");
  EXPECT_EQ(graph.value(add.input(1)).name, "x");
  EXPECT_EQ(graph.value(add.outputs[0]).name, "y");
  // An operator of four inputs that is no linear one has none.
  const Graph other = MakeNet(
      "graph g\ninput %x: float32[1, 2, 3, 3]\nconst %s: int64[4] = [1, 2, 6, 6]\nr: %y = "
      "Resize(%x, _, _, %s)\noutput %y\n");
  EXPECT_FALSE(HasResidual(other.node(other.FindNode("r"))));
}

// Which of them asks for what: the sentences of their rows say it in words.
TEST(Unfuse, WhatTheRuntimesAskFor) {
  struct Row {
    const char* name;
    bool residual, activation, results, symmetric;
  };
  const Row rows[] = {{"evoq", false, true, false, false},
                      {"ort", true, true, true, false},
                      {"tensorrt", false, false, false, true},
                      {"openvino", false, false, false, false}};
  ASSERT_EQ(AllQdqTargets().size(), std::size(rows));
  for (const Row& row : rows) {
    const QdqTarget* target = FindQdqTarget(row.name);
    ASSERT_NE(target, nullptr) << row.name;
    EXPECT_EQ(target->split_residual, row.residual) << row.name;
    EXPECT_EQ(target->split_activation, row.activation) << row.name;
    EXPECT_EQ(target->quantize_results, row.results) << row.name;
    EXPECT_EQ(target->symmetric, row.symmetric) << row.name;
  }
  EXPECT_EQ(FindQdqTarget("none"), nullptr);
}

// Two convolutions, so that an integer one reads the first one's result. For evoq itself LeakyRelu
// is part of the operator; other runtimes round before it, where its range is known.
TEST(Unfuse, ActivationsPerTarget) {
  const auto net = [](const char* activation) {
    return MakeNet(fmt::format(
        "graph g\ninput %x: float32[1, 2, 3, 3]\nconst %w: float32[2, 2, 1, 1]\nc: %y = "
        "Conv{{activation=\"{}\"}}(%x, %w)\nconst %v: float32[2, 2, 1, 1]\nd: %z = Conv(%y, "
        "%v)\noutput %z\n",
        activation));
  };
  const auto split = [&](const char* activation, const char* target, bool linear) {
    Graph graph = net(activation);
    Ranges ranges = {{"x", {-1, 1}}, {"y", {-1, 1}}, {"z", {-1, 1}}};
    if (linear) ranges["y.linear"] = {-2, 2};
    const auto report = QuantizeStatic(
        graph, ranges, {.target = target == nullptr ? nullptr : FindQdqTarget(target)});
    EXPECT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->nodes[Precision::kFloat32], report->float_reasons.size());
    EXPECT_EQ(report->nodes.Total(),
              report->nodes[Precision::kInt8] + report->nodes[Precision::kFloat32]);
    return graph.FindNode("c.activation").valid();
  };
  EXPECT_FALSE(split("LeakyRelu", nullptr, true));
  EXPECT_TRUE(split("LeakyRelu", "ort", true));
  EXPECT_FALSE(split("LeakyRelu", "ort", false)) << "its range is not known";
  EXPECT_TRUE(split("Sigmoid", nullptr, true));
  EXPECT_TRUE(split("Sigmoid", "evoq", true));
  EXPECT_FALSE(split("Sigmoid", "openvino", true));
  EXPECT_FALSE(split("Sigmoid", "tensorrt", true));
  EXPECT_FALSE(split("Relu", "ort", true));
}

}  // namespace
}  // namespace evoq
