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

// Every digit of whole numbers, also where a double has fewer; floats to the last bit.
TEST(GraphText, NumbersRoundTrip) {
  constexpr char kNumbers[] =
      R"(input %x: uint8[inf, 9223372036854775807](scale 1.1754944e-38, zero -2147483648)
const %c: int64[3] = [-9223372036854775808, 9223372036854775807, 9007199254740993]
const %f: float32[6] = [0.1, -0.0, 3.4028235e+38, 1e-45, -inf, nan]
const %b: bool[2] = [0, 1]
n: %n = Thing{a=9223372036854775807, b=[-9223372036854775808, 9007199254740993]}(%x, %c, %f, %b)
m: %y = Thing{c=[0.1, inf], d=-0.0}(%n)
output %y
)";
  const auto graph = ParseGraph(kNumbers);
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_EQ(Print(*graph), kNumbers);
  EXPECT_EQ(graph->value(graph->FindValue("c")).constant.data<int64_t>()[2], 9007199254740993);
  EXPECT_EQ(graph->value(graph->FindValue("x")).type.shape[0].symbol, "inf");
}

// Subgraphs follow their node, each from a line that begins a graph on, named or not.
TEST(GraphText, SubgraphsRoundTrip) {
  constexpr char kBranches[] = R"(graph outer
input %c: bool[]
input %x: float32[2]
if: %y: float32[2] = If(%c, %x)
| graph body
| input %a: float32[2]
| r: %b: float32[2] = Relu(%a)
| output %b
| graph body
| input %a: float32[2]
| n: %b: float32[2] = Neg(%a)
| output %b
output %y
)";
  const auto graph = ParseGraph(kBranches);
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_EQ(Print(*graph), kBranches);
  Graph unnamed;
  Node node;
  node.name = node.op = "If";
  for (int i = 0; i < 2; ++i) node.bodies.push_back(std::make_shared<const Graph>());
  unnamed.AddNode(std::move(node));
  const auto again = ParseGraph(Print(unnamed));
  ASSERT_TRUE(again) << again.error().message() << "\n" << Print(unnamed);
  EXPECT_EQ(again->node(again->order()[0]).bodies.size(), 2u) << Print(unnamed);
}

// A line behind a good first one; where it stops being understood, and what is said there.
TEST(GraphText, ErrorsNameThePlace) {
  struct Case {
    const char* line;
    int column;
    const char* what;
  };
  constexpr Case kCases[] = {
      {"n: %y = Relu(%nothing)", 22, "value %nothing is not defined above, found ')'"},
      {"n: %y = Relu %x)", 14, "expected '(', found '%x)'"},
      {"n: %y = Relu(%x %x)", 17, "expected ',', found '%x)'"},
      {"n: %y = Relu(x)", 14, "expected '%', found 'x)'"},
      {"n: %y = (%x)", 9, "expected a name, found '(%x)'"},
      {"n %y = Relu(%x)", 3, "expected ':', found '%y = Relu(%x)'"},
      {"n: %y %z = Split(%x)", 7, "expected ',', found '%z = Split(%x)'"},
      {"n: y = Relu(%x)", 4, "expected '%', found 'y = Relu(%x)'"},
      {"n: %x = Relu(%x)", 7, "value %x is defined twice, found '= Relu(%x)'"},
      {"n: %y = Relu{a=1 b=2}(%x)", 18, "expected ',', found 'b=2}(%x)'"},
      {"n: %y = Relu{a 1}(%x)", 16, "expected '=', found '1}(%x)'"},
      {"n: %y = Relu{a=b}(%x)", 16, "expected a number, found 'b}(%x)'"},
      {"n: %y = Relu{a=[1 2]}(%x)", 19, "expected ',', found '2]}(%x)'"},
      {"n: %y = Relu{a=[\"s\" \"t\"]}(%x)", 21, "expected ',', found '\"t\"]}(%x)'"},
      {"n: %y = Relu{a=\"s}(%x)", 23, "expected a closing quote, found ''"},
      {"n: %y = Relu{a=\"\\xg0\"}(%x)", 17,
       "expected two hexadecimal digits, found '\\xg0\"}(%x)'"},
      {"n: %y = Relu{a=<int8[2]}(%x)", 24, "expected '>', found '}(%x)'"},
      {"n: %y = Relu{a=<int8[N]>}(%x)", 25, "expected a small static type, found '}(%x)'"},
      {"input %z float32[1]", 10, "expected ':', found 'float32[1]'"},
      {"input %z: float33[1]", 18, "'float33' is no element type, found '[1]'"},
      {"input %z: float32", 18, "expected '[', found ''"},
      {"input %z: float32[... 1]", 23, "expected ']', found '1]'"},
      {"input %z: float32[1 2]", 21, "expected ',', found '2]'"},
      {"input %z: uint8[1](scale 1 zero 2)", 28, "expected ', zero', found 'zero 2)'"},
      {"input %z: uint8[1](scale 1, zero 2", 35, "expected ')', found ''"},
      {"input %z: uint8[1](1 scale on axis 0)", 22,
       "expected 'scales on axis', found 'scale on axis 0)'"},
      {"input %z: uint8[1](0 scales on axis 0)", 38, "expected 1 to 1048576 scales, found ')'"},
      {"input %x: float32[1]", 21, "value %x is defined twice, found ''"},
      {"const %c: float32[N]", 21,
       "expected a constant with a static type of at most 256 MiB, found ''"},
      {"const %c: int64[2] = 1, 2", 22, "expected '[', found '1, 2'"},
      {"const %c: int64[2] = [1 2]", 25, "expected ',', found '2]'"},
      {"const %c: int64[2] = [1]", 25, "1 values, expected 2, found ''"},
      {"const %c: int64[1] = [9223372036854775808]", 23,
       "expected a number, found '9223372036854775808]'"},
      {"const %c: int64[1] = [1e18]", 23,
       "expected a whole number from -9223372036854775808 to 9223372036854775807, found '1e18]'"},
      {"const %c: uint8[2] = [255, -1]", 28, "expected a whole number from 0 to 255, found '-1]'"},
      {"const %c: bool[1] = [256]", 22, "expected a whole number from 0 to 255, found '256]'"},
      {"input %z: uint8[1](scale 1, zero 3000000000)", 34,
       "expected a whole number from -2147483648 to 2147483647, found '3000000000)'"},
      {"input %z: uint8[1](scale 1, zero nan)", 34,
       "expected a whole number from -2147483648 to 2147483647, found 'nan)'"},
      {"const %c: float16[1] = [1]", 25, "values of float16 cannot be written as text, found '1]'"},
      {"output _", 9, "expected a value, found ''"},
  };
  for (const Case& c : kCases) {
    const auto graph = ParseGraph(fmt::format("input %x: float32[1]\n{}\n", c.line));
    ASSERT_FALSE(graph) << c.line;
    EXPECT_EQ(graph.error().message(),
              fmt::format("graph text, line 2, column {}: {}", c.column, c.what))
        << c.line;
  }
}

TEST(Graph, SortFindsCycles) {
  Graph g;
  const ValueId a = g.AddValue("a"), b = g.AddValue("b");
  g.AddNode({.op = "Relu", .name = "first", .inputs = {b}, .outputs = {a}});
  g.AddNode({.op = "Relu", .name = "second", .inputs = {a}, .outputs = {b}});
  g.MarkOutput(b);
  const Status status = g.Sort();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message(),
            "node first (Relu) is part of a cycle, expected an acyclic graph");
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
