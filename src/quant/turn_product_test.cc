// Products with a constant first operand, turned: the same numbers, and weights that every scheme
// makes narrow.
#include "quant/turn_product.h"

#include "quant/low_bits.h"
#include "quant/test_net.h"

namespace evoq {

extern const LowBits kInt4Bits;

namespace {

// 48 rows of 40: 21.8 multiply-accumulates for each element that moves.
const char kRows[] =
    "graph g\ninput %x: float32[2, 40, 50]\nconst %w: float32[48, 40]\n"
    "const %b: float32[48, 1]\n";

Graph NetOf(const std::string& nodes) { return MakeNet(kRows + nodes + "output %y\n", 1); }

Graph Turned(const Graph& whole, const char* name) {
  Graph graph = whole;
  const NodeId id = graph.FindNode(name);
  EXPECT_TRUE(IsTurnable(graph, graph.node(id), kWorkOfBytes));
  TurnProduct(graph, id);
  EXPECT_TRUE(graph.Sort());
  EXPECT_TRUE(InferTypes(graph));
  EXPECT_TRUE(graph.Verify());
  return graph;
}

int Count(const Graph& graph, const char* op) {
  return static_cast<int>(
      std::ranges::count_if(graph.order(), [&](NodeId id) { return graph.node(id).op == op; }));
}

TEST(TurnProduct, SaysTheSame) {
  struct Case {
    const char* nodes;
    int adds;  // left
  };
  for (const Case& c : {
           Case{"m: %y = MatMul(%w, %x)\n", 0},
           Case{"m: %y = MatMul{activation=\"Relu\"}(%w, %x)\n", 0},
           Case{"m: %p = MatMul(%w, %x)\na: %y = Add(%p, %b)\n", 0},
           Case{"m: %p = MatMul(%w, %x)\na: %y = Add{activation=\"Gelu\"}(%b, %p)\n", 0},
           // Added behind an activation; to a value that others read; more than a row's number.
           Case{"m: %p = MatMul{activation=\"Relu\"}(%w, %x)\na: %y = Add(%p, %b)\n", 1},
           Case{"m: %p = MatMul(%w, %x)\na: %q = Add(%p, %b)\nc: %y = Mul(%q, %p)\n", 1},
           Case{"m: %p = MatMul(%w, %x)\nconst %c: float32[1, 50]\na: %y = Add(%p, %c)\n", 1},
           Case{"m: %p = MatMul(%w, %x)\na: %y = Add(%p, %p)\n", 1},
       }) {
    SCOPED_TRACE(c.nodes);
    const Graph whole = NetOf(c.nodes), turned = Turned(whole, "m");
    EXPECT_EQ(Count(turned, "Transpose"), 2);
    EXPECT_EQ(Count(turned, "Add"), c.adds);
    EXPECT_EQ(turned.value(turned.outputs()[0]).type, whole.value(whole.outputs()[0]).type);
    EXPECT_NE(turned.ConstantInput(turned.node(turned.FindNode("m")), 1), nullptr);
    EXPECT_GT(Sqnr(whole, turned), 120);
  }
}

TEST(TurnProduct, OnlyLargeMatricesOfFloats) {
  const auto turnable = [](const std::string& text) {
    const Graph graph = MakeNet("graph g\n" + text + "output %y\n");
    return IsTurnable(graph, graph.node(graph.FindNode("m")), kWorkOfBytes);
  };
  const auto sized = [&](int m, int k) {
    return turnable(
        fmt::format("input %x: float32[{1}, 9]\nconst %w: float32[{0}, {1}]\n"
                    "m: %y = MatMul(%w, %x)\n",
                    m, k));
  };
  EXPECT_TRUE(sized(32, 32));
  EXPECT_FALSE(sized(32, 31));
  EXPECT_FALSE(sized(16, 4096));
  EXPECT_TRUE(sized(17, 4096));
  const std::string large = "input %x: float32[64, 9]\nconst %w: float32[64, 64]\n";
  EXPECT_FALSE(turnable(large + "input %u: float32[64, 64]\nm: %y = MatMul(%u, %x)\n"));
  EXPECT_FALSE(turnable(large + "const %b: float32[9]\nm: %y = MatMul(%w, %x, %b)\n"));
  EXPECT_FALSE(turnable(large + "input %r: float32[64, 9]\nm: %y = MatMul(%w, %x, _, %r)\n"));
  EXPECT_FALSE(turnable(large + "const %c: float32[64, 9]\nm: %y = MatMul(%w, %c)\n"));
  EXPECT_FALSE(turnable(large + "m: %y = Add(%w, %w)\n"));
  EXPECT_FALSE(
      turnable("input %x: float32[64]\nconst %w: float32[64, 64]\n"
               "m: %y = MatMul(%w, %x)\n"));
  EXPECT_FALSE(
      turnable("input %x: float32[2, 64, 9]\nconst %w: float32[2, 64, 64]\n"
               "m: %y = MatMul(%w, %x)\n"));
  EXPECT_FALSE(
      turnable("input %x: float64[64, 9]\nconst %w: float64[64, 64]\n"
               "m: %y = MatMul(%w, %x)\n"));
}

// Two products of one input share its Transpose; a value of the model that has the name does not
// stand for it.
TEST(TurnProduct, OneInputIsTurnedOnce) {
  Graph graph = NetOf("m: %p = MatMul(%w, %x)\nn: %q = MatMul(%w, %x)\na: %y = Add(%p, %q)\n");
  const Graph whole = graph;
  ASSERT_TRUE(TurnProducts(graph, {}, kWorkOfBytes));
  EXPECT_EQ(Count(graph, "Transpose"), 3);
  EXPECT_GT(Sqnr(whole, graph), 120);

  const Graph other = NetOf(
      "const %c: float32[2, 40, 50]\nt: %x.turned = Transpose{perm=[0, 2, 1]}(%c)\n"
      "m: %p = MatMul(%w, %x)\nn: %q = MatMul(%x.turned, %x)\ns: %s = Softmax(%q)\n"
      "o: %y = MatMul(%p, %s)\n");
  EXPECT_GT(Sqnr(other, Turned(other, "m")), 120);
}

// Bytes, with a scale of each row of w; with ranges of an older calibration, or where the node is
// excluded, it stays as it is.
TEST(TurnProduct, StaticQuantizationMultipliesBytes) {
  const Graph whole = NetOf(
      "m: %p = MatMul(%w, %x)\na: %q = Add(%p, %b)\n"
      "const %v: float32[50, 30]\nn: %y = MatMul(%q, %v)\n");
  const auto calibrated = Calibrate(whole, Reference(), RandomSamples(whole, 4), {});
  ASSERT_TRUE(calibrated) << calibrated.error().message();
  Ranges ranges = *calibrated;
  ASSERT_EQ(ranges.count("x.turned"), 1u);
  ASSERT_EQ(ranges.count("p.turned"), 1u);
  const auto quantized = [&](const QuantizeOptions& options) {
    Graph graph = whole;
    const auto report = QuantizeStatic(graph, ranges, options);
    EXPECT_TRUE(report) << report.error().message();
    return std::pair(graph, *report);
  };
  const auto [graph, report] = quantized({});
  EXPECT_EQ(report.nodes[Precision::kInt8], 3) << "the products and the Transpose between them";
  EXPECT_TRUE(report.float_reasons.empty());
  const Node& product = graph.node(graph.FindNode("m"));
  EXPECT_EQ(graph.value(product.input(1)).type.quant->scales.size(), 48u);
  EXPECT_TRUE(product.input(2).valid());
  EXPECT_GT(Sqnr(whole, graph), 35);

  QuantizeOptions excluded;
  excluded.exclude = {"m"};
  EXPECT_EQ(Count(quantized(excluded).first, "Transpose"), 0);
  ranges.erase("p.turned");
  const auto [old, old_report] = quantized({});
  EXPECT_EQ(Count(old, "Transpose"), 0);
  EXPECT_EQ(old_report.float_reasons.at("m").code, "constant-input");
}

// The other schemes turn what brings more products for each element.
TEST(TurnProduct, DynamicAndWeightsOnly) {
  const Graph large = MakeNet(
      "graph g\ninput %x: float32[130, 20]\nconst %w: float32[128, 130]\n"
      "m: %y = MatMul(%w, %x)\noutput %y\n",
      1);
  const auto check = [&](const char* what, const Graph& start, double sqnr, const auto& quantize) {
    SCOPED_TRACE(what);
    Graph graph = start;
    const Result<QuantizeReport> report = quantize(graph);
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_TRUE(report->float_reasons.empty());
    EXPECT_EQ(Count(graph, "Transpose"), 2);
    EXPECT_GT(Sqnr(start, graph), sqnr);
    for (NodeId id : graph.order()) {
      for (ValueId v : graph.node(id).inputs) {
        const Tensor* constant = v.valid() ? &graph.value(v).constant : nullptr;
        if (constant != nullptr && constant->dtype() == DType::kFloat32)
          EXPECT_LE(constant->elements(), 1500) << graph.value(v).name << ": scales alone";
      }
    }
  };
  check("dynamic", large, 35, [](Graph& graph) { return QuantizeDynamic(graph, {}); });
  check("weights", large, 35, [](Graph& graph) { return QuantizeWeights(graph, {}); });
  check("int4", large, 15,
        [](Graph& graph) { return QuantizeWeights(graph, {}, {.low_bits = &kInt4Bits}); });
  Graph small = NetOf("m: %y = MatMul(%w, %x)\n");
  ASSERT_TRUE(QuantizeWeights(small, {}));
  EXPECT_EQ(Count(small, "Transpose"), 0);
}

}  // namespace
}  // namespace evoq
