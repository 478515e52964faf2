// Models that are no single Program, beside their definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "models/engine_regions.h"
#include "models/models.h"
#include "reference/reference.h"
#include "reference/test_graph.h"

namespace evoq {
namespace {

Tensor Floats(std::vector<float> values, Shape shape) {
  return Tensor::FromValues<float>(std::move(shape), values);
}

std::unique_ptr<Engine> EngineOf(const Graph& graph) {
  Graph optimized = graph;
  EXPECT_TRUE(RunPasses(optimized, Stage::kOptimize));
  auto engine = EngineFromGraph(std::move(optimized), {.threads = 2});
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
    for (int64_t k = 0; k < w.elements(); ++k)
      EXPECT_NEAR(g.data<float>()[k], w.data<float>()[k],
                  1e-5f * (1 + std::fabs(w.data<float>()[k])))
          << i;
  }
}

const EngineRegions& RegionsOf(Engine& engine) {
  return static_cast<const EngineRegions&>(*engine.partitions());
}

std::vector<RegionStep> StepsOf(Engine& engine) {
  std::vector<RegionStep> steps;
  RegionsOf(engine).region()->Collect("", steps);
  return steps;
}

int64_t CountSteps(Engine& engine, const std::string& name) {
  const auto steps = StepsOf(engine);
  return std::count_if(steps.begin(), steps.end(),
                       [&](const RegionStep& s) { return s.name == name; });
}

// NonZero, then work on what it found, then NonZero again.
TEST(Regions, StagesFollowTheData) {
  Graph graph = Parsed(
      "input %x: float32[N, 4]\nr: %r = Relu(%x)\nnz: %i = NonZero(%r)\nf: %f = Cast{to=1}(%i)\n"
      "t: %t = Transpose{perm=[1, 0]}(%f)\nconst %m: float32[2, 4] = [1.0, -2.0, 0.0, 1.0, 0.5, "
      "0.0, -1.0, 0.0]\n"
      "p: %p = MatMul(%t, %m)\nq: %q = Relu(%p)\nagain: %j = NonZero(%q)\noutput %r\noutput "
      "%q\noutput %j\n");
  const auto engine = EngineOf(graph);
  ExpectSame(*engine, graph, {Floats({1, -1, 0, 2}, {1, 4})});
  EXPECT_FALSE(engine->in_regions().empty());
  const int64_t stages = engine->prepared().count;
  EXPECT_EQ(stages, 2);  // up to the first NonZero, and from there
  ExpectSame(*engine, graph, {Floats({3, -1, 0, 5}, {1, 4})});
  EXPECT_EQ(engine->prepared().count, stages);                 // the same sizes all along
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
    const std::vector<Tensor> inputs = {Floats({1, 2, 3, 4, 5, 6}, {2, 3}),
                                        Tensor::Scalar<int64_t>(n), Tensor::Scalar(true)};
    ExpectSame(*engine, graph, inputs);
  }
  const std::vector<RegionStep> steps = StepsOf(*engine);
  EXPECT_TRUE(std::any_of(steps.begin(), steps.end(), [](const RegionStep& s) {
    return s.name == "loop/m" && s.kernel == "matmul_f32";
  }));
}

// A state that grows by one row: each round has other sizes, and each run of the model the same
// ones again.
constexpr char kGrow[] = R"(input %x: float32[1, 2]
input %n: int64[]
loop: %last = Loop{captured=1}(%n, _, %x, %x)
| graph "grow"
| input %i: int64[]
| input %c: bool[]
| input %s: float32[...]
| input %row: float32[...]
| cc: %t = Concat{axis=0}(%s, %row)
| r: %u = Relu(%t)
| same: %d = Identity(%c)
| output %d
| output %u
output %last
)";

TEST(Regions, LoopOfGrowingState) {
  const Graph graph = Parsed(kGrow);
  for (int64_t rounds : {12, 60, 256, 257, 300}) {
    const auto engine = EngineOf(graph);
    const std::vector<Tensor> inputs = {Floats({1, -2}, {1, 2}), Tensor::Scalar(rounds)};
    ExpectSame(*engine, graph, inputs);
    EXPECT_EQ(engine->prepared().count, 1 + 8)
        << rounds;  // the first sizes; the others may never come again
    ExpectSame(*engine, graph, inputs);
    const int64_t twice =
        engine->prepared().count;  // more sizes than are remembered never come again
    EXPECT_EQ(twice, 1 + (rounds > 256 ? 8 : std::min<int64_t>(rounds, 32))) << rounds;
    ExpectSame(*engine, graph, inputs);
    EXPECT_EQ(engine->prepared().count, twice) << rounds;  // no stage went that was of use
    EXPECT_EQ(CountSteps(*engine, "loop/r"), twice - 1) << rounds;
  }
}

// [2] beside [1, 4], and [2, 1] beside [4], are the same numbers in a row: stages know where one
// input ends.
TEST(Regions, StagesAreOfRanksToo) {
  Graph graph = Parsed(
      "input %a: float32[...]\ninput %b: float32[...]\nsa: %s = Shape(%a)\nsb: %t = Shape(%b)\n"
      "nz: %i = NonZero(%a)\noutput %s\noutput %t\noutput %i\n");
  const auto engine = EngineOf(graph);
  for (int again = 0; again < 2; ++again) {
    for (const auto& [a, b] : {std::pair{Shape{2}, Shape{1, 4}},
                               {Shape{2, 1}, Shape{4}},
                               {Shape{2, 1, 1}, Shape{4}},
                               {Shape{2}, Shape{1, 1, 4}}}) {
      const auto outputs = engine->Run({{Floats({5, 6}, a), Floats({1, 2, 3, 4}, b)}});
      ASSERT_TRUE(outputs) << outputs.error().message();
      EXPECT_EQ(ToInt64s((*outputs)[0]).value(), a.sizes());
      EXPECT_EQ(ToInt64s((*outputs)[1]).value(), b.sizes());
      EXPECT_EQ((*outputs)[2].sizes(), (std::vector<int64_t>{a.rank(), 2}));
    }
  }
}

// The sizes of the last runs push out those of earlier ones.
TEST(Regions, OldStagesGiveWay) {
  const Graph graph = Parsed(
      "input %x: float32[N]\nr: %r = Relu(%x)\nnz: %i = NonZero(%r)\noutput %r\noutput %i\n");
  const auto engine = EngineOf(graph);
  const auto run = [&](int64_t size) {
    ExpectSame(*engine, graph,
               {Floats(std::vector<float>(static_cast<size_t>(size), 1.0f), {size})});
  };
  for (int pass = 0; pass < 2; ++pass) {
    for (int64_t size = 1; size <= 32; ++size) run(size);
  }
  EXPECT_EQ(engine->prepared().count, 32);
  for (int i = 0; i < 3; ++i) run(100);  // seen, prepared, run
  EXPECT_EQ(engine->prepared().count, 33);
  EXPECT_EQ(CountSteps(*engine, "r"), 32);
  run(1);  // gave way, and nothing is less in use than it
  EXPECT_EQ(engine->prepared().count, 33);
}

// Much arithmetic is never run by definition.
TEST(Regions, HeavyStagesArePreparedAtOnce) {
  Graph graph = Parsed(
      "input %x: float32[N, 256]\nconst %w: float32[256, 256]\np: %p = MatMul(%x, %w)\nnz: %i = "
      "NonZero(%p)\noutput %p\noutput %i\n");
  const auto engine = EngineOf(graph);
  for (int64_t rows = 16; rows < 16 + 40; ++rows) {
    ASSERT_TRUE(engine->Run(
        {{Floats(std::vector<float>(static_cast<size_t>(rows) * 256, 1.0f), {rows, 256})}}));
    EXPECT_EQ(engine->prepared().count, rows - 15);
    EXPECT_EQ(CountSteps(*engine, "p"), std::min<int64_t>(rows - 15, 32));
  }
}

// However many sizes a subgraph is run at, its weights are packed and stored once.
TEST(Regions, StagesShareTheirWeights) {
  const Graph graph = Parsed(R"(input %x: float32[N, 64]
input %n: int64[]
loop: %last = Loop{captured=0}(%n, _, %x)
| graph "round"
| input %i: int64[]
| input %c: bool[]
| input %s: float32[...]
| const %w: float32[64, 64]
| p: %p = MatMul(%s, %w)
| q: %q = MatMul(%p, %w)
| same: %d = Identity(%c)
| output %d
| output %q
output %last
)");
  const auto engine = EngineOf(graph);
  for (int64_t rows = 1; rows <= 4; ++rows) {
    ExpectSame(*engine, graph,
               {Floats(std::vector<float>(static_cast<size_t>(rows) * 64, 1.0f), {rows, 64}),
                Tensor::Scalar<int64_t>(2)});
    EXPECT_EQ(CountSteps(*engine, "loop/p"), rows);
    EXPECT_EQ(engine->partitions()->weight_bytes(), 64 * 64 * 4) << rows;
  }
}

// A step has the time of its subgraph's steps apart from its own: together they are no more than
// the run.
TEST(Regions, TimesAddUp) {
  const Graph graph = Parsed(kLoop);
  const auto engine = EngineOf(graph);
  const std::vector<Tensor> inputs = {Floats(std::vector<float>(64 * 3, 0.01f), {64, 3}),
                                      Tensor::Scalar<int64_t>(200), Tensor::Scalar(true)};
  const auto untimed = [&] {
    const auto steps = StepsOf(*engine);
    return std::all_of(steps.begin(), steps.end(),
                       [](const RegionStep& s) { return s.ns == 0 && s.runs == 0; });
  };
  ASSERT_TRUE(engine->Run(inputs));
  EXPECT_TRUE(untimed());
  RegionsOf(*engine).Time(true);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(engine->Run(inputs));
  const auto wall =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start)
          .count();
  RegionsOf(*engine).Time(false);
  int64_t sum = 0, rounds = 0;
  for (const RegionStep& step : StepsOf(*engine)) {
    sum += step.ns;
    if (step.name == "loop/m") rounds += step.runs;
  }
  EXPECT_GT(rounds, 1);
  EXPECT_GT(sum, 0);
  EXPECT_LE(sum, wall);
  RegionsOf(*engine).region()->ResetTimes();
  EXPECT_TRUE(untimed());
}

TEST(Regions, IfTakesEitherBranch) {
  const Graph graph = Parsed(
      "input %x: float32[N]\ninput %c: bool[]\nif: %y = If{captured=1}(%c, %x)\n| graph "
      "\"then\"\n| input %a: float32[...]\n| t: %b = Mul(%a, %a)\n"
      "| output %b\n| graph \"else\"\n| input %a: float32[...]\n| const %axes: int64[1] = [0]\n| "
      "e: %b = Unsqueeze(%a, %axes)\n| output %b\n"
      "after: %z = Neg(%y)\noutput %z\noutput %y\n");
  const auto engine = EngineOf(graph);
  for (bool c : {true, false, true})
    ExpectSame(*engine, graph, {Floats({1, 2, 3}, {3}), Tensor::Scalar(c)});
  ExpectSame(*engine, graph, {Floats({1, 2}, {2}), Tensor::Scalar(false)});
}

// 16 rows of 256 times 256 x 256 are 2^20 multiply-accumulates, from which on nothing is run by
// definition; the ninth sizes are otherwise.
TEST(Regions, HeavyFromAMillionOn) {
  const Graph graph = Parsed(
      "input %x: float32[N, 256]\nconst %w: float32[256, 256]\np: %p = MatMul(%x, %w)\n"
      "nz: %i = NonZero(%p)\noutput %i\n");
  for (const int64_t most : {15, 16}) {
    const auto engine = EngineOf(graph);
    for (const int64_t rows : {most, int64_t{1}, int64_t{2}, int64_t{3}, int64_t{4}, int64_t{5},
                               int64_t{6}, int64_t{7}, int64_t{8}})
      ASSERT_TRUE(engine->Run({{Tensor::Allocate(TensorType(DType::kFloat32, Shape{rows, 256}))}}));
    EXPECT_EQ(engine->prepared().count, most == 16 ? 9 : 8);
  }
}

// Each step as it is reported: of a Program, of an open node, of a subgraph; two timed runs.
TEST(Regions, CollectsEachStep) {
  const Graph graph = Parsed(R"(input %x: float32[2, 30]
input %n: int64[]
a: %a = Sin(%x)
loop: %last = Loop{captured=0}(%n, _, %a)
| graph "round"
| input %i: int64[]
| input %c: bool[]
| input %s: float32[...]
| const %w: float32[30, 30]
| p: %p = MatMul(%s, %w)
| same: %d = Identity(%c)
| output %d
| output %p
nz: %z = NonZero(%last)
output %z
)");
  const auto engine = EngineOf(graph);
  const std::vector<Tensor> inputs = {Floats(std::vector<float>(60, 0.5f), {2, 30}),
                                      Tensor::Scalar<int64_t>(3)};
  ASSERT_TRUE(engine->Run(inputs));
  RegionsOf(*engine).Time(true);
  for (int run = 0; run < 2; ++run) ASSERT_TRUE(engine->Run(inputs));
  std::vector<RegionStep> steps;
  RegionsOf(*engine).region()->Collect("of/", steps);
  const auto said = [&](const std::string& name) {
    std::string all;
    for (const RegionStep& s : steps) {
      if (s.name != name) continue;
      EXPECT_GE(s.ns, 0) << name;
      all += fmt::format("{} {} {} {} {} {};", s.op, s.kernel, PrecisionName(s.precision), s.macs,
                         s.bytes, s.runs);
    }
    return all;
  };
  // 2 x 30 floats in and out; 2 x 30 times 30 x 30 products, on as many bytes and 30 x 30 floats.
  EXPECT_EQ(said("of/a"), "Sin Sin_f32 float32 0 480 2;");
  EXPECT_EQ(said("of/loop"), "Loop subgraph any 0 0 2;");
  EXPECT_EQ(said("of/loop/p"), "MatMul matmul_f32 float32 1800 4080 6;");
  EXPECT_EQ(said("of/nz"), "NonZero reference any 0 0 2;");
}

// Constants and arenas of what comes first, of a subgraph, and of what waits for an open node: 4, 4
// and 1 floats, and a block of 64 bytes each for what lies between two steps.
TEST(Regions, MemoryOfAllParts) {
  const Graph graph = Parsed(R"(input %x: float32[4]
input %n: int64[]
const %w: float32[4] = [1.5, 2.5, 3.5, 4.5]
a: %a = Mul(%x, %w)
b: %b = Sin(%a)
loop: %last = Loop{captured=0}(%n, _, %b)
| graph "round"
| input %i: int64[]
| input %c: bool[]
| input %s: float32[4]
| const %w: float32[4] = [2.5, 3.5, 4.5, 5.5]
| p: %p = Sub(%s, %w)
| q: %q = Sin(%p)
| same: %d = Identity(%c)
| output %d
| output %q
nz: %z = NonZero(%last)
f: %f = Cast{to=1}(%z)
t: %t = Sin(%f)
const %v: float32[1] = [5.0]
u: %u = Add(%t, %v)
output %u
)");
  const auto engine = EngineOf(graph);
  ASSERT_TRUE(engine->Run({{Floats({1, 2, 3, 4}, {4}), Tensor::Scalar<int64_t>(2)}}));
  EXPECT_EQ(engine->partitions()->weight_bytes(), (4 + 4 + 1) * 4);
  EXPECT_EQ(engine->partitions()->arena_bytes(), 3 * 64);
}

TEST(Regions, ErrorsNameTheInput) {
  const Graph graph = Parsed(kLoop);
  const auto engine = EngineOf(graph);
  const auto wrong =
      engine->Run({{Tensor::Scalar<int64_t>(1), Tensor::Scalar<int64_t>(1), Tensor::Scalar(true)}});
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message().find("input x"), std::string::npos) << wrong.error().message();
}

}  // namespace
}  // namespace evoq
