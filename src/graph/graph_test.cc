#include "graph/graph.h"

#include <gtest/gtest.h>

namespace evoq {
namespace {

constexpr char kText[] = R"(graph tiny
input %x: float32[N, 3, 8, 8]
const %w: int8[4, 3, 3, 3](4 scales on axis 0)
conv_1: %y: uint8[N, 4, 6, 6](scale 0.02, zero 3) = Conv{activation="Relu", alpha=0.5, beta=1.0, strides=[1, 1]}(%x, %w, _, _)
const %"odd name": int64[2] = [2, -3]
"n 2": %z, _ = evoq::Thing(%y, %"odd name")
output %z
)";

TEST(GraphText, RoundTrip) {
  auto graph = ParseGraph(kText);
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_EQ(Print(*graph), kText);
  EXPECT_TRUE(graph->Verify());
}

TEST(GraphText, ErrorsNameTheLine) {
  auto graph = ParseGraph("input %x: float32[1]\nn: %y = Relu(%nothing)\n");
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().message(), "graph text, line 2, column 22: value %nothing is not defined above, found ')'");
}

TEST(Graph, SortFindsCycles) {
  Graph g;
  const ValueId a = g.AddValue("a"), b = g.AddValue("b");
  g.AddNode({.op = "Relu", .name = "first", .inputs = {b}, .outputs = {a}});
  g.AddNode({.op = "Relu", .name = "second", .inputs = {a}, .outputs = {b}});
  g.MarkOutput(b);
  const Status status = g.Sort();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message(), "node first (Relu) is part of a cycle, expected an acyclic graph");
}

TEST(Graph, SortPutsLateNodesWhereTheyBelong) {
  Graph g;
  const ValueId x = g.AddInput("x", TensorType(DType::kFloat32, Shape{1}));
  const ValueId a = g.Apply("Relu", "a", {x});
  const ValueId b = g.Apply("Relu", "b", {a});
  g.MarkOutput(b);
  const ValueId between = g.Apply("Neg", "between", {a});
  g.SetInput(g.FindNode("b"), 0, between);
  EXPECT_FALSE(g.Verify());
  ASSERT_TRUE(g.Sort());
  EXPECT_TRUE(g.Verify());
  EXPECT_EQ(g.node(g.order()[1]).name, "between");
}

TEST(Graph, ReplacingAnOutputKeepsItsName) {
  Graph g;
  const ValueId x = g.AddInput("x", TensorType(DType::kFloat32, Shape{1}));
  const ValueId a = g.Apply("Relu", "a", {x});
  const ValueId y = g.Apply("Identity", "y", {a});
  g.MarkOutput(y);
  g.ReplaceUses(y, a);
  EXPECT_EQ(g.RemoveDeadNodes(), 1);
  ASSERT_TRUE(g.Sort());
  EXPECT_EQ(g.value(g.outputs()[0]).name, "y");
  EXPECT_EQ(g.node(g.order()[0]).name, "a");
  EXPECT_TRUE(g.Verify());
}

// A value that many nodes read, which go in some order.
TEST(Graph, UsersFollowTheirNodes) {
  for (int step : {1, -1, 7}) {
    Graph g;
    const ValueId x = g.AddInput("x", TensorType(DType::kFloat32, Shape{1}));
    std::vector<NodeId> nodes;
    for (int i = 0; i < 50; ++i) nodes.push_back(g.value(g.Apply("Add", "n", {x, x})).producer);
    for (int i = 0; i < 49; ++i) g.RemoveNode(nodes[static_cast<size_t>((i * (step + 50)) % 50)]);
    ASSERT_EQ(g.value(x).users.size(), 2u);
    EXPECT_EQ(g.value(x).users[0], g.order()[0]);
    EXPECT_TRUE(g.Verify());
  }
}

TEST(Graph, CompactedDropsTheDead) {
  auto graph = ParseGraph("input %x: float32[1]\na: %a = Relu(%x)\nb: %b = Relu(%x)\noutput %a\n");
  ASSERT_TRUE(graph);
  EXPECT_EQ(graph->RemoveDeadNodes(), 1);
  const Graph compact = graph->Compacted();
  EXPECT_EQ(compact.value_count(), 2);
  EXPECT_EQ(Print(compact), Print(*graph));
}

}  // namespace
}  // namespace evoq
