// Where a model is cut into blocks, and that the blocks one behind the other are the model.
#include "quant/blocks.h"

#include <gtest/gtest.h>

#include "quant/block_rounding.h"
#include "quant/test_net.h"

namespace evoq {
namespace {

std::vector<std::vector<std::string>> LayersOf(const std::vector<Block>& blocks) {
  std::vector<std::vector<std::string>> layers;
  for (const Block& block : blocks) layers.push_back(block.layers);
  return layers;
}

std::vector<Block> Cut(const Graph& net, const std::set<std::string>& layers, size_t least) {
  auto blocks = BlocksOf(net, layers, least);
  EXPECT_TRUE(blocks) << blocks.error().message();
  return std::move(*blocks);
}

// The outputs that each block gives, one block reading the other.
std::map<std::string, Tensor> RunAll(const std::vector<Block>& blocks,
                                     std::map<std::string, Tensor> values) {
  for (const Block& block : blocks) {
    std::vector<Tensor> inputs;
    for (ValueId v : block.graph.inputs()) inputs.push_back(values.at(block.graph.value(v).name));
    auto outputs = EvaluateGraph(block.graph, inputs);
    EXPECT_TRUE(outputs) << outputs.error().message();
    for (size_t i = 0; i < block.graph.outputs().size(); ++i)
      values[block.graph.value(block.graph.outputs()[i]).name] = (*outputs)[i];
  }
  return values;
}

TEST(Blocks, AreCutWhereOneValueCarriesAll) {
  const Graph net = MakeNet(kConvNet);
  const std::set<std::string> layers = {"stem", "depthwise", "project", "last", "classes"};
  // %s is read by two: no cut between depthwise and project, and the one behind the stem comes
  // before anything else reads it.
  using Names = std::vector<std::vector<std::string>>;
  EXPECT_EQ(LayersOf(Cut(net, layers, 1)),
            (Names{{"stem"}, {"depthwise", "project"}, {"last"}, {"classes"}}));
  EXPECT_EQ(LayersOf(Cut(net, layers, 3)),
            (Names{{"stem", "depthwise", "project"}, {"last", "classes"}}));
  for (const size_t least : {1, 2, 3, 9}) {
    const std::vector<Block> blocks = Cut(net, layers, least);
    const Tensor input = RandomInput(net, 3);
    const auto values = RunAll(blocks, {{"x", input}});
    const auto wanted = EvaluateGraph(net, std::span(&input, 1));
    ASSERT_TRUE(wanted);
    EXPECT_TRUE(BitEqual(values.at("c"), (*wanted)[0])) << least;
    EXPECT_EQ(blocks[0].carried, "");
  }
}

// What depends on no layer is an input of every block that reads it; outputs on the way stay
// outputs; a block is not cut where integers are all that is carried.
TEST(Blocks, SidesAndOutputs) {
  const Graph net = MakeNet(R"(graph sides
input %x: float32[1, 4, 8]
input %mask: float32[1, 4, 1]
const %two: float32[1] = [2]
twice: %m: float32[1, 4, 1] = Mul(%mask, %two)
const %w1: float32[8, 8]
const %w2: float32[8, 8]
const %w3: float32[8, 8]
a: %a: float32[1, 4, 8] = MatMul(%x, %w1)
am: %am: float32[1, 4, 8] = Mul(%a, %m)
b: %b: float32[1, 4, 8] = MatMul(%am, %w2)
bm: %bm: float32[1, 4, 8] = Mul(%b, %m)
kept: %k: float32[1, 4, 8] = Relu(%bm)
c: %c: float32[1, 4, 8] = MatMul(%bm, %w3)
top: %t: int64[1, 4] = ArgMax{axis=2, keepdims=0}(%c)
real: %r: float32[1, 4] = Cast{to=1}(%t)
output %k
output %r
)");
  const std::vector<Block> blocks = Cut(net, {"a", "b", "c"}, 1);
  ASSERT_EQ(blocks.size(), 4u);  // the last one behind the layers
  EXPECT_EQ(blocks[1].carried, "a");
  EXPECT_TRUE(blocks[0].graph.FindValue("m").index < 0);
  EXPECT_TRUE(blocks[1].graph.IsInput(blocks[1].graph.FindValue("m")));
  EXPECT_TRUE(blocks[3].layers.empty());
  EXPECT_EQ(blocks[3].carried, "c");
  std::map<std::string, Tensor> values{{"x", RandomInput(net, 1)}};
  const Tensor mask = Tensor::FromValues<float>(Shape{1, 4, 1}, {1, 0, 1, 0.5f});
  values["m"] = Tensor::FromValues<float>(Shape{1, 4, 1}, {2, 0, 2, 1});
  const std::vector<Tensor> inputs = {values["x"], mask};
  const auto wanted = EvaluateGraph(net, inputs);
  ASSERT_TRUE(wanted) << wanted.error().message();
  values = RunAll(blocks, values);
  EXPECT_TRUE(BitEqual(values.at("k"), (*wanted)[0]));
  EXPECT_TRUE(BitEqual(values.at("r"), (*wanted)[1]));
}

TEST(JoinedOutputs, IsOneRowOfPlainOperators) {
  const Graph net = MakeNet(kConvNet);
  const Block block = Cut(net, {"stem", "depthwise", "project", "last", "classes"}, 3)[0];
  const JoinedOutputs joined{.outputs = {0, 0}, .factors = {2, -0.5f}};
  auto graph = joined.GraphOf(block.graph, {}, {{"x", {1, 3, 12, 12}}});
  ASSERT_TRUE(graph) << graph.error().message();
  for (NodeId id : graph->order()) {
    EXPECT_FALSE(graph->node(id).attrs.Has("activation")) << graph->node(id).name;
    EXPECT_FALSE(graph->node(id).input(3).valid()) << graph->node(id).name;
  }
  const Tensor input = RandomInput(net, 3);
  const auto plain = EvaluateGraph(*graph, std::span(&input, 1));
  const auto fused = EvaluateGraph(block.graph, std::span(&input, 1));
  ASSERT_TRUE(plain) << plain.error().message();
  ASSERT_TRUE(fused);
  const Tensor wanted = joined.Of(*fused);
  ASSERT_EQ((*plain)[0].sizes(), wanted.sizes());
  for (int64_t i = 0; i < wanted.elements(); ++i)
    ASSERT_NEAR((*plain)[0].data<float>()[i], wanted.data<float>()[i], 1e-4) << i;
}

}  // namespace
}  // namespace evoq
