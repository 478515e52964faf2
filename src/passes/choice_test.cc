#include "passes/choice.h"

#include <gtest/gtest.h>

#include <set>

#include "passes/pass.h"
#include "reference/reference.h"

namespace evoq {
namespace {

constexpr char kText[] = R"(input %x: float32[1, 2, 4, 4]
const %w: float32[2, 2, 1, 1] = [1.0, 2.0, 3.0, 4.0]
const %scale: float32[2] = [2.0, 0.5]
const %shift: float32[2] = [0.1, 0.2]
const %mean: float32[2] = [1.0, 2.0]
const %var: float32[2] = [3.0, 0.99]
first: %a = Conv(%x, %w)
norm_1: %b = BatchNormalization(%a, %scale, %shift, %mean, %var)
second: %c = Conv(%b, %w)
norm_2: %d = BatchNormalization(%c, %scale, %shift, %mean, %var)
copy: %e = Identity(%d)
last: %f = Relu(%e)
output %f
)";

Graph Net() {
  auto graph = ParseGraph(kText);
  EXPECT_TRUE(graph) << graph.error().message();
  EXPECT_TRUE(InferTypes(*graph));
  return std::move(*graph);
}

// Operators that are left after the passes.
std::multiset<std::string> Optimized(const PassChoice& choice) {
  Graph graph = Net();
  const Status chosen = ChoosePasses(graph, choice);
  EXPECT_TRUE(chosen) << chosen.error().message();
  const Status ran = RunPasses(graph, Stage::kOptimize);
  EXPECT_TRUE(ran) << ran.error().message();
  std::multiset<std::string> ops;
  for (const NodeId id : graph.order()) ops.insert(graph.node(id).op);
  return ops;
}
using Ops = std::multiset<std::string>;

std::string Refusal(const PassChoice& choice) {
  Graph graph = Net();
  const Status status = ChoosePasses(graph, choice);
  EXPECT_FALSE(status);
  if (status) return "";
  EXPECT_EQ(status.error().code(), ErrorCode::kUsage);
  EXPECT_TRUE(graph.metadata.empty());
  return status.error().message();
}

TEST(PassChoice, LeavesPassesOut) {
  EXPECT_EQ(Optimized({}), Ops({"Conv", "Conv"}));
  EXPECT_EQ(Optimized({.disable = {"remove-identity"}}), Ops({"Conv", "Conv", "Identity", "Relu"}));
  EXPECT_EQ(Optimized({.disable = {"fuse-act*"}}), Ops({"Conv", "Conv", "Relu"}));
  EXPECT_EQ(Optimized({.disable = {"fuse-batch-norm", "fuse-activation"}}),
            Ops({"Conv", "BatchNormalization", "Conv", "BatchNormalization", "Relu"}));
}

TEST(PassChoice, LeavesNodesAlone) {
  const Ops one = {"Conv", "BatchNormalization", "Conv"};
  EXPECT_EQ(Optimized({.disable = {"fuse-batch-norm@norm_1"}}), one);
  EXPECT_EQ(Optimized({.disable = {"fuse-batch-norm@*_1", "fuse-batch-norm@fir*"}}), one);
  EXPECT_EQ(Optimized({.disable = {"fuse-*@op=BatchNorm*"}}),
            Ops({"Conv", "BatchNormalization", "Conv", "BatchNormalization", "Relu"}));
  // Without its convolution a BatchNormalization becomes Mul and Add.
  EXPECT_EQ(Optimized({.disable = {"fuse-batch-norm@second", "fold-*", "fuse-activation"}}),
            Ops({"Conv", "Conv", "Mul", "Add", "Relu"}));
}

TEST(PassChoice, LevelsRunMoreAndMore) {
  EXPECT_EQ(Optimized({.opt_level = 0}),
            Ops({"Conv", "BatchNormalization", "Conv", "BatchNormalization", "Identity", "Relu"}));
  EXPECT_EQ(Optimized({.opt_level = 1}),
            Ops({"Conv", "BatchNormalization", "Conv", "BatchNormalization", "Relu"}));
  EXPECT_EQ(Optimized({.opt_level = 2}), Ops({"Conv", "Conv"}));
  std::set<int> levels;
  for (const PassDef* pass : AllPasses()) levels.insert(pass->level);
  EXPECT_EQ(levels, (std::set<int>{0, 1, 2, kMostOptLevel}));
}

TEST(PassChoice, AddsToWhatTheGraphSays) {
  Graph graph = Net();
  ASSERT_TRUE(ChoosePasses(graph, {}));
  EXPECT_TRUE(graph.metadata.empty());
  ASSERT_TRUE(ChoosePasses(graph, {.disable = {"fuse-pad", "fold-*@first"}, .opt_level = 1}));
  ASSERT_TRUE(ChoosePasses(graph, {.disable = {"fuse-pad", "sum-to-add"}}));
  EXPECT_EQ(graph.metadata.at(kPassChoice),
            R"({"disable":["fuse-pad","fold-*@first","sum-to-add"],"opt_level":1})");
  ASSERT_TRUE(ChoosePasses(graph, {.opt_level = 3}));
  const auto choice = ChosenPasses(graph);
  ASSERT_TRUE(choice) << choice.error().message();
  EXPECT_EQ(choice->opt_level, 3);
  EXPECT_EQ(choice->disable.size(), 3);
}

TEST(PassChoice, NamesWhatThereIsNot) {
  EXPECT_EQ(Refusal({.disable = {"fuse-activatoin"}}),
            "--disable fuse-activatoin: there is no pass 'fuse-activatoin'; the nearest is "
            "fuse-activation (`evoq list passes`)");
  EXPECT_EQ(Refusal({.disable = {"fuse-pad@frist"}}),
            "--disable fuse-pad@frist: the model has no node 'frist'; the nearest is 'first'");
  EXPECT_EQ(Refusal({.disable = {"fuse-pad@op=Cov"}}),
            "--disable fuse-pad@op=Cov: there is no operator 'Cov'; the nearest is 'Conv'");
  EXPECT_EQ(Refusal({.opt_level = 4}), "--opt-level 4: expected 0 to 3");
}

TEST(PassChoice, FactsOfFilesAreChecked) {
  for (const char* fact : {"", "{}", R"({"disable": ["of-another-version"], "opt_level": 2})"}) {
    Graph graph = Net();
    graph.metadata[kPassChoice] = fact;
    EXPECT_TRUE(RunPasses(graph, Stage::kOptimize)) << fact;
  }
  for (const char* fact :
       {"{", "3", "[]", R"({"opt_level": 9})", R"({"opt_level": "1"})",
        R"({"disable": "fuse-pad"})", R"({"disable": [1]})", R"({"enable": []})"}) {
    Graph graph = Net();
    graph.metadata[kPassChoice] = fact;
    const Status status = RunPasses(graph, Stage::kOptimize);
    ASSERT_FALSE(status) << fact;
    EXPECT_EQ(status.error().code(), ErrorCode::kInvalidInput);
    EXPECT_NE(status.error().message().find(kPassChoice), std::string::npos)
        << status.error().message();
  }
}

// Passes that infer a copy of the graph at other sizes (fit-kernels, those about attention) go on
// working around a node that they leave alone.
TEST(PassChoice, CopiesAtOtherSizesKnowHeldNodes) {
  auto graph = ParseGraph(R"(input %x: uint8[N, 5](scale 0.02, zero 3)
first: %a: uint16[N, 5](scale 0.0001, zero 10) = Softsign(%x)
second: %b: uint16[N, 5](scale 0.0001, zero 10) = Softsign(%x)
output %a
output %b
)");
  ASSERT_TRUE(graph && InferTypes(*graph));
  ASSERT_TRUE(ChoosePasses(*graph, {.disable = {"fit-kernels@first"}}));
  ASSERT_TRUE(RunPasses(*graph, Stage::kLower));
  const auto gives_float = [&](const char* name) {
    const Node& node = graph->node(graph->FindNode(name));
    return graph->value(node.outputs[0]).type.dtype == DType::kFloat32;
  };
  EXPECT_FALSE(gives_float("first"));
  EXPECT_TRUE(gives_float("second"));
}

TEST(PassChoice, ReachesIntoSubgraphs) {
  constexpr char kIf[] = R"(input %x: float32[2]
input %c: bool[]
i: %y = If(%c, %x)
| graph "then"
| input %a: float32[...]
| const %p: float32[2] = [2.0, 3.0]
| const %q: float32[2] = [1.0, 1.0]
| sum: %t = Add(%p, %q)
| product: %b = Mul(%a, %t)
| output %b
| graph "else"
| input %a: float32[...]
| n: %b = Neg(%a)
| output %b
output %y
)";
  const auto nodes_of_branch = [&](const PassChoice& choice) {
    auto graph = ParseGraph(kIf);
    EXPECT_TRUE(graph && InferTypes(*graph) && ChoosePasses(*graph, choice));
    EXPECT_TRUE(RunPasses(*graph, Stage::kOptimize));
    return graph->node(graph->FindNode("i")).bodies[0]->order().size();
  };
  EXPECT_EQ(nodes_of_branch({}), 1);
  EXPECT_EQ(nodes_of_branch({.disable = {"fold-constants"}}), 2);
  EXPECT_EQ(nodes_of_branch({.disable = {"fold-constants@sum"}}), 2);
  EXPECT_EQ(nodes_of_branch({.disable = {"fold-constants@product"}}), 1);
  EXPECT_EQ(nodes_of_branch({.disable = {"optimize-bodies@i"}}), 2);
  EXPECT_EQ(nodes_of_branch({.opt_level = 0}), 2);
}

}  // namespace
}  // namespace evoq
