// Which products stay real because the logarithm of their results is taken.
#include "quant/logarithm.h"

#include "quant/test_net.h"

namespace evoq {
namespace {

constexpr char kNet[] =
    "graph g\ninput %x: float32[1, 8, 16]\nconst %w: float32[16, 16]\nconst %v: float32[16, 16]\n"
    "const %two: float32[] = [2.0]\nconst %least: float32[] = [1e-10]\n";

bool Kept(const std::string& nodes) {
  const Graph graph = MakeNet(kNet + nodes + "output %y\n");
  return LogarithmReason(graph, graph.node(graph.FindNode("m"))).has_value();
}

TEST(Logarithm, OfWhatFollows) {
  EXPECT_TRUE(Kept("m: %a = MatMul(%x, %w)\nl: %y = Log(%a)\n"));
  EXPECT_TRUE(
      Kept("m: %a = MatMul{activation=\"Relu\"}(%x, %w)\nc: %b = Add(%a, %least)\n"
           "t: %t = Transpose{perm=[0, 2, 1]}(%b)\nl: %y = Log(%t)\n"));
  // A spectrum by products: its squares pass the bank of filters.
  EXPECT_TRUE(
      Kept("m: %a = MatMul(%x, %v)\np: %b = Pow(%a, %two)\nf: %c = MatMul(%b, %w)\n"
           "b: %d = Max(%c, %least)\nl: %y = Log(%d)\n"));
  EXPECT_TRUE(
      Kept("m: %a = MatMul(%x, %v)\np: %b = Mul(%a, %a)\nf: %c = MatMul(%b, %w)\n"
           "l: %y = Log(%c)\n"));
}

TEST(Logarithm, OtherProductsAreIntegers) {
  EXPECT_FALSE(Kept("m: %y = MatMul(%x, %w)\n"));
  // Layers one behind the other: of the last alone.
  EXPECT_FALSE(
      Kept("m: %a = MatMul{activation=\"Relu\"}(%x, %v)\nf: %c = MatMul(%a, %w)\n"
           "l: %y = Log(%c)\n"));
  // Probabilities, whose logarithm is a difference of the product's results.
  EXPECT_FALSE(Kept("m: %a = MatMul(%x, %w)\ns: %b = Softmax(%a)\nl: %y = Log(%b)\n"));
  EXPECT_FALSE(Kept("m: %a = MatMul{activation=\"Sigmoid\"}(%x, %w)\nl: %y = Log(%a)\n"));
  EXPECT_FALSE(Kept("m: %a = MatMul(%x, %w)\ne: %b = Exp(%a)\nl: %y = Log(%b)\n"));
  // Behind the second product of powers.
  EXPECT_FALSE(
      Kept("m: %a = MatMul(%x, %v)\np: %b = Mul(%a, %a)\nf: %c = MatMul(%b, %w)\n"
           "g: %d = MatMul(%c, %w)\nl: %y = Log(%d)\n"));
}

// Filters over powers from 1e-6 to 1e2: 8 bits leave nothing of the small ones.
TEST(Logarithm, SmallValuesStay) {
  const Graph net = MakeNet(
      "graph g\ninput %x: float32[1, 8, 16]\nconst %w: float32[16, 16]\nconst %up: float32[16, "
      "16]\na: %a = MatMul(%x, %up)\ne: %p = Exp(%a)\nconst %s: float32[16, 16]\n"
      "m: %f = MatMul(%p, %w)\nsq: %q = Mul(%f, %f)\nf2: %c = MatMul(%q, %s)\nab: %d = Abs(%c)\n"
      "l: %y = Log(%d)\noutput %y\n",
      1.0f);
  const auto ranges = Calibrate(net, Reference(), RandomSamples(net, 4), {});
  ASSERT_TRUE(ranges) << ranges.error().message();
  Graph integers = net;
  ASSERT_TRUE(QuantizeStatic(integers, *ranges, {}));
  for (const char* name : {"m", "f2"}) {
    const Node& node = integers.node(integers.FindNode(name));
    EXPECT_FALSE(integers.value(node.input(0)).type.quantized()) << name;
    EXPECT_EQ(node.attrs.String("evoq.float_reason").substr(0, 10), "logarithm:") << name;
  }
  EXPECT_TRUE(integers.value(integers.node(integers.FindNode("a")).input(0)).type.quantized());
  Graph dynamic = net;
  ASSERT_TRUE(QuantizeDynamic(dynamic, {}));
  EXPECT_EQ(dynamic.node(dynamic.FindNode("m")).op, "MatMul");
}

}  // namespace
}  // namespace evoq
