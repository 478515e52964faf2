#include "compile/choose.h"

#include "graph/float_reason.h"
#include "ops/op.h"

namespace evoq {
namespace {

bool AnyQuantized(std::span<const TensorType> types) {
  for (const TensorType& type : types) {
    if (type.quantized()) return true;
  }
  return false;
}

// Why a step that could compute on integers does not, for `explain`.
void ExplainFloat(const Node& node, const NodeCall& args, Decision& decision) {
  const OpDef* op = FindOp(node);
  const bool chooses = op != nullptr && op->alternatives >= 0;
  if (op == nullptr || (op->quant == QuantTrait::kFloat && !chooses) ||
      decision.precision == Precision::kInt8 || decision.precision == Precision::kBf16)
    return;
  if (const Reason noted = FloatReasonOf(node.attrs); !noted.empty()) {
    decision.float_reason = noted;
    return;
  }
  const size_t weight = chooses ? static_cast<size_t>(op->alternatives) : 1;
  const bool product = op->quant == QuantTrait::kLinear || chooses;
  const bool weights_only =
      product && args.inputs.size() > weight && args.inputs[weight].quantized();
  if (weights_only && !args.inputs[0].quantized()) {
    decision.float_reason = {
        "weights-only",
        "its weights are stored as integers and its activations are float32, so it computes in "
        "float32"};
  } else if (AnyQuantized(args.inputs) || AnyQuantized(args.outputs)) {
    if (decision.kernel != kReferenceKernel && decision.precision != Precision::kFloat32) return;
    decision.float_reason = {
        kNoInt8Kernel,
        fmt::format(
            "no integer kernel takes {} with these types; it runs in {}", node.op,
            decision.kernel == kReferenceKernel ? "the reference evaluator" : decision.kernel)};
  } else if (product) {
    decision.float_reason = {"not-quantized", "its inputs are float32 in the model"};
  }
}

}  // namespace

bool MayCompute(const Backend& backend, const Node& node, const KernelCall& call) {
  if (backend.memory == &kHostMemory || !ReadsByIndex(node)) return true;
  return Gathers(node) && call.constant(IndexInput(node)) != nullptr;
}

const KernelDef* FirstThatTakes(const Backend& backend, const Node& node, const KernelCall& call,
                                std::vector<Decision::Rejected>* rejected) {
  if (!MayCompute(backend, node, call)) return nullptr;
  for (const KernelDef* kernel : backend.kernels()) {
    if (call.op != kernel->op) continue;
    auto reason = kernel->reject(call);
    if (!reason) return kernel;
    if (rejected != nullptr) rejected->push_back({kernel->name, *std::move(reason)});
  }
  return nullptr;
}

Decision ChooseKernel(const Graph& graph, const Node& node, const Target& target) {
  const NodeCall args(graph, node);
  Decision decision;
  decision.kernel = kReferenceKernel;
  decision.precision = Precision::kFloat32;
  for (const Backend* backend : target.backends()) {
    const KernelDef* kernel = FirstThatTakes(*backend, node, args.call, &decision.rejected);
    if (kernel == nullptr) continue;
    decision.kernel = kernel->name;
    // Rounding to 16 bits and back is no arithmetic on bytes.
    const bool wide = IsConversion(node) && ComputesSixteenBits(graph, node);
    decision.precision = wide ? Precision::kAny : kernel->precision;
    break;
  }
  ExplainFloat(node, args, decision);
  return decision;
}

}  // namespace evoq
