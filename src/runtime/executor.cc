#include "runtime/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>

#include "base/aligned.h"
#include "base/memory.h"
#include "kernels/kernel.h"
#include "ops/op.h"

namespace evoq {
namespace {

// A step ready to run. Pointers to inputs and outputs of the model are filled in per run.
struct BoundStep {
  BoundKernel kernel;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
};

// inputs/outputs[slot] of a step points to the caller's tensor `index`.
struct Patch {
  int32_t step, slot, index;
};

// What went wrong in the present run, if anything did. Kernels cannot fail; a definition can, on data that it refuses.
using Failure = std::optional<Error>;

// Evaluates a node by its definition: for operators that no kernel takes. Allocates.
struct ReferenceStep {
  Node node;
  std::vector<TensorType> input_types, output_types;
  std::vector<Tensor> constants;
  std::shared_ptr<Failure> failure;

  void Run(const void* const* in, void* const* out, const RunContext&) const {
    std::vector<Tensor> inputs(input_types.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (constants[i].defined()) {
        inputs[i] = constants[i];
      } else if (input_types[i].dtype != DType::kUndefined) {
        inputs[i] = Tensor::View(input_types[i], static_cast<const std::byte*>(in[i]), nullptr);
      }
    }
    const auto results = EvaluateNode(node, inputs, output_types);
    if (!results && !*failure) *failure = results.error();
    for (size_t i = 0; i < output_types.size(); ++i) {
      if (output_types[i].dtype == DType::kUndefined) continue;
      const size_t bytes = static_cast<size_t>(output_types[i].bytes().value_or(0));
      if (results && i < results->size() && (*results)[i].bytes() == bytes) {
        std::memcpy(out[i], (*results)[i].raw(), bytes);
      } else {
        std::memset(out[i], 0, bytes);
      }
    }
  }
};

// Gives a view of an input or a constant a place of its own (a model output must have one).
struct CopyStep {
  size_t bytes;
  void Run(const void* const* in, void* const* out, const RunContext&) const { std::memcpy(out[0], in[0], bytes); }
};

// A step whose outputs have no bytes.
struct NothingStep {
  void Run(const void* const*, void* const*, const RunContext&) const {}
};

bool WritesNothing(std::span<const TensorType> outputs) {
  return std::all_of(outputs.begin(), outputs.end(), [](const TensorType& t) { return t.bytes().value_or(0) == 0; });
}

Result<BoundKernel> BindStep(const Graph& graph, const Step& step, const BindOptions& options,
                             const std::shared_ptr<Failure>& failure) {
  const Node& node = graph.node(step.node);
  std::vector<TensorType> inputs, outputs;
  std::vector<const Tensor*> constants;
  for (ValueId id : node.inputs) {
    inputs.push_back(id.valid() ? graph.value(id).type : TensorType());
    constants.push_back(id.valid() && graph.value(id).is_constant() ? &graph.value(id).constant : nullptr);
  }
  for (ValueId id : node.outputs) outputs.push_back(id.valid() ? graph.value(id).type : TensorType());
  if (WritesNothing(outputs)) return BoundKernel::Of(NothingStep{});
  if (step.decision.kernel == kCopyKernel) return BoundKernel::Of(CopyStep{static_cast<size_t>(*outputs[0].bytes())});
  if (step.decision.kernel == kReferenceKernel) {
    ReferenceStep reference{node, inputs, outputs, {}, failure};
    for (const Tensor* constant : constants) reference.constants.push_back(constant ? *constant : Tensor());
    return BoundKernel::Of(std::move(reference));
  }
  const KernelDef* kernel = FindKernel(step.decision.kernel);
  if (kernel == nullptr) return InvalidInput("unknown kernel '{}'", step.decision.kernel);
  const KernelCall call{node.op, node.attrs, inputs, outputs, constants};
  if (const auto rejection = kernel->reject(call))
    return InvalidInput("kernel {} does not take it: {}", kernel->name, rejection->why);
  return kernel->bind(call, options);
}

}  // namespace

struct Executor::Impl {
  std::shared_ptr<const Program> program;
  ThreadPool pool;
  AlignedBuffer arena, scratch;
  std::vector<BoundStep> steps;
  std::vector<Patch> input_patches, output_patches;
  std::vector<TensorType> input_types, output_types;
  std::vector<std::string> variants;
  std::shared_ptr<Failure> failure = std::make_shared<Failure>();

  explicit Impl(int threads) : pool(threads) {}

  Status CheckMemory(size_t scratch_bytes) const;
  Status Bind(const BindOptions& options);
  void Place(const Graph& graph, int32_t step);
  Status Prepare(std::span<const Tensor> inputs, std::span<Tensor> outputs);
  Status Finish() const;
};

void Executor::Impl::Place(const Graph& graph, int32_t index) {
  const Node& node = graph.node(program->steps[index].node);
  BoundStep& step = steps[index];
  // A node without inputs still hands kernels a valid array.
  step.inputs.assign(std::max<size_t>(node.inputs.size(), 1), nullptr);
  step.outputs.assign(std::max<size_t>(node.outputs.size(), 1), nullptr);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId id = node.inputs[i];
    if (!id.valid()) continue;
    const Placement& place = program->placements[id.index];
    const int32_t slot = static_cast<int32_t>(i), where = static_cast<int32_t>(place.offset);
    switch (place.kind) {
      case Placement::Kind::kConstant: step.inputs[i] = graph.value(ValueId{where}).constant.raw(); break;
      case Placement::Kind::kArena: step.inputs[i] = arena.data() + place.offset; break;
      case Placement::Kind::kInput: input_patches.push_back({index, slot, where}); break;
      case Placement::Kind::kOutput: output_patches.push_back({index, ~slot, where}); break;
      case Placement::Kind::kUnused: break;
    }
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId id = node.outputs[i];
    if (!id.valid()) continue;
    const Placement& place = program->placements[id.index];
    if (place.kind == Placement::Kind::kArena) step.outputs[i] = arena.data() + place.offset;
    if (place.kind == Placement::Kind::kOutput)
      output_patches.push_back({index, static_cast<int32_t>(i), static_cast<int32_t>(place.offset)});
  }
}

// Refuses a run that cannot get its memory: shapes come from files.
Status Executor::Impl::CheckMemory(size_t scratch_bytes) const {
  int64_t bytes = program->arena_bytes + static_cast<int64_t>(scratch_bytes);
  for (const auto* types : {&input_types, &output_types}) {
    for (const TensorType& type : *types) bytes += type.bytes().value_or(0);
  }
  if (const int64_t limit = MemoryLimitBytes(); bytes > limit / 8 * 7)
    return Fail(ErrorCode::kTooLarge, "a run needs {} bytes of memory, expected at most 7/8 of this machine's {}", bytes, limit);
  return {};
}

Status Executor::Impl::Bind(const BindOptions& options) {
  const Graph& graph = *program->graph;
  for (ValueId id : graph.inputs()) input_types.push_back(graph.value(id).type);
  for (ValueId id : graph.outputs()) output_types.push_back(graph.value(id).type);
  EVOQ_TRY(CheckMemory(0));
  arena = AlignedBuffer(static_cast<size_t>(program->arena_bytes));
  std::memset(arena.data(), 0, arena.size());
  steps.resize(program->steps.size());
  size_t scratch_bytes = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = program->steps[i];
    EVOQ_ASSIGN(steps[i].kernel, WithContext(BindStep(graph, step, options, failure), NodeLabel(graph.node(step.node))));
    scratch_bytes = std::max(scratch_bytes, steps[i].kernel.scratch_bytes);
    variants.push_back(steps[i].kernel.variant);
    Place(graph, static_cast<int32_t>(i));
  }
  EVOQ_TRY(CheckMemory(scratch_bytes));
  scratch = AlignedBuffer(scratch_bytes);
  return {};
}

Status Executor::Impl::Prepare(std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  const Graph& graph = *program->graph;
  if (inputs.size() != input_types.size() || outputs.size() != output_types.size())
    return Fail(ErrorCode::kUsage, "{} inputs and {} outputs given, expected {} and {}", inputs.size(), outputs.size(),
                input_types.size(), output_types.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].type() == input_types[i] && inputs[i].layout().empty()) continue;
    return Fail(ErrorCode::kUsage, "input {}: {} given, expected {}", graph.value(graph.inputs()[i]).name,
                inputs[i].type().ToString(), input_types[i].ToString());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].type() == output_types[i]) continue;
    return Fail(ErrorCode::kUsage, "output {}: {} given, expected {}", graph.value(graph.outputs()[i]).name,
                outputs[i].type().ToString(), output_types[i].ToString());
  }
  failure->reset();
  for (const Patch& p : input_patches) steps[p.step].inputs[p.slot] = inputs[p.index].raw();
  for (const Patch& p : output_patches) {
    std::byte* data = outputs[p.index].mutable_raw();
    // A step that reads what another one wrote into a model output: its slot is stored complemented.
    if (p.slot < 0) {
      steps[p.step].inputs[~p.slot] = data;
    } else {
      steps[p.step].outputs[p.slot] = data;
    }
  }
  return {};
}

Status Executor::Impl::Finish() const {
  if (*failure) return tl::unexpected<Error>(**failure);
  return {};
}

Executor::Executor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executor::~Executor() = default;

Result<std::unique_ptr<Executor>> Executor::Create(std::shared_ptr<const Program> program,
                                                   const ExecutorOptions& options) {
  auto impl = std::make_unique<Impl>(options.threads);
  impl->program = std::move(program);
  EVOQ_TRY(impl->Bind({options.isa, impl->pool.threads()}));
  return std::unique_ptr<Executor>(new Executor(std::move(impl)));
}

const Program& Executor::program() const { return *impl_->program; }
int Executor::threads() const { return impl_->pool.threads(); }
const std::vector<TensorType>& Executor::input_types() const { return impl_->input_types; }
const std::vector<TensorType>& Executor::output_types() const { return impl_->output_types; }
const std::vector<std::string>& Executor::variants() const { return impl_->variants; }
int64_t Executor::arena_bytes() const { return static_cast<int64_t>(impl_->arena.size() + impl_->scratch.size()); }

Status Executor::Run(std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  EVOQ_TRY(impl_->Prepare(inputs, outputs));
  const RunContext context{impl_->pool, impl_->scratch.data()};
  for (const BoundStep& step : impl_->steps)
    step.kernel.run(step.kernel.state.get(), step.inputs.data(), step.outputs.data(), context);
  return impl_->Finish();
}

Status Executor::RunTimed(std::span<const Tensor> inputs, std::span<Tensor> outputs, std::span<int64_t> step_ns) {
  EVOQ_TRY(impl_->Prepare(inputs, outputs));
  EVOQ_CHECK(step_ns.size() == impl_->steps.size());
  const RunContext context{impl_->pool, impl_->scratch.data()};
  auto before = std::chrono::steady_clock::now();
  for (size_t i = 0; i < step_ns.size(); ++i) {
    const BoundStep& step = impl_->steps[i];
    step.kernel.run(step.kernel.state.get(), step.inputs.data(), step.outputs.data(), context);
    const auto after = std::chrono::steady_clock::now();
    step_ns[i] = std::chrono::duration_cast<std::chrono::nanoseconds>(after - before).count();
    before = after;
  }
  return impl_->Finish();
}

}  // namespace evoq
