// Models that are no single Program, beside their definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/engine.h"
#include "ops/op.h"

namespace evoq {
namespace {

Tensor Floats(std::vector<float> values, Shape shape) { return Tensor::FromValues<float>(std::move(shape), values); }

Graph Parsed(const std::string& text) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph) << graph.error().message();
  const Status status = InferTypes(*graph);
  EXPECT_TRUE(status) << status.error().message();
  return std::move(*graph);
}

std::unique_ptr<Engine> EngineOf(const Graph& graph) {
  Graph optimized = graph;
  EXPECT_TRUE(RunPasses(optimized, Stage::kOptimize));
  auto engine = Engine::FromGraph(std::move(optimized), {.threads = 2});
  EXPECT_TRUE(engine) << engine.error().message();
  return std::move(*engine);
}

// The engine's outputs equal the definition's.
void ExpectSame(Engine& engine, const Graph& graph, const std::vector<Tensor>& inputs) {
  const auto wanted = EvaluateGraph(graph, inputs), got = engine.Run(inputs);
  ASSERT_TRUE(wanted) << wanted.error().message();
  ASSERT_TRUE(got) << got.error().message();
  ASSERT_EQ(got->size(), wanted->size());
  for (size_t i = 0; i < wanted->size(); ++i) {
    const Tensor &g = (*got)[i], &w = (*wanted)[i];
    ASSERT_EQ(g.type().ToString(), w.type().ToString()) << i;
    if (w.dtype() != DType::kFloat32) {
      EXPECT_TRUE(BitEqual(g, w)) << i;
      continue;
    }
    for (int64_t k = 0; k < w.elements(); ++k) EXPECT_NEAR(g.data<float>()[k], w.data<float>()[k], 1e-5f * (1 + std::fabs(w.data<float>()[k]))) << i;
  }
}

// NonZero, then work on what it found, then NonZero again.
TEST(Regions, StagesFollowTheData) {
  Graph graph = Parsed("input %x: float32[N, 4]\nr: %r = Relu(%x)\nnz: %i = NonZero(%r)\nf: %f = Cast{to=1}(%i)\n"
                       "t: %t = Transpose{perm=[1, 0]}(%f)\nconst %m: float32[2, 4] = [1.0, -2.0, 0.0, 1.0, 0.5, 0.0, -1.0, 0.0]\n"
                       "p: %p = MatMul(%t, %m)\nq: %q = Relu(%p)\nagain: %j = NonZero(%q)\noutput %r\noutput %q\noutput %j\n");
  const auto engine = EngineOf(graph);
  ExpectSame(*engine, graph, {Floats({1, -1, 0, 2}, {1, 4})});
  EXPECT_FALSE(engine->needs_evaluator().empty());
  const int64_t stages = engine->prepared().count;
  EXPECT_EQ(stages, 2);  // up to the first NonZero, and from there
  ExpectSame(*engine, graph, {Floats({3, -1, 0, 5}, {1, 4})});
  EXPECT_EQ(engine->prepared().count, stages);  // the same sizes all along
  ExpectSame(*engine, graph, {Floats({1, 1, 0, 2}, {1, 4})});  // three places now
  EXPECT_EQ(engine->prepared().count, stages + 1);
  ExpectSame(*engine, graph, {Floats({-1, -1, 0, -2}, {1, 4})});  // none at all
  ExpectSame(*engine, graph, {Floats({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4})});
  EXPECT_GT(engine->prepared().ms, 0);
}

constexpr char kLoop[] = R"(input %x: float32[N, 3]
input %n: int64[]
input %go: bool[]
loop: %last, %rows = Loop{captured=1}(%n, %go, %x, %x)
| graph "round"
| input %i: int64[]
| input %c: bool[]
| input %s: float32[...]
| input %all: float32[...]
| const %w: float32[3, 1] = [0.5, 0.25, 0.125]
| const %limit: float32[] = [40.0]
| m: %m = MatMul(%s, %w)
| a: %a = Add(%m, %all)
| sum: %sum = ReduceSum{keepdims=0}(%a)
| less: %less = Less(%sum, %limit)
| output %less
| output %a
| output %sum
output %last
output %rows
)";

TEST(Regions, LoopRunsItsBodyCompiled) {
  const Graph graph = Parsed(kLoop);
  const auto engine = EngineOf(graph);
  for (int64_t n : {5, 0, 1, 20}) {
    const std::vector<Tensor> inputs = {Floats({1, 2, 3, 4, 5, 6}, {2, 3}), Tensor::Scalar<int64_t>(n), Tensor::Scalar(true)};
    ExpectSame(*engine, graph, inputs);
  }
  std::vector<RegionStep> steps;
  engine->regions()->Collect("", steps);
  EXPECT_TRUE(std::any_of(steps.begin(), steps.end(), [](const RegionStep& s) { return s.name == "loop/m" && s.kernel == "matmul_f32"; }));
}

// A state that grows: each round has other sizes, of which the first ones are compiled and the others computed by definition.
TEST(Regions, LoopOfGrowingState) {
  const Graph graph = Parsed(
      "input %x: float32[1, 2]\ninput %n: int64[]\nloop: %last = Loop{captured=0}(%n, _, %x)\n| graph \"grow\"\n| input %i: int64[]\n"
      "| input %c: bool[]\n| input %s: float32[...]\n| cc: %t = Concat{axis=0}(%s, %s)\n| r: %u = Relu(%t)\n| same: %d = Identity(%c)\n"
      "| output %d\n| output %u\noutput %last\n");
  const auto engine = EngineOf(graph);
  ExpectSame(*engine, graph, {Floats({1, -2}, {1, 2}), Tensor::Scalar<int64_t>(12)});
  EXPECT_LE(engine->prepared().count, 10);
}

TEST(Regions, IfTakesEitherBranch) {
  const Graph graph = Parsed(
      "input %x: float32[N]\ninput %c: bool[]\nif: %y = If{captured=1}(%c, %x)\n| graph \"then\"\n| input %a: float32[...]\n| t: %b = Mul(%a, %a)\n"
      "| output %b\n| graph \"else\"\n| input %a: float32[...]\n| const %axes: int64[1] = [0]\n| e: %b = Unsqueeze(%a, %axes)\n| output %b\n"
      "after: %z = Neg(%y)\noutput %z\noutput %y\n");
  const auto engine = EngineOf(graph);
  for (bool c : {true, false, true}) ExpectSame(*engine, graph, {Floats({1, 2, 3}, {3}), Tensor::Scalar(c)});
  ExpectSame(*engine, graph, {Floats({1, 2}, {2}), Tensor::Scalar(false)});
}

TEST(Regions, ErrorsNameTheInput) {
  const Graph graph = Parsed(kLoop);
  const auto engine = EngineOf(graph);
  const auto wrong = engine->Run({{Tensor::Scalar<int64_t>(1), Tensor::Scalar<int64_t>(1), Tensor::Scalar(true)}});
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message().find("input x"), std::string::npos) << wrong.error().message();
}

}  // namespace
}  // namespace evoq
