#include "runtime/bind_step.h"

#include <algorithm>
#include <cstring>

#include "graph/run_choices.h"
#include "kernels/ways.h"
#include "ops/op.h"
#include "program/node_call.h"
#include "runtime/guard.h"

namespace evoq {
namespace {

// Evaluates a node by its definition: for operators that no kernel takes. Allocates.
struct ReferenceStep {
  const Evaluator* evaluator;
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
    const auto results = evaluator->evaluate(node, inputs, output_types);
    if (!results) failure->Note(results.error());
    for (size_t i = 0; i < output_types.size(); ++i) {
      const size_t bytes = static_cast<size_t>(*output_types[i].bytes());  // 0 where it is omitted
      if (bytes == 0) continue;
      const bool fits = results && (*results)[i].bytes() == bytes;
      if (results && !fits)
        failure->Note(Error(ErrorCode::kInternal,
                            fmt::format("{}: output {} has {} bytes, inferred were {}",
                                        NodeLabel(node), i, (*results)[i].bytes(), bytes)));
      if (fits) {
        std::memcpy(out[i], (*results)[i].raw(), bytes);
      } else {
        std::memset(out[i], 0, bytes);
      }
    }
  }
};

// Runs a kernel where its guard lets it.
struct GuardedStep {
  Guard guard;
  BoundKernel kernel;
  std::shared_ptr<Failure> failure;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const Status allowed = guard.Check(in);
    if (!allowed) return failure->Note(allowed.error());
    kernel.run(kernel.state.get(), in, out, context);
  }
};

// Gives a view of an input or a constant a place of its own (a model output must have one).
struct CopyStep {
  size_t bytes;
  void Run(const void* const* in, void* const* out, const RunContext&) const {
    std::memcpy(out[0], in[0], bytes);
  }
};

// Copies a value between the host's memory and one that is apart.
struct TransferStep {
  size_t bytes;
  const MemorySpace* apart;
  bool to_host;
  std::shared_ptr<Failure> failure;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto copy = to_host ? apart->read : apart->write;
    const Status copied = copy(static_cast<std::byte*>(out[0]),
                               static_cast<const std::byte*>(in[0]), bytes, context.stream);
    if (!copied) failure->Note(copied.error());
  }
};

// A step whose outputs have no bytes.
struct NothingStep {
  void Run(const void* const*, void* const*, const RunContext&) const {}
};

bool WritesNothing(std::span<const TensorType> outputs) {
  return std::all_of(outputs.begin(), outputs.end(),
                     [](const TensorType& t) { return t.bytes().value_or(0) == 0; });
}

// The way to compute the step (BindOptions::variant): the measured one, within what the model's
// user chose.
std::string VariantOf(const Graph& graph, const Step& step) {
  const std::string& measured = step.tuning.variant;
  if (!graph.node(step.node).op.starts_with("Conv")) return measured;
  Way way;
  way.direct = ChoiceOf(graph, kWinogradChoice) == "off";
  if (!measured.empty() && !(way.direct && measured.starts_with("winograd"))) return measured;
  const std::string_view rows = ChoiceOf(graph, kTileChoice);
  if (!rows.empty()) way.block_rows = ParseWay(std::string(rows) + " rows").block_rows;
  return way.ToString();
}

}  // namespace

Result<BoundKernel> BindStep(const Program& program, const Step& step, BindOptions options,
                             const std::shared_ptr<Failure>& failure) {
  const Graph& graph = *program.graph;
  const Node& node = graph.node(step.node);
  const NodeCall args(graph, node);
  const auto& [inputs, outputs, constants, call] = args;
  if (WritesNothing(outputs)) return BoundKernel::Of(NothingStep{});
  if (step.decision.kernel == kCopyKernel)
    return BoundKernel::Of(CopyStep{static_cast<size_t>(*outputs[0].bytes())});
  if (step.decision.kernel == kTransferKernel)
    return BoundKernel::Of(TransferStep{static_cast<size_t>(*outputs[0].bytes()),
                                        step.backend->memory, step.writes == &kHostMemory,
                                        failure});
  if (step.decision.kernel == kReferenceKernel) {
    if (!program.evaluator->has(node))
      return Unsupported(
          "no kernel takes it here, and its reference implementation is only in libevoq");
    ReferenceStep reference{program.evaluator, node, inputs, outputs, {}, failure};
    for (const Tensor* constant : constants)
      reference.constants.push_back(constant ? *constant : Tensor());
    return BoundKernel::Of(std::move(reference));
  }
  const KernelDef* const kernel = step.kernel;
  if (kernel == nullptr) return InvalidInput("unknown kernel '{}'", step.decision.kernel);
  if (const auto rejection = kernel->reject(call))
    return InvalidInput("kernel {} does not take it: {}", kernel->name, rejection->sentence);
  const std::string variant = VariantOf(graph, step);
  options.variant = variant;
  EVOQ_ASSIGN(BoundKernel bound, kernel->bind(call, options));
  std::optional<Guard> guard = GuardOf(node, inputs);
  if (!guard) return bound;
  if (constants[guard->input] != nullptr) {  // looked at once
    std::vector<const void*> given(inputs.size());
    given[guard->input] = constants[guard->input]->raw();
    EVOQ_TRY(guard->Check(given.data()));
    return bound;
  }
  EVOQ_CHECK(step.backend->memory == &kHostMemory, "{}: indices on {}", kernel->name,
             step.backend->name);  // MayCompute (compile/choose.h)
  const size_t scratch = bound.scratch_bytes;
  KernelPlan plan = bound.plan;
  return BoundKernel::Of(GuardedStep{std::move(*guard), std::move(bound), failure}, scratch,
                         std::move(plan));
}

}  // namespace evoq
