// Which operators follow into bfloat16, and which of their inputs.
#include "quant/bf16.h"

#include <gtest/gtest.h>

#include "quant/test_net.h"

namespace evoq {
namespace {

// The types of n's inputs ("-": none) and of its first output, between two products: n reads %a,
// which is bfloat16, and what it gives is read by a product.
std::string TypesOf(const std::string& node, const std::string& outputs = "%n") {
  Graph graph = MakeNet(
      "graph g\ninput %x: float32[4, 4]\ninput %y: float32[4, 4]\nconst %w: float32[4, 4]\nconst "
      "%s: float32[4]\nconst %b: float32[4]\nconst %axis: "
      "int64[1] = [1]\na: %a = MatMul(%x, %w)\ne: %e = Erf(%y)\nn: " +
      outputs + " = " + node + "\nm: %m = MatMul(%n, %w)\noutput %m\n");
  const auto report = ConvertToBf16(graph, {});
  EXPECT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->nodes[Precision::kBf16], 2) << node;
  EXPECT_EQ(report->nodes.Total(), 2) << node;
  const Node& n = graph.node(graph.FindNode("n"));
  std::string types;
  for (ValueId in : n.inputs)
    types += in.valid() ? std::string(DTypeName(graph.value(in).type.dtype)) + " " : "- ";
  return types + "-> " + std::string(DTypeName(graph.value(n.outputs[0]).type.dtype));
}

TEST(Bf16, InputsThatBecomeNarrow) {
  EXPECT_EQ(TypesOf("Relu(%a)"), "bfloat16 -> bfloat16");
  EXPECT_EQ(TypesOf("Add(%y, %a)"), "bfloat16 bfloat16 -> bfloat16");
  // Scales, biases and sizes stay as they are, and alone are no reason to follow.
  EXPECT_EQ(TypesOf("LayerNormalization(%a, %s, %b)"), "bfloat16 float32 float32 -> bfloat16");
  EXPECT_EQ(TypesOf("RMSNormalization(%a, %s)"), "bfloat16 float32 -> bfloat16");
  EXPECT_EQ(TypesOf("LayerNormalization{axis=0}(%y, %a)"), "float32 float32 -> float32");
  EXPECT_EQ(TypesOf("RMSNormalization{axis=0}(%y, %a)"), "float32 float32 -> float32");
  // No kernel in bfloat16; a conversion; inputs that a float operator computes.
  EXPECT_EQ(TypesOf("CumSum(%a, %axis)"), "float32 int64 -> float32");
  EXPECT_EQ(TypesOf("Cast{to=1}(%a)"), "float32 -> float32");
  EXPECT_EQ(TypesOf("CastLike(%a, %w)"), "float32 float32 -> float32");
  EXPECT_EQ(TypesOf("Relu(%e)"), "float32 -> float32");
}

// A second result that nothing reads does not matter.
TEST(Bf16, ResultsThatNothingReads) {
  const auto type = [](const std::string& indices) {
    Graph graph = MakeNet(
        "graph g\ninput %x: float32[1, 2, 6, 6]\nconst %w: float32[2, 2, 1, 1]\na: %a = Conv(%x, "
        "%w)\np: %p, " +
        indices + " = MaxPool{kernel_shape=[2, 2]}(%a)\nb: %b = Conv(%p, %w)\noutput %b\n");
    const auto report = ConvertToBf16(graph, {});
    EXPECT_TRUE(report) << report.error().message();
    return graph.value(graph.node(graph.FindNode("p")).outputs[0]).type.dtype;
  };
  EXPECT_EQ(type("%i"), DType::kBfloat16);
  EXPECT_EQ(type("_"), DType::kBfloat16);
}

// Two activations may both be narrow; nothing needs a weight.
TEST(Bf16, ProductsOfActivations) {
  Graph graph = MakeNet(
      "graph g\ninput %x: float32[2, 3, 4]\ninput %y: float32[2, 4, 3]\nm: %m = MatMul(%x, "
      "%y)\noutput %m\n");
  const auto report = ConvertToBf16(graph, {});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->nodes[Precision::kBf16], 1);
  EXPECT_EQ(report->nodes[Precision::kFloat32], 0);
  const Node& m = graph.node(graph.FindNode("m"));
  for (size_t i : {0, 1}) EXPECT_EQ(graph.value(m.input(i)).type.dtype, DType::kBfloat16) << i;
}

}  // namespace
}  // namespace evoq
