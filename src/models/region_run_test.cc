// The steps and times of models that are no single Program.
#include "models/region_run.h"

#include <gtest/gtest.h>

#include <chrono>

#include "models/models.h"
#include "program/etm.h"
#include "reference/reference.h"
#include "runtime/buffers.h"

namespace evoq {
namespace {

std::unique_ptr<Engine> EngineOf(const std::string& text) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph) << graph.error().message();
  EXPECT_TRUE(InferTypes(*graph));
  EXPECT_TRUE(RunPasses(*graph, Stage::kOptimize));
  auto engine = EngineFromGraph(std::move(*graph), {.threads = 2});
  EXPECT_TRUE(engine) << engine.error().message();
  return std::move(*engine);
}

Tensor Ramp(Shape shape) {
  Tensor t = Tensor::Allocate(TensorType(DType::kFloat32, std::move(shape)));
  for (int64_t i = 0; i < t.elements(); ++i)
    t.mutable_data<float>()[i] = 0.01f * static_cast<float>(i % 7) + 0.001f;
  return t;
}

std::shared_ptr<Runnable> RunnableOn(Engine& engine, std::vector<Tensor> inputs) {
  auto runnable = engine.RunnableFor(std::move(inputs));
  EXPECT_TRUE(runnable) << runnable.error().message();
  return *runnable;
}

size_t StepNamed(const Runnable& runnable, const std::string& name) {
  const Program& program = runnable.program();
  size_t found = program.steps.size();
  for (size_t s = 0; s < program.steps.size(); ++s) {
    if (program.graph->node(program.steps[s].node).name != name) continue;
    EXPECT_EQ(found, program.steps.size()) << name << " stands twice";
    found = s;
  }
  EXPECT_LT(found, program.steps.size()) << "no step " << name;
  return found;
}

constexpr char kLoop[] = R"(input %x: float32[4, 16]
input %n: int64[]
const %w1: float32[16, 8]
loop: %last = Loop(%n, _, %x)
| input %i: int64[]
| input %c: bool[]
| input %s: float32[4, 16]
| const %w: float32[16, 16]
| p: %p = MatMul(%s, %w)
| same: %d = Identity(%c)
| output %d
| output %p
after: %y = MatMul(%last, %w1)
output %y
)";

// 4 x 16 times 16 x 16 are 1024 multiply-accumulates in each of the n rounds; 4 x 16 times 16 x 8
// are 512, once. A round reads 256 and 1024 bytes and writes 256; the last product reads 256 and
// 512 and writes 128. The weights of both are held once, in panels that may be wider than 8
// columns.
TEST(RegionRun, ALoopsBodyIsCountedByItsRounds) {
  for (const int64_t n : {1, 5, 12}) {
    const auto engine = EngineOf(kLoop);
    const auto runnable = RunnableOn(*engine, {Ramp({4, 16}), Tensor::Scalar<int64_t>(n)});
    const Program& program = runnable->program();
    const size_t body = StepNamed(*runnable, "loop/p"), after = StepNamed(*runnable, "after"),
                 loop = StepNamed(*runnable, "loop");
    EXPECT_EQ(program.steps[body].macs, 1024 * n);
    EXPECT_EQ(runnable->step_runs()[body], n);
    EXPECT_EQ(program.steps[after].macs, 512);
    EXPECT_EQ(program.steps[body].bytes, (256 + 1024 + 256) * n);
    EXPECT_EQ(program.steps[after].bytes, 256 + 512 + 128);
    EXPECT_GE(program.weight_bytes, 1024 + 512);
    EXPECT_LT(program.weight_bytes, 2 * (1024 + 512));
    EXPECT_EQ(program.arena_bytes(), runnable->arena_bytes());
    EXPECT_EQ(runnable->step_runs()[after], 1);
    EXPECT_EQ(program.steps[loop].decision.kernel, kSubgraphKernel);
    EXPECT_EQ(runnable->step_runs()[loop], 1);
  }
}

TEST(RegionRun, ALoopThatDoesNotRunHasNoBody) {
  const auto engine = EngineOf(kLoop);
  const auto runnable = RunnableOn(*engine, {Ramp({4, 16}), Tensor::Scalar<int64_t>(0)});
  const Program& program = runnable->program();
  for (const Step& step : program.steps) EXPECT_NE(program.graph->node(step.node).name, "loop/p");
}

// Steps stand in the order in which they run, and values lead from one partition to the next: what
// reads the places that NonZero found has it as its producer, through the Transpose that is a
// partition's first step.
TEST(RegionRun, PartitionsAreLinked) {
  const auto engine = EngineOf(
      "input %x: float32[2, 4]\nr: %r = Relu(%x)\nnz: %i = NonZero(%r)\nf: %f = Cast{to=1}(%i)\nt: "
      "%t = Transpose{perm=[1, 0]}(%f)\n"
      "const %m: float32[2, 3]\np: %p = MatMul(%t, %m)\noutput %r\noutput %p\n");
  const auto runnable = RunnableOn(*engine, {Ramp({2, 4})});
  const Program& program = runnable->program();
  const Graph& graph = *program.graph;
  const size_t relu = StepNamed(*runnable, "r"), found = StepNamed(*runnable, "nz"),
               product = StepNamed(*runnable, "p");
  EXPECT_LT(relu, found);
  EXPECT_LT(found, product);
  EXPECT_EQ(graph.value(graph.node(program.steps[found].node).input(0)).producer,
            program.steps[relu].node);
  // All 8 elements are positive: 8 rows of 2 times 2 x 3.
  EXPECT_EQ(program.steps[product].macs, 8 * 2 * 3);
  EXPECT_GE(runnable->arena_bytes(), 8 * 2 * 4) << "the second partition's rows";
  EXPECT_EQ(graph.value(graph.node(program.steps[found].node).outputs[0]).type.shape.ToString(),
            "[2, 8]");
  NodeId at = program.steps[product].node;
  for (int hops = 0; hops < 4 && at.valid() && at != program.steps[found].node; ++hops)
    at = graph.value(graph.node(at).input(0)).producer;
  EXPECT_EQ(at, program.steps[found].node);
  ASSERT_EQ(graph.inputs().size(), 1u);
  EXPECT_EQ(graph.value(graph.inputs()[0]).name, "x");
  EXPECT_EQ(graph.outputs().size(), 2u);
  EXPECT_EQ(runnable->output_types()[1].shape.ToString(), "[8, 3]");
}

// The steps of a body take most of the time of the step that runs it, and are not counted in it:
// all together they take no longer than the run, in each run anew.
TEST(RegionRun, TimesAreOfEachRun) {
  const auto engine = EngineOf(R"(input %x: float32[128, 128]
input %n: int64[]
loop: %last = Loop(%n, _, %x)
| input %i: int64[]
| input %c: bool[]
| input %s: float32[128, 128]
| p: %p = MatMul(%s, %s)
| same: %d = Identity(%c)
| output %d
| output %p
output %last
)");
  const auto runnable = RunnableOn(*engine, {Ramp({128, 128}), Tensor::Scalar<int64_t>(20)});
  RunBuffers buffers = MakeBuffers(*runnable);
  std::vector<int64_t> first(runnable->program().steps.size()), ns(first.size());
  for (std::vector<int64_t>* times : {&first, &ns}) {
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(runnable->RunTimed(buffers.inputs, buffers.outputs, *times));
    const auto wall = std::chrono::duration_cast<std::chrono::nanoseconds>(
                          std::chrono::steady_clock::now() - start)
                          .count();
    int64_t sum = 0;
    for (const int64_t t : *times) sum += t;
    EXPECT_GT((*times)[StepNamed(*runnable, "loop/p")], 0);
    EXPECT_LE(sum, wall);  // of this run alone
  }
}

TEST(RegionRun, RefusesAnotherNumberOfTensors) {
  const auto engine = EngineOf(
      "input %x: float32[4]\nnz: %i = NonZero(%x)\nr: %r = Relu(%x)\n"
      "output %i\noutput %r\n");
  const auto runnable = RunnableOn(*engine, {Ramp({4})});
  RunBuffers buffers = MakeBuffers(*runnable);
  std::vector<int64_t> ns(runnable->program().steps.size());
  for (const size_t outputs : {0, 1, 3}) {
    std::vector<Tensor> to(outputs);
    const auto refused = [&](const Status& status) {
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code(), ErrorCode::kUsage);
      EXPECT_EQ(status.error().message(), fmt::format("{} outputs given, expected 2", outputs));
    };
    refused(runnable->Run(buffers.inputs, to));
    refused(runnable->RunTimed(buffers.inputs, to, ns));
  }
  for (const size_t inputs : {0, 2}) {
    const std::vector<Tensor> from(inputs, Ramp({4}));
    const Status status = runnable->Run(from, buffers.outputs);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), ErrorCode::kUsage) << status.error().message();
  }
  EXPECT_TRUE(runnable->Run(buffers.inputs, buffers.outputs));
}

// A copy runs without preparing anything again, gives the same outputs and has the same steps.
TEST(RegionRun, FreshIsTheSameModel) {
  const auto engine = EngineOf(kLoop);
  const auto runnable = RunnableOn(*engine, {Ramp({4, 16}), Tensor::Scalar<int64_t>(7)});
  auto fresh = runnable->Fresh(std::make_shared<ThreadPool>(2));
  ASSERT_TRUE(fresh) << fresh.error().message();
  EXPECT_EQ(&(*fresh)->program(), &runnable->program());
  RunBuffers a = MakeBuffers(*runnable), b = MakeBuffers(**fresh);
  ASSERT_TRUE(runnable->Run(a.inputs, a.outputs));
  ASSERT_TRUE((*fresh)->Run(b.inputs, b.outputs));
  EXPECT_TRUE(BitEqual(a.outputs[0], b.outputs[0]));
  const auto wanted = engine->Run(a.inputs);
  ASSERT_TRUE(wanted);
  EXPECT_TRUE(BitEqual(b.outputs[0], (*wanted)[0]));
  std::vector<int64_t> ns((*fresh)->program().steps.size());
  ASSERT_TRUE((*fresh)->RunTimed(b.inputs, b.outputs, ns));
  EXPECT_GT(ns[StepNamed(**fresh, "loop/p")], 0);
  EXPECT_EQ((*fresh)->arena_bytes(), runnable->arena_bytes());
  // With threads of its own: as many.
  const auto alone = runnable->Fresh();
  ASSERT_TRUE(alone) << alone.error().message();
  EXPECT_EQ((*alone)->threads(), runnable->threads());
}

// Free sizes that nobody names: packed without a plan, and run at any.
TEST(FreeSizes, AModelWithoutAPlanRunsAtAnySize) {
  auto graph = ParseGraph(
      "input %x: float32[N, S, 4]\nconst %w: float32[4, 2] = [1.0, -2.0, 0.5, 1.0, 0.25, 3.0, "
      "-1.0, 0.0]\np: %y = MatMul(%x, %w)\noutput %y\n");
  ASSERT_TRUE(graph);
  ASSERT_TRUE(InferTypes(*graph));
  const auto none = LowerAndPack(*graph);
  ASSERT_TRUE(none) << none.error().message();
  EXPECT_TRUE(none->plans.empty());
  const auto planned = LowerAndPack(*graph, {{"x", {1, 5, 4}}});
  ASSERT_TRUE(planned);
  ASSERT_EQ(planned->plans.size(), 1u);
  EXPECT_EQ(planned->graph.value(planned->graph.inputs()[0]).type.ToString(), "float32[N, S, 4]");
  EXPECT_FALSE(LowerAndPack(*graph, {{"x", {1, 5, 5}}}));
  for (const Model* model : {&*none, &*planned}) {
    const std::string path = testing::TempDir() + "evoq_free_sizes.etm";
    ASSERT_TRUE(WriteEtm(*model, path));
    const auto engine = LoadEngine(path, {.threads = 1});
    ASSERT_TRUE(engine) << engine.error().message();
    for (const Shape& shape : {Shape{1, 5, 4}, Shape{2, 3, 4}, Shape{1, 1, 4}, Shape{3, 8, 4}}) {
      const std::vector<Tensor> inputs = {Ramp(shape)};
      const auto wanted = EvaluateGraph(*graph, inputs), got = (*engine)->Run(inputs);
      ASSERT_TRUE(got) << got.error().message();
      ASSERT_EQ((*got)[0].type().ToString(), (*wanted)[0].type().ToString());
      for (int64_t i = 0; i < (*got)[0].elements(); ++i)
        EXPECT_NEAR((*got)[0].data<float>()[i], (*wanted)[0].data<float>()[i], 1e-6);
    }
  }
}

}  // namespace
}  // namespace evoq
