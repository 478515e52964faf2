// The memory of an executor: what it holds, for how many threads, and what it refuses.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "compile/choose.h"
#include "compile/compile.h"
#include "kernels/kernel.h"
#include "models/models.h"
#include "reference/reference.h"
#include "runtime/executor.h"
#include "tests/sanitized.h"

namespace evoq {
namespace {

std::shared_ptr<Program> Compiled(std::string_view text) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph) << graph.error().message();
  const Model model = LowerAndPack(std::move(*graph)).value();
  return std::make_shared<Program>(Compile(model, kReference).value());
}

Result<std::unique_ptr<Executor>> ExecutorOf(std::shared_ptr<const Program> program, int threads,
                                             int64_t repeats) {
  return Executor::Create(std::move(program), {threads, SelectIsa().value(), repeats, nullptr});
}

// Its kernel needs scratch for b's panels.
constexpr char kProduct[] = R"(input %a: float32[1, 2, 40]
input %b: float32[1, 40, 5]
p: %p: float32[1, 2, 5] = MatMul(%a, %b)
r: %y: float32[1, 2, 5] = Sin(%p)
output %y
)";

// Scratch counts once, an arena and scratch for each thread where threads take whole runs.
TEST(ExecutorMemory, LanesAreOnePerThread) {
  const auto program = Compiled(kProduct);
  ASSERT_GT(program->arena_bytes(), 0);
  const int64_t one = ExecutorOf(program, 1, 1).value()->arena_bytes();
  EXPECT_GE(one, program->arena_bytes() + 40 * 5 * 4) << "no panels of b";
  EXPECT_EQ(ExecutorOf(program, 3, 1).value()->arena_bytes(), one);
  EXPECT_EQ(ExecutorOf(program, 1, 5).value()->arena_bytes(), one);
  EXPECT_EQ(ExecutorOf(program, 2, 2).value()->arena_bytes(), 2 * one);
  EXPECT_EQ(ExecutorOf(program, 3, 2).value()->arena_bytes(), 3 * one);
}

// An arena, scratch, inputs and outputs count together: 7/8 of the memory are for them. The limit
// is the process's, so that a machine of any size will do.
TEST(ExecutorMemory, ScratchCountsToo) {
#ifdef EVOQ_SANITIZED
  GTEST_SKIP() << "a limit on address space, which sanitizers do not bear";
#endif
  const auto program = Compiled(kProduct);
  const int64_t scratch =
      ExecutorOf(program, 1, 1).value()->arena_bytes() - (program->arena_bytes() + 63) / 64 * 64;
  constexpr int64_t kLimit = int64_t{1} << 30, kMost = kLimit / 8 * 7;
  const int64_t ends = (2 * 40 + 40 * 5 + 2 * 5) * 4;
  const auto refused = [&](int64_t arena, int threads, int64_t repeats, int64_t bytes) {
    program->arenas[0].bytes = arena;
    const rlimit memory{rlim_t{kLimit}, rlim_t{kLimit}};
    setrlimit(RLIMIT_AS, &memory);
    const auto executor = ExecutorOf(program, threads, repeats);
    const std::string error = executor ? "not refused" : executor.error().message();
    if (error != fmt::format("a run needs {} bytes of memory, expected at most 7/8 of this "
                             "machine's {}",
                             bytes, kLimit)) {
      fmt::print(stderr, "{}\n", error);
      _exit(1);
    }
    _exit(0);
  };
  const auto good = testing::ExitedWithCode(0);
  // With no room left for scratch, and one byte less; not even the arena.
  EXPECT_EXIT(refused(kMost - ends, 1, 1, kMost + scratch), good, "");
  EXPECT_EXIT(refused(kMost - ends - scratch + 1, 1, 1, kMost + 1), good, "");
  EXPECT_EXIT(refused(kMost - ends + 1, 1, 1, kMost + 1), good, "");
  // Three lanes, each with its scratch, and two runs' inputs and outputs.
  EXPECT_EXIT(refused(kMost / 2, 3, 2, kMost / 2 * 3 + 2 * ends), good, "");
  const int64_t third = (kMost - 2 * ends) / 3;
  EXPECT_EXIT(refused(third, 3, 2, 3 * (third + scratch) + 2 * ends), good, "");
}

// Sizes that no tensor can have: of an input, of an output, in elements and in bytes.
TEST(ExecutorMemory, RepeatsBeyondAllSizes) {
  const auto error = [](const char* text, int64_t repeats) -> std::string {
    const auto executor = ExecutorOf(Compiled(text), 1, repeats);
    if (executor) return "";
    EXPECT_EQ(executor.error().code(), ErrorCode::kTooLarge);
    return executor.error().message();
  };
  constexpr char kThree[] = "input %x: float32[3, 1]\nn: %y: float32[3, 1] = Neg(%x)\noutput %y\n";
  EXPECT_EQ(error(kThree, int64_t{1} << 62), "x: 4611686018427387904 samples");
  EXPECT_EQ(error(kThree, int64_t{1} << 60), "x: 1152921504606846976 samples") << "in bytes";
  EXPECT_EQ(error("input %x: uint8[1]\nconst %c: uint8[4, 1]\na: %y: uint8[4, 1] = Add(%x, %c)\n"
                  "output %y\n",
                  int64_t{1} << 59),
            "y: 576460752303423488 samples");
}

constexpr char kConv[] = R"(input %x: float32[1, 16, 20, 20]
const %w: float32[32, 16, 3, 3]
c: %y: float32[1, 32, 20, 20] = Conv{pads=[1, 1, 1, 1]}(%x, %w)
output %y
)";

// Transposes stand around it.
Step& ConvOf(Program& program) {
  const auto is_conv = [&](const Step& s) { return program.graph->node(s.node).op == "Conv"; };
  return *std::find_if(program.steps.begin(), program.steps.end(), is_conv);
}

// What a step's tuning says: the variant by its name, and one thread, which needs the scratch of
// one.
TEST(ExecutorTuning, IsFollowed) {
  const auto program = Compiled(kConv);
  Step& step = ConvOf(*program);
  const KernelDef* kernel = FindKernel(step.decision.kernel);
  ASSERT_TRUE(kernel != nullptr && kernel->variants != nullptr) << step.decision.kernel;
  const NodeCall args(*program->graph, program->graph->node(step.node));
  const auto names = kernel->variants(args.call, {SelectIsa().value(), 1, {}});
  ASSERT_EQ(names.size(), 3u);
  std::set<std::string> chosen;
  int64_t most = 0;
  for (const std::string& name : names) {
    step.tuning = {name, 0, {}};
    const auto alone = ExecutorOf(program, 1, 1).value(), all = ExecutorOf(program, 4, 1).value();
    chosen.insert(alone->plans().at(static_cast<size_t>(&step - program->steps.data())).ToString());
    EXPECT_GE(all->arena_bytes(), alone->arena_bytes());
    most = std::max(most, all->arena_bytes() - alone->arena_bytes());
    step.tuning.threads = 1;
    EXPECT_EQ(ExecutorOf(program, 4, 1).value()->arena_bytes(), alone->arena_bytes()) << name;
    // Each of two lanes has its arena, and one thread on it.
    step.tuning.threads = 0;
    EXPECT_EQ(ExecutorOf(program, 2, 2).value()->arena_bytes(), 2 * alone->arena_bytes()) << name;
  }
  EXPECT_EQ(chosen.size(), 3u);
  EXPECT_GT(most, 0) << "no variant needs more for several threads";
}

// Programs are data: what names a kernel that is not there, or that cannot compute the step, is
// refused with the step's name.
TEST(ExecutorKernels, ThatDoNotFit) {
  const auto error = [](const std::string& kernel) {
    const auto program = Compiled(kConv);
    Step& conv = ConvOf(*program);
    conv.decision.kernel = kernel;
    conv.kernel = FindKernel(kernel);
    const auto executor = ExecutorOf(program, 1, 1);
    return executor ? "" : executor.error().message();
  };
  EXPECT_EQ(error("nothing"), "node c (Conv): unknown kernel 'nothing'");
  const std::string other = error("conv_int8");
  EXPECT_TRUE(other.starts_with("node c (Conv): kernel conv_int8 does not take it: ")) << other;
  EXPECT_EQ(error("conv_f32"), "");
}

// Samples whose bytes add up to more than 64 bits hold are refused as those that the machine lacks.
TEST(ExecutorMemory, SumsThatDoNotFit) {
  std::string inputs, nodes, outputs;
  for (int i = 0; i < 20; ++i) {
    inputs += fmt::format("input %x{}: float32[1, 64]\n", i);
    nodes += fmt::format("r{0}: %y{0}: float32[1, 64] = Relu(%x{0})\n", i);
    outputs += fmt::format("output %y{}\n", i);
  }
  const auto refused = ExecutorOf(Compiled(inputs + nodes + outputs), 1, int64_t{1} << 50);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kTooLarge);
  EXPECT_TRUE(refused.error().message().starts_with("a run needs more than 2^63 bytes"))
      << refused.error().message();
}

// A sample goes to copies; times are written over whatever was there.
TEST(ExecutorCopies, HaveTheSample) {
  const auto executor = ExecutorOf(Compiled(kProduct), 1, 1).value();
  EXPECT_TRUE(executor->Fresh().value()->sample().empty());
  std::vector<Tensor> inputs, outputs;
  for (const TensorType& type : executor->input_types()) inputs.push_back(Tensor::Allocate(type));
  for (const TensorType& type : executor->output_types()) outputs.push_back(Tensor::Allocate(type));
  executor->UseSample(inputs);
  EXPECT_EQ(executor->Another().value()->sample().size(), 2u);
  EXPECT_EQ(executor->Fresh().value()->sample().size(), 2u);
  constexpr int64_t kYear = int64_t{365} * 24 * 3600 * 1'000'000'000;
  std::vector<int64_t> ns(executor->program().steps.size(), kYear);
  ASSERT_TRUE(executor->RunTimed(inputs, outputs, ns));
  for (const int64_t t : ns) EXPECT_LT(t, kYear);
}

}  // namespace
}  // namespace evoq
