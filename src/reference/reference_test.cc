// Every operator has a definition, and the reverse; the runtime's few are among them.
#include "reference/reference.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "reference/definition.h"
#include "reference/sizes.h"

namespace evoq {
namespace {

TEST(Reference, DefinesEachOperator) {
  const auto ops = AllOps();
  const auto definitions = AllDefinitions();
  ASSERT_EQ(definitions.size(), ops.size());
  for (size_t i = 0; i < ops.size(); ++i) {
    EXPECT_STREQ(definitions[i]->name, ops[i]->name);
    EXPECT_STREQ(definitions[i]->domain, ops[i]->domain) << ops[i]->name;
    EXPECT_NE(definitions[i]->evaluate, nullptr) << ops[i]->name;
  }
}

// The exact integer definition and the trait that promises one go together.
TEST(Reference, ProductsHaveIntegerDefinitions) {
  const auto ops = AllOps();
  const auto definitions = AllDefinitions();
  for (size_t i = 0; i < ops.size(); ++i) {
    if (ops[i]->quant == QuantTrait::kLinear) {
      EXPECT_NE(definitions[i]->evaluate_quantized, nullptr) << ops[i]->name;
    }
  }
}

Node Of(const char* op, const char* domain = "") {
  Node node;
  node.op = op;
  node.domain = domain;
  node.name = "n";
  return node;
}

TEST(Reference, FindsByDomain) {
  EXPECT_TRUE(HasDefinition(Of("Add")));
  EXPECT_TRUE(HasDefinition(Of("Add", "ai.onnx")));
  EXPECT_FALSE(HasDefinition(Of("Add", "evoq")));
  EXPECT_TRUE(HasDefinition(Of("Silu", "evoq")));
  EXPECT_FALSE(HasDefinition(Of("Nothing")));
}

TEST(Sizes, AreSomeOfAll) {
  EXPECT_TRUE(ComputesSizes(Of("Gather")));
  EXPECT_FALSE(ComputesSizes(Of("Conv")));
  const auto two = Tensor::FromValues<int64_t>(Shape{2}, {3, 4});
  const TensorType type;
  Node add = Of("Add");
  add.inputs = {ValueId{0}, ValueId{1}};
  add.outputs = {ValueId{2}};
  const auto sum = EvaluateSizes(add, std::vector{two, two}, {&type, 1});
  ASSERT_TRUE(sum) << sum.error().message();
  EXPECT_EQ((*sum)[0].data<int64_t>()[1], 8);
  const auto conv = EvaluateSizes(Of("Conv"), {}, {});
  ASSERT_FALSE(conv);
  EXPECT_EQ(conv.error().message(),
            "node n (Conv): its reference implementation is only in libevoq");
}

}  // namespace
}  // namespace evoq
