// Mixtures of experts: experts are quantized as other products, what chooses them is not.
#include <gtest/gtest.h>

#include "quant/quant.h"
#include "reference/reference.h"

namespace evoq {
namespace {

constexpr char kMixture[] = R"(input %x: float32[N, 32]
const %r: float32[32, 16]
const %a: float32[32, 32]
const %b: float32[32, 32]
const %c: float32[32, 32]
const %k: int64[1] = [1]
const %axis: int64[1] = [1]
router: %raw = MatMul(%x, %r)
soft: %scores = Softmax(%raw)
top: %largest, %ids = TopK(%scores, %k)
rows: %rows = Unsqueeze(%x, %axis)
first: %ya = MatMul(%rows, %a)
second: %yb = MatMul(%rows, %b)
choose: %y = evoq::ChooseExpert(%ids, %ya, %yb)
other: %z = MatMul(%y, %c)
output %z
)";

// The names of products whose weights are quantized.
std::string Quantized(const std::string& text, const char* scheme) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph) << graph.error().message();
  if (!graph || !InferTypes(*graph)) return "?";
  EXPECT_TRUE(FindScheme(scheme)->run(*graph, {}, {}));
  std::string names;
  for (NodeId id : graph->order()) {
    const Node& node = graph->node(id);
    if (node.op == "MatMul" && graph->value(node.input(1)).type.quantized())
      names += (names.empty() ? "" : " ") + node.name;
  }
  return names;
}

TEST(Experts, RoutersStayFloat) {
  std::string plain = kMixture;
  // The same product, whose results choose nothing.
  plain.replace(plain.find("evoq::ChooseExpert(%ids, %ya, %yb)"), 34, "Add(%ya, %yb)");
  plain.replace(plain.find("output %z"), 9, "output %z\noutput %ids");
  for (const char* scheme : {"int8-weights", "int4-weights", "int4-dynamic"}) {
    SCOPED_TRACE(scheme);
    EXPECT_EQ(Quantized(kMixture, scheme), "first second other");
    EXPECT_EQ(Quantized(plain, scheme), "router first second other");
  }
}

}  // namespace
}  // namespace evoq
