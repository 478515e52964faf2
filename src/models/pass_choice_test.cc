// What passes a user chose holds wherever the model goes.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <set>

#include "models/models.h"
#include "onnx/onnx.h"
#include "program/etm.h"
#include "reference/reference.h"

namespace evoq {
namespace {

constexpr char kText[] = R"(graph net
input %x: float32["N", 4, 12, 12]
const %w0: float32[8, 4, 3, 3]
const %s: float32[8]
const %o: float32[8]
const %m: float32[8]
const %v: float32[8]
conv: %a = Conv{auto_pad="SAME_UPPER"}(%x, %w0)
norm: %b = BatchNormalization(%a, %s, %o, %m, %v)
relu: %c = Relu(%b)
const %w1: float32[8, 8, 1, 1]
point: %d = Conv(%c, %w1)
add: %e = Add(%d, %c)
sigmoid: %f = Sigmoid(%e)
silu: %g = Mul(%e, %f)
pool: %h = GlobalAveragePool(%g)
flat: %i = Flatten(%h)
copy: %j = Identity(%i)
const %w2: float32[5, 8]
const %b2: float32[5]
gemm: %k = Gemm{transB=1}(%j, %w2, %b2)
soft: %y = Softmax{axis=-1}(%k)
output %y
)";

Graph Net() {
  auto graph = ParseGraph(kText);
  EXPECT_TRUE(graph) << graph.error().message();
  std::mt19937 random(3);
  std::uniform_real_distribution<float> real(0.1f, 1);
  for (int i = 0; i < graph->value_count(); ++i) {
    const Value& value = graph->value(ValueId{i});
    if (!value.is_constant()) continue;
    Tensor t = Tensor::Allocate(value.type);
    for (int64_t k = 0; k < t.elements(); ++k)
      t.mutable_data<float>()[k] = real(random) - (t.shape().rank() > 1 ? 0.5f : 0);
    graph->SetConstant(ValueId{i}, t);
  }
  EXPECT_TRUE(InferTypes(*graph));
  return std::move(*graph);
}

Tensor Input() {
  Tensor x = Tensor::Allocate(TensorType(DType::kFloat32, Shape{2, 4, 12, 12}));
  for (int64_t i = 0; i < x.elements(); ++i)
    x.mutable_data<float>()[i] = static_cast<float>(i % 37) / 18 - 1;
  return x;
}

// The operators of the lowered graph and what it computes.
struct Ran {
  size_t nodes = 0;
  std::vector<float> y;
};
Ran RunWith(const PassChoice& choice) {
  Graph graph = Net();
  EXPECT_TRUE(ChoosePasses(graph, choice));
  EXPECT_TRUE(RunPasses(graph, Stage::kOptimize));
  auto engine = EngineFromGraph(std::move(graph), {.threads = 1});
  EXPECT_TRUE(engine) << engine.error().message();
  const Tensor x = Input();
  const auto y = (*engine)->Run({&x, 1});
  EXPECT_TRUE(y) << y.error().message();
  const auto values = (*y)[0].values<float>();
  return {(*engine)->model().graph.order().size(), {values.begin(), values.end()}};
}

void ExpectNear(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5f);
}

TEST(PassChoiceOfModels, EveryPassMayBeLeftOut) {
  const Ran all = RunWith({});
  int changing = 0;
  for (const PassDef* pass : AllPasses()) {
    SCOPED_TRACE(pass->name);
    const Ran without = RunWith({.disable = {pass->name}});
    ExpectNear(all.y, without.y);
    changing += all.nodes != without.nodes;
  }
  EXPECT_GE(changing, 6);
  ExpectNear(all.y, RunWith({.disable = {"*"}}).y);
}

TEST(PassChoiceOfModels, EveryLevelComputesTheSame) {
  const Ran all = RunWith({});
  size_t nodes = 100;
  for (int level = 0; level <= kMostOptLevel; ++level) {
    SCOPED_TRACE(level);
    const Ran ran = RunWith({.opt_level = level});
    ExpectNear(all.y, ran.y);
    EXPECT_LE(ran.nodes, nodes);
    nodes = ran.nodes;
  }
  EXPECT_EQ(nodes, all.nodes);
}

TEST(PassChoiceOfModels, EveryNodeMayBeLeftAlone) {
  const Ran all = RunWith({});
  const Graph net = Net();
  for (const NodeId id : net.order()) {
    SCOPED_TRACE(net.node(id).name);
    ExpectNear(all.y, RunWith({.disable = {"*@" + net.node(id).name}}).y);
  }
}

bool HasNode(const Graph& graph, const char* name) { return graph.FindNode(name).valid(); }

TEST(PassChoiceOfModels, FilesKeepIt) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "evoq_pass_choice_test";
  std::filesystem::create_directories(folder);
  const std::string onnx = (folder / "a.onnx").string(), etm = (folder / "a.etm").string();
  Graph graph = Net();
  ASSERT_TRUE(ChoosePasses(
      graph, {.disable = {"fuse-batch-norm", "fuse-activation@relu", "fuse-silu@silu"}}));
  const std::string fact = graph.metadata.at(kPassChoice);
  ASSERT_TRUE(ExportOnnx(graph, onnx));

  auto optimized = LoadOptimizedGraph(onnx);
  ASSERT_TRUE(optimized) << optimized.error().message();
  EXPECT_EQ(optimized->metadata.at(kPassChoice), fact);
  for (const char* name : {"norm", "relu", "silu"}) EXPECT_TRUE(HasNode(*optimized, name)) << name;
  EXPECT_FALSE(HasNode(*optimized, "copy"));

  auto engine = LoadEngine(onnx, {.threads = 1});  // as bench and run read it
  ASSERT_TRUE(engine) << engine.error().message();
  EXPECT_TRUE(HasNode((*engine)->model().graph, "norm"));

  auto model = LowerAndPack(std::move(*optimized));
  ASSERT_TRUE(model) << model.error().message();
  ASSERT_TRUE(WriteEtm(*model, etm));
  const auto read = ReadEtm(etm);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->graph.metadata.at(kPassChoice), fact);
  EXPECT_TRUE(HasNode(read->graph, "norm"));

  // A model of which nothing was chosen says nothing.
  const auto plain = LowerAndPack(Net());
  ASSERT_TRUE(plain);
  EXPECT_FALSE(plain->graph.metadata.contains(kPassChoice));
}

// A subgraph runs its own passes when the types of its inputs are known.
TEST(PassChoiceOfModels, HoldsInDynamicPartitions) {
  constexpr char kIf[] = R"(input %x: float32[2]
input %c: bool[]
i: %y = If(%c, %x)
| graph "then"
| input %a: float32[...]
| const %one: float32[] = [1.0]
| neg: %t = Neg(%a)
| once: %u = Mul(%t, %one)
| output %u
| graph "else"
| input %a: float32[...]
| n: %b = Neg(%a)
| output %b
output %y
)";
  const auto steps_of = [&](const PassChoice& choice) {
    auto graph = ParseGraph(kIf);
    EXPECT_TRUE(graph && InferTypes(*graph) && ChoosePasses(*graph, choice));
    auto engine = EngineFromGraph(std::move(*graph), {.threads = 1});
    EXPECT_TRUE(engine) << engine.error().message();
    Tensor x = Tensor::FromValues(Shape{2}, std::vector<float>{1, -2});
    Tensor yes = Tensor::Allocate(TensorType(DType::kBool, Shape(std::vector<int64_t>{})));
    yes.mutable_raw()[0] = std::byte{1};
    auto runnable = (*engine)->RunnableFor({x, yes});
    EXPECT_TRUE(runnable) << runnable.error().message();
    std::set<std::string> names;
    for (const Step& step : (*runnable)->program().steps)
      names.insert((*runnable)->program().graph->node(step.node).op);
    return names;
  };
  EXPECT_FALSE(steps_of({}).contains("Mul"));
  EXPECT_FALSE(steps_of({.disable = {"fuse-pad"}}).contains("Mul"));
  EXPECT_TRUE(steps_of({.disable = {"remove-identity"}}).contains("Mul"));
  EXPECT_TRUE(steps_of({.disable = {"remove-identity@once"}}).contains("Mul"));
}

}  // namespace
}  // namespace evoq
