#include <gtest/gtest.h>

#include <algorithm>

#include "graph/graph.h"

namespace evoq {
namespace {

// Names and strings with control characters print on one line, and read back the same.
TEST(GraphText, ControlCharactersInNamesRoundTrip) {
  const std::string odd = "a\nb\x1b[2J\"c\\d\\x41\x7f\t\xff";
  Graph graph;
  graph.name = odd;
  const ValueId x = graph.AddInput("in" + odd, TensorType(DType::kFloat32, Shape{2}));
  Attrs attrs;
  attrs.Set("mode", odd);
  graph.MarkOutput(
      graph.Apply("Relu", "node" + odd, {x}, attrs, TensorType(DType::kFloat32, Shape{2})));
  ASSERT_TRUE(graph.Sort());
  const std::string text = Print(graph);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << text;
  EXPECT_NE(text.find("input %\"ina\\x0ab\\x1b[2J\\\"c\\\\d\\\\x41\\x7f\\x09\xff\": float32[2]\n"),
            std::string::npos)
      << text;
  const auto back = ParseGraph(text);
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(back->name, odd);
  EXPECT_EQ(back->value(back->inputs()[0]).name, "in" + odd);
  EXPECT_EQ(back->node(back->order()[0]).name, "node" + odd);
  EXPECT_EQ(back->node(back->order()[0]).attrs.String("mode", ""), odd);
  EXPECT_EQ(Print(*back), text);
  EXPECT_FALSE(ParseGraph("graph \"a\\x4\"\n"));
  EXPECT_FALSE(ParseGraph("graph \"a\\xg1\"\n"));
}

}  // namespace
}  // namespace evoq
