// Room: models
// ONNX models from anywhere: importing, optimizing and compiling one gives a result or an error,
// within 5 s of processor time, and what came of a small one runs. Most mutations work on the
// message instead of its bytes (onnx_mutator.h), so that they get past the parser and reach links,
// attributes, upgrades, inference, passes and kernels. Now and then one begins anew, from a crafted
// file of tests/craft.
#include <algorithm>
#include <cstring>

#include "base/budget_scope.h"
#include "base/check.h"
#include "models/models.h"
#include "onnx/onnx.h"
#include "reference/reference.h"
#include "tests/craft/onnx_cases.h"
#include "tests/fuzz/onnx_mutator.h"
#include "tests/fuzz/time_limit.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using namespace evoq;

constexpr int64_t kMaxBytes = 64 << 20, kMaxMacs = 1 << 24;

// How far the inputs got; printed when the fuzzer ends.
struct Counts {
  long inputs = 0, imported = 0, optimized = 0, compiled = 0, ran = 0;
  ~Counts() {
    fmt::print(
        stderr,
        "{} inputs: {} refused by the importer, {} imported, {} optimized, {} compiled, {} ran\n",
        inputs, inputs - imported, imported, optimized, compiled, ran);
  }
} counts;

// What may come of any input is an error, but not a broken invariant.
template <typename T>
bool Holds(const Result<T>& result) {
  if (!result)
    EVOQ_CHECK(result.error().code() != ErrorCode::kInternal, "{}", result.error().message());
  return result.has_value();
}

bool HasBodies(const Graph& graph) {
  return std::any_of(graph.order().begin(), graph.order().end(),
                     [&](NodeId id) { return !graph.node(id).bodies.empty(); });
}

// What a window reads for all outputs, at most.
int64_t WindowTaps(const Graph& graph, const Node& node) {
  double taps = node.outputs[0].valid()
                    ? static_cast<double>(graph.value(node.outputs[0]).type.bytes().value_or(0))
                    : 0;
  if (!node.attrs.Has("kernel_shape")) return 0;
  for (int64_t k : node.attrs.Ints("kernel_shape")) taps *= static_cast<double>(k);
  return static_cast<int64_t>(std::clamp(taps, 0.0, 1e12));
}

// Whether a run is short: a file may ask for an endless loop.
bool IsSmall(const Program& program) {
  int64_t bytes = program.arena_bytes(), macs = 0;
  for (int i = 0; i < program.graph->value_count(); ++i)
    bytes += program.graph->value(ValueId{i}).type.bytes().value_or(0);
  for (const Step& step : program.steps)
    macs += step.macs + WindowTaps(*program.graph, program.graph->node(step.node));
  return bytes <= kMaxBytes && macs <= kMaxMacs && !HasBodies(*program.graph);
}

void RunProgram(Program program, unsigned choice) {
  const Isa wanted = static_cast<Isa>(choice % 4);
  const Isa isa = IsaSupported(wanted) ? wanted : Isa::kScalar;
  auto executor = Executor::Create(std::make_shared<const Program>(std::move(program)), {1, isa});
  if (!Holds(executor)) return;
  std::vector<Tensor> inputs, outputs;
  for (const TensorType& type : (*executor)->input_types()) {
    Tensor input = Tensor::Allocate(type);
    if (choice & 4) std::memset(input.mutable_raw(), choice & 8 ? 1 : 0, input.bytes());
    inputs.push_back(std::move(input));
  }
  for (const TensorType& type : (*executor)->output_types())
    outputs.push_back(Tensor::Allocate(type));
  // An operator may be asked for any amount of work, which its sizes do not tell: definitions draw
  // on the thread's budget.
  const BudgetScope scope(Budget::ForFile(0));
  counts.ran += Holds((*executor)->Run(inputs, outputs));
}

void RunModel(std::span<const std::byte> bytes, unsigned choice) {
  ++counts.inputs;
  auto graph = ImportOnnxBytes(bytes, "fuzz");
  if (!Holds(graph)) return;
  ++counts.imported;
  const auto verified = graph->Verify();
  EVOQ_CHECK(verified.has_value(), "{}", verified.error().message());
  if (!Holds(RunPasses(*graph, Stage::kOptimize))) return;
  ++counts.optimized;
  const auto model = LowerAndPack(std::move(*graph));
  if (!Holds(model)) return;
  auto program = Compile(*model, kReference);
  if (!Holds(program)) return;
  ++counts.compiled;
  if (IsSmall(*program)) RunProgram(std::move(*program), choice);
}

size_t Write(const onnx::ModelProto& model, uint8_t* data, size_t max_size) {
  const std::string bytes = model.SerializeAsString();
  if (bytes.size() > max_size) return 0;
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const TimeLimit limit;
  RunModel(std::as_bytes(std::span(data, size)),
           size == 0 ? 0 : data[size - 1] + static_cast<unsigned>(size));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  onnx::ModelProto model;
  if (size == 0 || seed % 64 == 1) {
    const auto& cases = craft::OnnxCases();
    const std::string& bytes = cases[seed / 64 % cases.size()].bytes;
    if (bytes.size() <= max_size) {
      std::copy(bytes.begin(), bytes.end(), data);
      size = bytes.size();
    }
  }
  if (seed % 32 != 0 && model.ParseFromArray(data, static_cast<int>(size))) {
    MutateModel(model, seed);
    if (const size_t written = Write(model, data, max_size)) return written;
  }
  return LLVMFuzzerMutate(data, size, max_size);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* data1, size_t size1,
                                            const uint8_t* data2, size_t size2, uint8_t* out,
                                            size_t max_size, unsigned int seed) {
  onnx::ModelProto model, other;
  if (!model.ParseFromArray(data1, static_cast<int>(size1)) ||
      !other.ParseFromArray(data2, static_cast<int>(size2)))
    return 0;
  CrossModels(model, other, seed);
  return Write(model, out, max_size);
}
