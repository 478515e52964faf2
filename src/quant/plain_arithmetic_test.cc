// Differences and quotients of constants, as sums and products that integer kernels compute.
#include "quant/plain_arithmetic.h"

#include "quant/test_net.h"

namespace evoq {
namespace {

// Vocoders divide the mean of several branches; its readers go on with integers.
Graph Branches(const std::string& operand, const std::string& between) {
  return MakeNet(
      "graph g\ninput %x: float32[1, 8, 32]\nconst %v: float32[8, 8, 3]\n"
      "const %w: float32[8, 8, 3]\n" +
      operand +
      "a: %a = Conv{activation=\"Relu\", pads=[1, 1]}(%x, %v)\n"
      "s: %s = Add(%a, %a)\n" +
      between + "b: %y = Conv{pads=[1, 1]}(%d, %w)\noutput %y\n");
}

Graph Quantized(const Graph& whole, const QuantizeOptions& options = {}) {
  const auto ranges = Calibrate(whole, Reference(), RandomSamples(whole, 4), {});
  EXPECT_TRUE(ranges) << (ranges ? "" : ranges.error().message());
  Graph graph = whole;
  const auto report = QuantizeStatic(graph, *ranges, options);
  EXPECT_TRUE(report) << (report ? "" : report.error().message());
  return graph;
}

TEST(PlainArithmetic, ConstantsLetIntegersThrough) {
  struct Case {
    const char *operand, *between, *op;
  };
  for (const Case& c : {
           Case{"const %k: float32[] = [3.0]\n", "d: %d = Div(%s, %k)\n", "Mul"},
           Case{"const %k: float32[] = [0.7]\n", "d: %d = Sub(%s, %k)\n", "Add"},
       }) {
    SCOPED_TRACE(c.between);
    const Graph whole = Branches(c.operand, c.between), integers = Quantized(whole);
    const Node& node = integers.node(integers.FindNode("d"));
    EXPECT_EQ(node.op, c.op);
    EXPECT_TRUE(integers.value(node.outputs[0]).type.quantized()) << Print(integers);
    EXPECT_GT(Sqnr(whole, integers), 30);
  }
}

TEST(PlainArithmetic, FloatStepsStayAsTheyAre) {
  for (const char* between : {
           "const %k: float32[] = [0.0]\nd: %d = Div(%s, %k)\n",    // no reciprocal
           "const %k: float32[] = [1e-40]\nd: %d = Div(%s, %k)\n",  // 1e40 is none
           "const %k: float32[] = [3.0]\nd: %d = Div(%k, %s)\n",    // the constant is divided
           "d: %d = Sub(%s, %x)\n",                                 // no constant
       }) {
    const Graph whole = Branches("", between);
    Graph graph = whole;
    EXPECT_TRUE(MakeArithmeticPlain(graph).empty()) << between;
  }
  // So do those that options keep.
  const Graph branches = Branches("const %k: float32[] = [3.0]\n", "d: %d = Div(%s, %k)\n");
  const Graph kept = Quantized(branches, {.exclude = {"d"}});
  EXPECT_EQ(kept.node(kept.FindNode("d")).op, "Div");
  // Nothing integer stands before it: as it was, with its constant.
  const Graph whole = MakeNet(
      "graph g\ninput %x: float32[1, 8, 32]\nconst %v: float32[8, 8, 3]\n"
      "const %k: float32[] = [3.0]\nd: %d = Div(%x, %k)\n"
      "a: %y = Conv{pads=[1, 1]}(%d, %v)\noutput %y\n");
  const Graph integers = Quantized(whole);
  EXPECT_EQ(integers.node(integers.FindNode("d")).op, "Div");
}

}  // namespace
}  // namespace evoq
