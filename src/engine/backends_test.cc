// Programs whose steps run on several backends: who computes what, what is copied between their
// memories, and that results are those of the processor alone.
#include <gtest/gtest.h>

#include "base/isa.h"
#include "compile/compile.h"
#include "kernels/apart_testing.h"
#include "ops/test_graph.h"
#include "runtime/buffers.h"
#include "runtime/executor.h"

namespace evoq {
namespace {

using apart::First;
using apart::Second;

// Relu and both sums run apart, the product elsewhere, the rest on the processor.
constexpr char kMixed[] = R"(graph g
input %x: float32[4, 8]
const %w: float32[8, 8]
first: %a: float32[4, 8] = Relu(%x)
second: %b: float32[4, 8] = Add(%a, %x)
host: %c: float32[4, 8] = Neg(%b)
third: %d: float32[4, 8] = Add(%c, %a)
product: %p: float32[4, 8] = MatMul(%d, %w)
flat: %f: float32[32] = Flatten(%a)
last: %y: float32[32] = Neg(%f)
output %p
output %y
)";

const Target kApart({&apart::kBackend}), kBoth({&apart::kBackend, &apart::kOther});

Model Packed(const std::string& text, const Target& target = Target()) {
  Graph graph = Parsed(text);
  for (int i = 0; i < graph.value_count(); ++i) {
    const ValueId id{i};
    if (!graph.value(id).is_constant()) continue;
    Tensor values = Tensor::Allocate(graph.value(id).type);
    FillForSpeed(values, 7);
    graph.SetConstant(id, std::move(values));
  }
  auto model = PackModel(std::move(graph), kNoEvaluator, {}, target);
  EXPECT_TRUE(model) << model.error().message();
  return std::move(*model);
}

std::shared_ptr<const Program> CompiledFor(const Model& model, const Target& target) {
  auto program = Compile(model, kNoEvaluator, {}, {}, nullptr, target);
  EXPECT_TRUE(program) << program.error().message();
  return std::make_shared<const Program>(std::move(*program));
}

Result<std::unique_ptr<Executor>> ExecutorOf(std::shared_ptr<const Program> program,
                                             int threads = 1, int64_t repeats = 1) {
  return Executor::Create(std::move(program), {threads, SelectIsa().value(), repeats, nullptr});
}

// The outputs of one run on numbers that depend on `seed`.
std::vector<Tensor> RunOf(Executor& executor, uint32_t seed = 1) {
  RunBuffers buffers = MakeBuffers(executor, seed);
  const Status ran = executor.Run(buffers.inputs, buffers.outputs);
  EXPECT_TRUE(ran) << ran.error().message();
  return buffers.outputs;
}

std::unique_ptr<Executor> ExecutorOn(const Model& model, const Target& target,
                                     int64_t repeats = 1) {
  auto executor = ExecutorOf(CompiledFor(model, target), 1, repeats);
  EXPECT_TRUE(executor) << executor.error().message();
  return std::move(*executor);
}

void ExpectSame(const std::vector<Tensor>& found, const std::vector<Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(BitEqual(found[i], expected[i])) << "output " << i;
}

// The executor gives what the processor alone gives, on the same numbers.
void ExpectAsAlone(Executor& executor, const Model& model, uint32_t seed = 1) {
  ExpectSame(RunOf(executor, seed), RunOf(*ExecutorOn(model, Target(), executor.repeats()), seed));
}

// A program that is packed and compiled for the same target.
std::shared_ptr<const Program> ProgramFor(const std::string& text, const Target& target) {
  return CompiledFor(Packed(text, target), target);
}

std::string Names(const Program& program, const char* kernel = nullptr) {
  std::string names;
  for (const Step& step : program.steps) {
    if (kernel != nullptr && step.decision.kernel != kernel) continue;
    names += (names.empty() ? "" : " ") + program.graph->node(step.node).name;
  }
  return names;
}

const Step& StepOf(const Program& program, const std::string& name) {
  for (const Step& step : program.steps) {
    if (program.graph->node(step.node).name == name) return step;
  }
  ADD_FAILURE() << name;
  return program.steps[0];
}

class Backends : public testing::Test {
 protected:
  void SetUp() override { First::counts = Second::counts = {}; }
};

TEST_F(Backends, TheProcessorIsTheLastResort) {
  ASSERT_EQ(Target().backends().size(), 1) << "of this build";
  EXPECT_EQ(Target().backends()[0], &kProcessor);
  EXPECT_TRUE(Target().HasOneMemory());
  EXPECT_FALSE(kApart.HasOneMemory());
  ASSERT_EQ(kBoth.backends().size(), 3);
  EXPECT_EQ(kBoth.backends()[2], &kProcessor);
  EXPECT_EQ(kBoth.Find("elsewhere_matmul").backend, &apart::kOther);
  EXPECT_EQ(kBoth.Find("matmul_f32").backend, &kProcessor);
  EXPECT_EQ(kApart.Find("elsewhere_matmul").kernel, nullptr);
  const Target told({&kProcessor, &apart::kBackend});
  ASSERT_EQ(told.backends().size(), 2) << "the processor is there already";
  EXPECT_EQ(told.backends()[1], &kProcessor);
}

TEST_F(Backends, TwoShareAGraph) {
  const Model model = Packed(kMixed);
  const auto mixed = CompiledFor(model, kApart);
  for (const char* name : {"first", "second", "third"}) {
    EXPECT_EQ(StepOf(*mixed, name).backend, &apart::kBackend) << name;
    EXPECT_EQ(StepOf(*mixed, name).writes, apart::kBackend.memory) << name;
  }
  for (const char* name : {"host", "product", "last"})
    EXPECT_EQ(StepOf(*mixed, name).backend, &kProcessor) << name;
  const auto executor = ExecutorOf(mixed).value();
  for (uint32_t seed : {1u, 2u, 1u}) ExpectAsAlone(*executor, model, seed);
}

// Each value once for each memory that reads it; what is on the processor's side of a backend's
// value is copied back once, also where a view of it is read.
TEST_F(Backends, CopiesAreStepsWithNames) {
  const auto program = CompiledFor(Packed(kMixed), kApart);
  EXPECT_EQ(Names(*program, kTransferKernel),
            "copy_x_to_apart copy_b_to_host copy_c_to_apart copy_d_to_host copy_a_to_host");
  for (const Step& step : program->steps) {
    if (step.decision.kernel != kTransferKernel) continue;
    EXPECT_EQ(step.backend, &apart::kBackend) << "who owns the memory";
    EXPECT_EQ(step.bytes, 2 * 4 * 8 * 4) << "read and written";
    EXPECT_EQ(step.macs, 0);
  }
  const auto executor = ExecutorOf(program).value();
  const apart::Counts bound = First::counts;
  EXPECT_EQ(bound.written, 0) << "no constant is read apart";
  RunOf(*executor);
  EXPECT_EQ(First::counts.written, 2);
  EXPECT_EQ(First::counts.read, 3);
  EXPECT_EQ(First::counts.written_bytes, 2 * 4 * 8 * 4);
  EXPECT_EQ(First::counts.read_bytes, 3 * 4 * 8 * 4);
  RunOf(*executor);
  EXPECT_EQ(First::counts.written, 4) << "the same in each run";
  EXPECT_EQ(First::counts.read, 6);
  EXPECT_EQ(Names(*CompiledFor(Packed(kMixed), Target()), kTransferKernel), "");
}

TEST_F(Backends, EachMemoryHasAnArena) {
  const auto program = CompiledFor(Packed(kMixed), kApart);
  ASSERT_EQ(program->arenas.size(), 2);
  EXPECT_EQ(program->arenas[0].space, &kHostMemory);
  EXPECT_EQ(program->arenas[1].space, apart::kBackend.memory);
  // On the host c overwrites b, and d and f come when the one before is gone; apart b is made while
  // a and x are there, d while a and c are.
  constexpr int64_t kValue = 4 * 8 * 4;
  EXPECT_EQ(program->arenas[0].bytes, kValue);
  EXPECT_EQ(program->arenas[1].bytes, 3 * kValue);
  EXPECT_EQ(program->arena_bytes(), program->arenas[0].bytes + program->arenas[1].bytes);
  EXPECT_EQ(program->live_bytes, 4 * kValue);
  const Graph& graph = *program->graph;
  for (const Step& step : program->steps) {
    for (ValueId id : graph.node(step.node).outputs) {
      const Placement& place = program->placements[id.index];
      if (place.kind == Placement::Kind::kArena)
        EXPECT_EQ(place.space, step.writes) << graph.value(id).name;
    }
  }
  EXPECT_NE(Print(*program).find("apart@0"), std::string::npos) << Print(*program);
  EXPECT_EQ(Print(*CompiledFor(Packed(kMixed), Target())).find("apart"), std::string::npos);
  const int64_t scratch = 64;  // of the kernels apart
  EXPECT_EQ(ExecutorOf(program).value()->arena_bytes(), program->arena_bytes() + scratch);
}

// Constants are copied to a backend's memory once, when the executor is made.
TEST_F(Backends, ConstantsAreWhereTheyAreRead) {
  const Model model = Packed(kMixed, kBoth);
  const auto program = CompiledFor(model, kBoth);
  EXPECT_EQ(StepOf(*program, "product").decision.kernel, "elsewhere_matmul");
  EXPECT_EQ(Second::counts.written, 0);
  const auto executor = ExecutorOf(program).value();
  EXPECT_EQ(Second::counts.written, 1);
  EXPECT_EQ(Second::counts.written_bytes, 8 * 8 * 4);
  const std::vector<Tensor> found = RunOf(*executor);
  const std::vector<Tensor> expected = RunOf(*ExecutorOn(model, Target()));
  ASSERT_EQ(found[0].elements(), 32);
  for (int64_t i = 0; i < 32; ++i)
    EXPECT_NEAR(found[0].data<float>()[i], expected[0].data<float>()[i], 1e-5);
  // A value goes from one backend to the other by way of the host.
  EXPECT_EQ(Names(*program, kTransferKernel),
            "copy_x_to_apart copy_b_to_host copy_c_to_apart copy_d_to_host copy_d_to_elsewhere "
            "copy_a_to_host copy_p_to_host");
  EXPECT_EQ(Second::counts.written, 2) << "the constant, and d";
  EXPECT_EQ(Second::counts.read, 1);
}

TEST_F(Backends, InputsAndOutputsAreTheHosts) {
  // An input that is an output, a backend's value that is an output and is read, one that is two.
  const Model model = Packed(R"(graph g
input %x: float32[2, 3]
a: %a: float32[2, 3] = Relu(%x)
v: %v: float32[6] = Flatten(%a)
b: %b: float32[2, 3] = Neg(%a)
output %x
output %a
output %v
output %b
)");
  const auto program = CompiledFor(model, kApart);
  ExpectAsAlone(*ExecutorOf(program).value(), model);
  EXPECT_EQ(First::counts.written, 1);
}

TEST_F(Backends, EachThreadHasAStream) {
  const Model model = Packed(kMixed);
  const auto program = CompiledFor(model, kApart);
  const auto executor = ExecutorOf(program, 2, 6).value();
  ExpectAsAlone(*executor, model);
  const auto another = executor->Another().value();
  ExpectAsAlone(*another, model, 5);
  EXPECT_EQ(executor->arena_bytes(), 2 * (program->arena_bytes() + 64));
  EXPECT_EQ(First::counts.opened, 4) << "two lanes in each executor";
}

// What a backend has queued is waited for where each step is timed, and nowhere else.
TEST_F(Backends, StepsAreTimedByThemselves) {
  const auto program = CompiledFor(Packed(kMixed), kApart);
  const auto executor = ExecutorOf(program).value();
  RunBuffers buffers = MakeBuffers(*executor);
  std::vector<int64_t> ns(program->steps.size());
  ASSERT_TRUE(executor->Run(buffers.inputs, buffers.outputs));
  EXPECT_EQ(First::counts.waits, 0);
  ASSERT_TRUE(executor->RunTimed(buffers.inputs, buffers.outputs, ns));
  EXPECT_EQ(First::counts.waits, 8) << "three steps and five copies";
}

// A value and a view of it are copied once, and so is an output that both are.
TEST_F(Backends, ViewsAreCopiedWithWhatTheyView) {
  const Model model = Packed(R"(graph g
input %x: float32[2, 3]
a: %a: float32[2, 3] = Relu(%x)
f: %f: float32[6] = Flatten(%a)
n: %n: float32[2, 3] = Neg(%a)
m: %m: float32[6] = Neg(%f)
output %n
output %m
output %f
)");
  const auto program = CompiledFor(model, kApart);
  EXPECT_EQ(Names(*program, kTransferKernel), "copy_x_to_apart copy_a_to_host");
  const auto executor = ExecutorOf(program).value();
  ExpectAsAlone(*executor, model);
  EXPECT_EQ(First::counts.read, 1);
}

TEST_F(Backends, FailuresAreTheRuns) {
  const Model model = Packed(kMixed);
  const auto program = CompiledFor(model, kApart);
  const auto executor = ExecutorOf(program).value();
  RunBuffers buffers = MakeBuffers(*executor);
  std::vector<int64_t> ns(program->steps.size());
  const auto expect_no_answer = [](const Status& status) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), ErrorCode::kIo);
    EXPECT_EQ(status.error().message(), "apart: the device does not answer");
  };
  for (const apart::Act act : {apart::Act::kWrite, apart::Act::kRead}) {
    First::counts.broken = act;
    expect_no_answer(executor->Run(buffers.inputs, buffers.outputs));
  }
  First::counts.broken = apart::Act::kWait;
  expect_no_answer(executor->RunTimed(buffers.inputs, buffers.outputs, ns));
  First::counts.broken = apart::Act::kNone;
  ExpectAsAlone(*executor, model);
  // Streams and constants are an executor's.
  First::counts.broken = apart::Act::kOpen;
  EXPECT_FALSE(ExecutorOf(program));
  First::counts.broken = apart::Act::kNone;
  const auto with_constants = ProgramFor(kMixed, kBoth);
  for (const apart::Act act : {apart::Act::kWrite, apart::Act::kWait}) {
    Second::counts.broken = act;
    EXPECT_FALSE(ExecutorOf(with_constants));
  }
  Second::counts = {};
  First::counts.full = true;
  const auto full = ExecutorOf(CompiledFor(model, kApart));
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code(), ErrorCode::kTooLarge);
}

// A plan is followed where the target has what it names, and nothing that is preferred takes the
// step.
TEST_F(Backends, PlansOfOtherTargets) {
  const Model apart = Packed(kMixed, kApart), host = Packed(kMixed);
  EXPECT_EQ(apart.plans[0].decisions.at("first").kernel, "apart_relu");
  EXPECT_NE(host.plans[0].decisions.at("first").kernel, "apart_relu");
  EXPECT_EQ(StepOf(*CompiledFor(apart, Target()), "first").backend, &kProcessor);
  EXPECT_EQ(StepOf(*CompiledFor(host, kApart), "first").backend, &apart::kBackend);
  ExpectAsAlone(*ExecutorOn(apart, Target()), host);
  // A preferred kernel that refuses says why; the next backend's takes it.
  const auto program = ProgramFor(R"(graph g
input %x: float32[2, 3]
input %z: float32[3]
s: %y: float32[2, 3] = Add(%x, %z)
output %y
)",
                                  kApart);
  const Decision& decision = StepOf(*program, "s").decision;
  ASSERT_FALSE(decision.rejected.empty());
  EXPECT_EQ(decision.rejected[0].kernel, "apart_add");
  EXPECT_EQ(StepOf(*program, "s").backend, &kProcessor);
}

TEST_F(Backends, ConstantIndicesAreLookedAtBefore) {
  const auto program = ProgramFor(R"(graph g
input %x: float32[4, 3]
const %i: int64[2]
g: %y: float32[2, 3] = Gather(%x, %i)
output %y
)",
                                  kApart);
  EXPECT_EQ(StepOf(*program, "g").backend, &apart::kBackend);
}

// Indices that come with a run, whatever a plan says, are checked before each run, on the host.
TEST_F(Backends, IndicesAreTheProcessors) {
  Model model = Packed(R"(graph g
input %x: float32[4, 3]
input %i: int64[2]
r: %a: float32[4, 3] = Relu(%x)
g: %y: float32[2, 3] = Gather(%a, %i)
output %y
)",
                       kApart);
  EXPECT_NE(model.plans[0].decisions.at("g").kernel, "apart_gather");
  model.plans[0].decisions["g"].kernel = "apart_gather";
  const auto program = CompiledFor(model, kApart);
  EXPECT_EQ(StepOf(*program, "g").backend, &kProcessor);
  const auto executor = ExecutorOf(program).value();
  RunBuffers buffers = MakeBuffers(*executor);
  buffers.inputs[1].mutable_data<int64_t>()[1] = 4;
  EXPECT_FALSE(executor->Run(buffers.inputs, buffers.outputs));
}

}  // namespace
}  // namespace evoq
