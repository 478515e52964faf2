#include "parity/cut.h"

#include <gtest/gtest.h>

#include "reference/reference.h"

namespace evoq {
namespace {

// y = (x + 1) * 2, z = y * y + x
constexpr char kText[] = R"(graph net
input %x: float32[2]
const %one: float32[1] = [1]
const %two: float32[1] = [2]
add: %a: float32[2] = Add(%x, %one)
twice: %y: float32[2] = Mul(%a, %two)
square: %s: float32[2] = Mul(%y, %y)
sum: %z: float32[2] = Add(%s, %x)
output %z
)";

Graph Net() {
  auto graph = ParseGraph(kText);
  EXPECT_TRUE(graph) << graph.error().message();
  EXPECT_TRUE(InferTypes(*graph));
  return std::move(*graph);
}

std::vector<ValueId> Named(const Graph& graph, const std::vector<std::string>& names) {
  std::vector<ValueId> values;
  for (const std::string& name : names) values.push_back(graph.FindValue(name));
  return values;
}

float First(const Tensor& t) { return t.values<float>()[0]; }

TEST(Cut, RealValuesAreWhatNodesCompute) {
  const Graph graph = Net();
  EXPECT_EQ(RealValues(graph), Named(graph, {"a", "y", "s", "z"}));
}

TEST(Cut, TappedValuesAreOutputs) {
  const Graph graph = Net();
  const TappedGraph tapped = Tap(graph, Named(graph, {"y", "z"}));
  const Tensor x = Tensor::FromValues<float>(Shape{2}, {3, 0});
  const auto outputs = EvaluateGraph(tapped.graph, std::span(&x, 1));
  ASSERT_TRUE(outputs) << outputs.error().message();
  ASSERT_EQ(tapped.outputs.size(), 2u);
  EXPECT_EQ(First((*outputs)[tapped.outputs[0]]), 8);
  EXPECT_EQ(First((*outputs)[tapped.outputs[1]]), 67);
}

TEST(Cut, StretchesComputeOnWhatTheyAreGiven) {
  const Graph graph = Net();
  const auto cut = CutAt(graph, Named(graph, {"y", "z"}));
  ASSERT_TRUE(cut) << cut.error().message();
  EXPECT_TRUE(cut->graph.Verify());
  // Nobody reads z: it needs no input.
  EXPECT_EQ(cut->givens, (std::vector<int>{1, -1}));
  const std::vector<Tensor> given = {Tensor::FromValues<float>(Shape{2}, {3, 0}),
                                     Tensor::FromValues<float>(Shape{2}, {10, 0})};
  const auto outputs = EvaluateGraph(cut->graph, given);
  ASSERT_TRUE(outputs) << outputs.error().message();
  EXPECT_EQ(First((*outputs)[cut->outputs[0]]), 8);        // of x
  EXPECT_EQ(First((*outputs)[cut->outputs[1]]), 100 + 3);  // of the y that was given, and x
}

TEST(Cut, StretchesSayWhatTheyRead) {
  const Graph graph = Net();
  const std::vector<StretchBefore> stretches = Stretches(graph, Named(graph, {"a", "y", "z"}));
  ASSERT_EQ(stretches.size(), 3u);
  EXPECT_TRUE(stretches[0].reads.empty());
  EXPECT_EQ(stretches[1].reads, std::vector<size_t>{0});
  EXPECT_EQ(stretches[2].reads, std::vector<size_t>{1});
  EXPECT_EQ(stretches[0].nodes, 1);
  EXPECT_EQ(stretches[2].nodes, 2);
}

}  // namespace
}  // namespace evoq
