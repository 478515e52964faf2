// Attention as two products and a Softmax: the same numbers, and integers where it is calibrated.
#include "quant/test_net.h"
#include "quant/unfuse.h"

namespace evoq {
namespace {

// Queries of 5, keys of 7 places, by heads or flat; `rest` is what follows the three inputs.
std::string NetOf(bool flat, const std::string& attrs, const std::string& rest = "") {
  const auto sizes = [flat](int length) {
    return flat ? fmt::format("2, {}, 12", length) : fmt::format("2, 3, {}, 4", length);
  };
  return fmt::format(
      "graph g\ninput %x: float32[{0}]\nconst %k: float32[{1}]\nconst %v: float32[{1}]\n"
      "const %bias: float32[5, 7]\nconst %kept: bool[2, 1, 1, 7] = [1, 1, 1, 1, 1, "
      "0, 0, 1, 0, 1, 1, 1, 1, 1]\n"
      "const %past: float32[2, 3, 2, 4]\n"
      "att: %y = Attention{{{2}{3}}}(%x, %k, %v{4})\noutput %y\n",
      sizes(5), sizes(7), flat ? "q_num_heads=3, kv_num_heads=3" : "softcap=0.0", attrs, rest);
}

TEST(SplitAttention, SaysTheSame) {
  for (const bool flat : {false, true}) {
    for (const char* rest : {"", ", %bias", ", %kept"}) {
      for (const char* attrs : {"", ", scale=0.3", ", scale=1.0"}) {
        SCOPED_TRACE(fmt::format("flat {} mask {} attrs {}", flat, rest, attrs));
        const Graph whole = MakeNet(NetOf(flat, attrs, rest), 1);
        Graph split = whole;
        const NodeId id = split.FindNode("att");
        ASSERT_TRUE(IsPlainAttention(split, split.node(id)));
        SplitAttention(split, id);
        ASSERT_TRUE(split.Sort());
        const Status inferred = InferTypes(split);
        ASSERT_TRUE(inferred) << inferred.error().message();
        ASSERT_TRUE(split.Verify());
        EXPECT_EQ(split.node(split.FindNode("att")).op, "MatMul");
        EXPECT_EQ(split.value(split.outputs()[0]).type, whole.value(whole.outputs()[0]).type);
        EXPECT_GT(Sqnr(whole, split), 120);
      }
    }
  }
}

TEST(SplitAttention, OnlyWhatTwoProductsSay) {
  const auto plain = [](const std::string& text) {
    const Graph graph = MakeNet(text);
    return IsPlainAttention(graph, graph.node(graph.FindNode("att")));
  };
  EXPECT_TRUE(plain(NetOf(false, "")));
  for (const char* attrs : {", is_causal=1", ", left_window_size=2", ", right_window_size=1"})
    EXPECT_FALSE(plain(NetOf(true, attrs))) << attrs;
  EXPECT_FALSE(
      plain("graph g\ninput %x: float32[1, 2, 3, 4]\n"
            "att: %y = Attention{softcap=2.0}(%x, %x, %x)\noutput %y\n"));
  EXPECT_FALSE(plain(NetOf(false, "", ", _, %past, %past")));
  EXPECT_FALSE(
      plain("graph g\ninput %x: float32[1, 4, 3, 4]\nconst %k: float32[1, 2, 3, 4]\n"
            "att: %y = Attention(%x, %k, %k)\noutput %y\n"))
      << "groups of heads";
  EXPECT_FALSE(
      plain("graph g\ninput %x: float32[1, 2, 3, 4]\nconst %m: float32[2]\n"
            "att: %y = Attention(%x, %x, %x, %m)\noutput %y\n"))
      << "a mask of fewer keys";
  const auto large = [&](int64_t keys) {
    return plain(
        fmt::format("graph g\ninput %x: float32[1, 4, 4096, 4]\ninput %k: float32[1, 4, "
                    "{}, 4]\natt: %y = Attention(%x, %k, %k)\noutput %y\n",
                    keys));
  };
  EXPECT_TRUE(large(4096));
  EXPECT_FALSE(large(4097)) << "more scores than a calibration holds";
}

// Products, and only with the ranges that a calibration of this version finds; what is excluded
// stays one operator.
TEST(SplitAttention, StaticQuantizationMultipliesBytes) {
  const Graph whole = MakeNet(
      "graph g\ninput %x: float32[1, 40, 32]\nconst %w: float32[32, 32]\n"
      "q: %q = MatMul(%x, %w)\nk: %k = MatMul(%x, %w)\nv: %v = MatMul(%x, %w)\n"
      "att: %a = Attention{q_num_heads=2, kv_num_heads=2}(%q, %k, %v)\n"
      "out: %y = MatMul(%a, %w)\noutput %y\n",
      0.2f);
  const auto ranges = Calibrate(whole, Reference(), RandomSamples(whole, 4), {});
  ASSERT_TRUE(ranges) << ranges.error().message();
  ASSERT_TRUE(ranges->count("att.weights"));
  const auto ops = [](const Graph& graph) {
    std::map<std::string, int> counts;
    for (NodeId id : graph.order()) ++counts[graph.node(id).op];
    return counts;
  };
  Graph quantized = whole;
  ASSERT_TRUE(QuantizeStatic(quantized, *ranges, {}));
  EXPECT_EQ(ops(quantized)["Attention"], 0);
  for (const char* product : {"att.products", "att"}) {
    const Node& node = quantized.node(quantized.FindNode(product));
    for (size_t i : {0, 1}) EXPECT_TRUE(quantized.value(node.input(i)).type.quantized()) << product;
  }
  EXPECT_GT(Sqnr(whole, quantized), 25);
  Graph excluded = whole;
  QuantizeOptions options;
  options.exclude = {"att"};
  ASSERT_TRUE(QuantizeStatic(excluded, *ranges, options));
  EXPECT_EQ(ops(excluded)["Attention"], 1);
  Ranges older = *ranges;
  older.erase("att.weights");
  Graph kept = whole;
  ASSERT_TRUE(QuantizeStatic(kept, older, {}));
  EXPECT_EQ(ops(kept)["Attention"], 1);
}

}  // namespace
}  // namespace evoq
