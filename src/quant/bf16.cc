#include "quant/bf16.h"

#include <algorithm>
#include <set>

#include "graph/float_reason.h"
#include "kernels/kernel.h"
#include "ops/op.h"
#include "quant/plan.h"
#include "reference/reference.h"
#include "reference/util.h"
#include "tensor/spilled.h"

namespace evoq {
namespace {

bool IsFloat32(const TensorType& type) { return type.dtype == DType::kFloat32; }

// A kernel computes the operator in bfloat16, or moves elements of any type.
bool HasBf16Kernel(const Node& node) {
  const OpDef* op = FindOp(node);
  if (op == nullptr || op->conversion == PrecisionChange::kCast) return false;
  if (op->view) return true;
  for (const KernelDef* kernel : AllKernels()) {
    if (node.op != kernel->op) continue;
    if (kernel->precision == Precision::kBf16 ||
        (kernel->precision == Precision::kAny && op->quant == QuantTrait::kMove))
      return true;
  }
  return false;
}

// Whether input i holds values that become bfloat16 with the node. Biases, scales of normalizations
// and sizes stay.
bool IsValueInput(const Node& node, size_t i) {
  const Role role = RoleOf(node, i);
  return role != Role::kBias && role != Role::kParameter;
}

class Converter {
 public:
  Converter(Graph& graph, const QuantizeOptions& options) : graph_(graph), options_(options) {}

  QuantizeReport Run() {
    const std::vector<NodeId> order = graph_.order();
    for (NodeId id : order) Plan(id);
    for (auto it = order.rbegin(); it != order.rend(); ++it) Retreat(*it);
    for (NodeId id : order) {
      if (narrow_nodes_.count(id)) Convert(id);
    }
    for (const auto& [wide, narrow] : produced_) {
      if (graph_.value(wide).users.empty() && !graph_.IsOutput(wide)) continue;
      const Attrs attrs = Attrs::Of("to", static_cast<int64_t>(DType::kFloat32));
      graph_.AddNode({.op = "Cast",
                      .name = graph_.value(wide).name + "_float32",
                      .attrs = attrs,
                      .inputs = {narrow},
                      .outputs = {wide}});
    }
    if (report_.nodes[Precision::kBf16] == 0)
      report_.warnings.push_back("no operator became bfloat16: the model is unchanged");
    return std::move(report_);
  }

 private:
  const TensorType& TypeOf(ValueId id) const { return graph_.value(id).type; }

  void Plan(NodeId id) {
    const Node& node = graph_.node(id);
    if (IsLinear(node)) {
      const auto reason = LinearReason(node);
      if (!reason) {
        narrow_nodes_.insert(id);
        return;
      }
      report_.nodes.Add(Precision::kFloat32);
      report_.float_reasons[node.name] = *reason;
      SetFloatReason(graph_.attrs(id), *reason);
    } else if (Follows(node)) {
      narrow_nodes_.insert(id);
    }
  }

  // Why a linear operator stays float32, or nothing.
  std::optional<Reason> LinearReason(const Node& node) const {
    if (auto kept = KeptByOptions(node, options_)) return kept;
    for (size_t i : {0, 1}) {
      if (!IsFloat32(TypeOf(node.input(i))))
        return Reason{"types", fmt::format("input {} is {}, expected float32", i,
                                           TypeOf(node.input(i)).ToString())};
    }
    if (node.input(2).valid() && !IsFloat32(TypeOf(node.input(2))))
      return Reason{"types", "the bias is not float32"};
    if (!IsFloat32(TypeOf(node.outputs[0]))) return Reason{"types", "the output is not float32"};
    const Tensor* w = graph_.ConstantInput(node, 1);
    if (LinearFormOf(node)->two_operands) {
      if (w != nullptr && w->shape().rank() != 2)
        return Reason{"shape",
                      fmt::format("a constant factor of rank {}, expected 2", w->shape().rank())};
      return std::nullopt;
    }
    if (w == nullptr) return Reason{"weights-not-constant", "the weight is computed"};
    const int64_t group = std::max<int64_t>(node.attrs.Int("group", 1), 1);
    if (LinearFormOf(node)->outputs_by_group && w->sizes()[0] / group % 2 != 0)
      return Reason{"shape", fmt::format("{} input channels in a group, expected an even number",
                                         w->sizes()[0] / group)};
    return std::nullopt;
  }

  bool IsNarrow(ValueId id) const {
    const NodeId producer = graph_.value(id).producer;
    return producer.valid() && narrow_nodes_.count(producer) > 0 && IsFloat32(TypeOf(id));
  }

  // Reads a bfloat16 value, or looks up rows of a constant table.
  bool Follows(const Node& node) const {
    if (!HasBf16Kernel(node)) return false;
    if (KeptByOptions(node, options_)) return false;
    bool narrow = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].valid() || !IsValueInput(node, i)) continue;
      narrow |= IsNarrow(node.inputs[i]);
      if (TypeOf(node.inputs[i]).quantized()) return false;
    }
    const bool table = IsConstantTable(graph_, node) && IsFloat32(TypeOf(node.input(0)));
    if (!narrow && !table) return false;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId out = node.outputs[i];
      if (out.valid() && i > 0 && (node.op.ends_with("Normalization") || node.op == "MaxPool") &&
          !graph_.value(out).users.empty())
        return false;  // the kernels do not give moments or indices
      if (out.valid() && i == 0 && !IsFloat32(TypeOf(out))) return false;
    }
    return true;
  }

  // What only float32 reads gains nothing by rounding: linear operators write float32 themselves.
  void Retreat(NodeId id) {
    const Node& node = graph_.node(id);
    if (!narrow_nodes_.count(id) || IsLinear(node)) return;
    for (ValueId out : node.outputs) {
      if (!out.valid()) continue;
      for (NodeId reader : graph_.value(out).users) {
        if (narrow_nodes_.count(reader) && ReadsAsValue(reader, out)) return;
      }
    }
    narrow_nodes_.erase(id);
  }

  bool ReadsAsValue(NodeId reader, ValueId value) const {
    const Node& node = graph_.node(reader);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == value && IsValueInput(node, i)) return true;
    }
    return false;
  }

  void Convert(NodeId id) {
    const Node node = graph_.node(id);
    if (IsLinear(node)) report_.nodes.Add(Precision::kBf16);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId in = node.inputs[i];
      if (in.valid() && IsValueInput(node, i) && IsFloat32(TypeOf(in)))
        graph_.SetInput(id, i, Narrow(in));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId out = node.outputs[i];
      if (!out.valid() || !IsFloat32(TypeOf(out))) continue;
      const ValueId narrow = graph_.AddValue(graph_.value(out).name + "_bf16",
                                             TensorType(DType::kBfloat16, TypeOf(out).shape));
      graph_.SetOutput(id, i, narrow);
      narrow_[out] = narrow;
      produced_.push_back({out, narrow});
    }
  }

  // The value in bfloat16; constants are rounded here.
  ValueId Narrow(ValueId id) {
    const auto [it, fresh] = narrow_.emplace(id, ValueId{});
    if (!fresh) return it->second;
    const Value& value = graph_.value(id);
    if (value.is_constant()) {
      const auto rounded = FromFloat32(value.constant, DType::kBfloat16);
      EVOQ_CHECK(rounded.has_value(), "{}", value.name);
      ReleasePages(value.constant);
      return it->second = graph_.AddConstant(value.name + ".bf16", Spilled(*rounded));
    }
    const Attrs attrs = Attrs::Of("to", static_cast<int64_t>(DType::kBfloat16));
    const TensorType type(DType::kBfloat16, value.type.shape);
    return it->second = graph_.Apply("Cast", value.name + "_bf16", {id}, attrs, type);
  }

  Graph& graph_;
  const QuantizeOptions& options_;
  std::set<NodeId> narrow_nodes_;
  std::map<ValueId, ValueId> narrow_;                  // float32 value -> the same in bfloat16
  std::vector<std::pair<ValueId, ValueId>> produced_;  // those that converted nodes compute
  QuantizeReport report_;
};

}  // namespace

Result<QuantizeReport> ConvertToBf16(Graph& graph, const QuantizeOptions& options) {
  QuantizeReport report = Converter(graph, options).Run();
  EVOQ_TRY(graph.Sort());
  graph.RemoveDeadNodes();
  graph = graph.Compacted();
  EVOQ_TRY(InferTypes(graph));
  EVOQ_TRY(graph.Verify());
  return report;
}

}  // namespace evoq
