// Small models that ask for much memory or work: each is compiled or refused at the budget's price,
// and a run of one ends with an error before it takes the machine's memory.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/budget.h"
#include "models/models.h"
#include "onnx/onnx.h"
#include "ops/driver.h"
#include "tests/sanitized.h"

namespace evoq {
namespace {

std::string Bomb(const std::string& name) {
  return std::string(EVOQ_SOURCE_DIR) + "/tests/bombs/" + name + ".onnx";
}

int64_t ConstantBytes(const Graph& graph) {
  int64_t bytes = 0;
  for (int i = 0; i < graph.value_count(); ++i)
    bytes += FootprintBytes(graph.value(ValueId{i}).constant);
  return bytes;
}

std::string ErrorOf(const std::string& name) {
  const auto graph = LoadOptimizedGraph(Bomb(name));
  return graph ? "" : graph.error().message();
}

// 16 characters, doubled 40 times: folding stops at half of the budget's memory, the rest stays
// nodes.
TEST(Bombs, FoldedStrings) {
  const auto graph = LoadOptimizedGraph(Bomb("string_concat"));
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_LE(ConstantBytes(*graph), Budget::kFileMemory);
  EXPECT_GT(graph->order().size(), 10u);
  EXPECT_LT(graph->order().size(), 40u);  // short ones are folded
}

// 13 rounds at each of 6 levels would be 13^6 = 4.8 million subgraphs to infer.
TEST(Bombs, NestedLoops) {
  EXPECT_NE(ErrorOf("nested_loops").find("units of work, expected at most the "), std::string::npos)
      << ErrorOf("nested_loops");
}

// 2^20 bins of 2^24 samples: it stays a node.
TEST(Bombs, ConstantRoiAlign) {
  const auto graph = LoadOptimizedGraph(Bomb("roi_align"));
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_TRUE(std::any_of(graph->order().begin(), graph->order().end(),
                          [&](NodeId id) { return graph->node(id).op == "RoiAlign"; }));
}

// 10^7 nodes.
TEST(Bombs, NestedFunctions) {
  EXPECT_NE(ErrorOf("functions").find("the nodes of the model's functions: "), std::string::npos)
      << ErrorOf("functions");
}

// Each constant is below what one may fold to; all of them together are not.
TEST(Bombs, ConstantsInTotal) {
  std::string text = "input %x: float32[4194304]\nconst %s: int64[1] = [4194304]\n";
  for (int i = 0; i < 40; ++i)
    text += fmt::format(
        "c{0}: %c{0} = ConstantOfShape(%s)\na{0}: %a{0} = Add(%{1}, %c{0})\nn{0}: %n{0} = "
        "Sin(%a{0})\n",
        i, i == 0 ? "x" : fmt::format("n{}", i - 1));
  auto graph = ParseGraph(text + "output %n39\n");
  ASSERT_TRUE(graph) << graph.error().message();
  for (NodeId id : std::vector<NodeId>(
           graph->order())) {  // values of their own, which are not one subexpression
    if (graph->node(id).op == "ConstantOfShape")
      graph->attrs(id).Set(
          "value", Tensor::FromValues<float>(Shape{1}, {1.0f + static_cast<float>(id.index)}));
  }
  ASSERT_TRUE(RunPasses(*graph, Stage::kOptimize));
  EXPECT_LE(ConstantBytes(*graph), Budget::kFileMemory / 2 + (1 << 20));
  EXPECT_GT(ConstantBytes(*graph), Budget::kFileMemory / 4);  // some are folded
}

// Runs the model in a child that may have 1.5 GB of address space: its exit code is 0 for the error
// expected.
void RunsInto(const std::string& name, const TensorType& input, const std::string& error) {
#ifdef EVOQ_SANITIZED
  GTEST_SKIP() << "a limit on address space, which sanitizers do not bear";
#endif
  const pid_t child = fork();
  if (child == 0) {
    const rlimit memory{1536u << 20, 1536u << 20};
    setrlimit(RLIMIT_AS, &memory);
    auto engine = LoadEngine(Bomb(name), {.threads = 1});
    if (!engine) _exit(2);
    const std::vector<Tensor> inputs = {Tensor::Allocate(input)};
    const auto outputs = (*engine)->Run(inputs);
    if (outputs) _exit(3);
    if (outputs.error().message().find(error) == std::string::npos) {
      fmt::print(stderr, "{}\n", outputs.error().message());
      _exit(4);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Bombs, AStateThatDoubles) {
  RunsInto("growing_state", TensorType(DType::kFloat32, Shape{1024}), "rounds its states take ");
}
TEST(Bombs, RowsWithoutEnd) {
  RunsInto("growing_rows", TensorType(DType::kFloat32, Shape{1}), "and its rows ");
}
TEST(Bombs, StringsThatDouble) {
  RunsInto("string_concat", TensorType(DType::kString, Shape{1}),
           "bytes of memory, expected at most the ");
}

}  // namespace
}  // namespace evoq
