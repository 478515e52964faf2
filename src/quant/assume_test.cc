// Ranges without data, against figures of another program: with F the fraction that FNV-1a of the
// name, times 0x9E3779B97F4A7C15, has in its 24 upper bits, a value ends at 2^(4 F(name) - 1),
// begins at 0 or at -(0.85 + 0.14 F(name + "-")) of that, and channel c reaches 2^(-2.3 F(name/c))
// of it.
#include "quant/assume.h"

#include <set>
#include <string>

#include "quant/test_net.h"

namespace evoq {
namespace {

std::set<std::string> Names(const Ranges& ranges) {
  std::set<std::string> names;
  for (const auto& [name, range] : ranges) names.insert(name);
  return names;
}

TEST(AssumedRanges, FiguresOfAnotherProgram) {
  const Graph graph = MakeNet(
      "graph g\ninput %x: float32[1, 2, 3, 3]\ninput %i: int64[2]\nconst %w: float32[2, 2, 1, "
      "1]\nc: %v = Conv{activation=\"Relu\"}(%x, %w)\nd: %y = Conv(%v, %w)\ns: %n = "
      "Shape(%v)\noutput %y\noutput %n\n");
  const Ranges ranges = AssumedRanges(graph);
  EXPECT_EQ(Names(ranges), (std::set<std::string>{"v", "v.linear", "v.product", "x", "x.linear",
                                                  "x.product", "y", "y.linear", "y.product"}));
  const auto expect = [&](const char* name, double min, double max) {
    EXPECT_NEAR(ranges.at(name).min, min, 1e-5) << name;
    EXPECT_NEAR(ranges.at(name).max, max, 1e-5) << name;
  };
  expect("x", -4.03809767, 4.24621128);
  expect("v", 0, 1.57629575);
  expect("y", -2.63219823, 2.9144273);
  expect("x.linear", -1.57185403, 1.63780097);
  expect("x.product", -1.4529979, 1.47218316);
  expect("v.linear", -1.87647409, 2.14366404);
  expect("v.product", -1.36355928, 1.56434616);
  // Channels of what linear operators read: means of 0.05 of their ends, of 0.25 where the value is
  // never negative.
  ASSERT_EQ(ranges.at("x").channel_max.size(), 2);
  EXPECT_NEAR(ranges.at("x").channel_max[0], 1.76162182, 1e-5);
  EXPECT_NEAR(ranges.at("x").channel_max[1], 1.41882838, 1e-5);
  EXPECT_NEAR(ranges.at("x").channel_means[0], 0.05 * 1.76162182, 1e-6);
  EXPECT_NEAR(ranges.at("x").channel_means[1], 0.05 * 1.41882838, 1e-6);
  ASSERT_EQ(ranges.at("v").channel_max.size(), 2);
  EXPECT_NEAR(ranges.at("v").channel_max[0], 0.609341988, 1e-6);
  EXPECT_NEAR(ranges.at("v").channel_means[1], 0.25 * 0.49077032, 1e-6);
  EXPECT_TRUE(ranges.at("y").channel_max.empty());
}

// Within an Attention too, so that plans multiply the bytes that quantization will.
TEST(AssumedRanges, PartsOfAnAttention) {
  Graph graph = MakeNet(
      "graph g\ninput %x: float32[1, 2, 8, 4]\natt: %y = Attention(%x, %x, %x)\noutput %y\n");
  const Ranges ranges = AssumedRanges(graph);
  for (const char* name : {"att.products", "att.scores", "att.weights", "y"})
    EXPECT_TRUE(ranges.count(name)) << name;
  EXPECT_EQ(ranges.at("att.weights").min, 0);
  ASSERT_TRUE(QuantizeStatic(graph, ranges, {}));
  EXPECT_EQ(graph.node(graph.FindNode("att")).op, "MatMul");
}

// Operators whose results are never negative, as nodes and as activations; channels of products are
// their last axis; a channel axis of unknown size has no statistics.
TEST(AssumedRanges, BeginningsAndChannels) {
  const auto of = [](const std::string& node, const char* input = "float32[2, 3]") {
    return AssumedRanges(MakeNet(fmt::format(
        "graph g\ninput %x: {}\nconst %w: float32[3, 2]\nn: %y = {}\noutput %y\n", input, node)));
  };
  for (const char* op :
       {"Relu", "Sigmoid", "HardSigmoid", "Softmax", "Clip", "Abs", "Exp", "Softplus", "Sqrt"})
    EXPECT_EQ(of(fmt::format("{}(%x)", op)).at("y").min, 0) << op;
  EXPECT_LT(of("Tanh(%x)").at("y").min, 0);
  EXPECT_LT(of("MatMul{activation=\"Tanh\"}(%x, %w)").at("y").min, 0);
  EXPECT_EQ(of("MatMul{activation=\"Sigmoid\"}(%x, %w)").at("y").min, 0);
  EXPECT_EQ(of("MatMul(%x, %w)").at("x").channel_max.size(), 3);
  EXPECT_TRUE(of("MatMul(%x, %w)", "float32[2, K]").at("x").channel_max.empty());
  EXPECT_TRUE(of("Relu(%x)").at("x").channel_max.empty());
}

}  // namespace
}  // namespace evoq
