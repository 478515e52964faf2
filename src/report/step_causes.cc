#include "report/step_causes.h"

#include <algorithm>

#include "graph/float_reason.h"
#include "ops/op.h"
#include "report/explain_rule.h"
#include "report/ledger.h"

namespace evoq {
namespace {

std::string DecisionCode(const Step& step) { return step.decision.float_reason.code; }

// Codes that only say that another step is the reason.
bool IsConsequence(const std::string& code) {
  return code == "float-inputs" || code == "float-readers";
}

bool IsNarrow(const TensorType& type) {
  return type.quantized() || DTypeBits(type.dtype) == 8 || type.dtype == DType::kBfloat16;
}
bool ReadsNarrow(const Graph& graph, const Node& node) {
  return node.input(0).valid() && IsNarrow(graph.value(node.input(0)).type);
}
bool WritesNarrow(const Graph& graph, const Node& node) {
  return !node.outputs.empty() && node.outputs[0].valid() &&
         IsNarrow(graph.value(node.outputs[0]).type);
}

// Of ONNX, or of the dialect (Silu, Lookup, DynamicConv, ...).
QuantTrait TraitOf(const Node& node) {
  const OpDef* op = FindOp(node);
  return op == nullptr ? QuantTrait::kFloat : op->quant;
}

}  // namespace

bool Multiplies(const Node& node) {
  return TraitOf(node) == QuantTrait::kLinear || HasRealWeights(node);
}

bool OnlyRescales(const Node& node) {
  const std::string function = node.attrs.String("evoq.function");
  if (function.empty()) return false;
  for (size_t at = 0; at < function.size();) {
    const size_t end = std::min(function.find(", ", at), function.size());
    const std::string op = function.substr(at, end - at);
    if (!QuantizesOrDequantizes(FindOp(op))) return false;
    at = end + 2;
  }
  return true;
}

bool ConvertsOnly(const Node& node) {
  return IsConversion(node) || (node.op == "Lookup" && OnlyRescales(node));
}

bool SameStep(const Program& a, size_t step_a, const Program& b, size_t step_b) {
  if (a.steps[step_a].decision.kernel != b.steps[step_b].decision.kernel) return false;
  const Node& node_a = a.graph->node(a.steps[step_a].node);
  const Node& node_b = b.graph->node(b.steps[step_b].node);
  const auto same = [&](const std::vector<ValueId>& va, const std::vector<ValueId>& vb) {
    if (va.size() != vb.size()) return false;
    for (size_t i = 0; i < va.size(); ++i) {
      if (va[i].valid() != vb[i].valid()) return false;
      if (va[i].valid() && a.graph->value(va[i]).type.dtype != b.graph->value(vb[i]).type.dtype)
        return false;
    }
    return true;
  };
  return same(node_a.inputs, node_b.inputs) && same(node_a.outputs, node_b.outputs);
}

StepCauses::StepCauses(const Program& program) : program_(program), graph_(*program.graph) {
  int32_t nodes = 0;
  for (NodeId id : graph_.order()) nodes = std::max(nodes, id.index + 1);
  step_of_.assign(static_cast<size_t>(nodes), -1);
  bf16_ = NarrowsToBf16(program);
  for (size_t s = 0; s < program.steps.size(); ++s)
    step_of_[static_cast<size_t>(program.steps[s].node.index)] = static_cast<int>(s);
}

std::optional<size_t> StepCauses::StepOf(NodeId node) const {
  const int step = step_of_[static_cast<size_t>(node.index)];
  if (step < 0) return std::nullopt;
  return static_cast<size_t>(step);
}

bool StepCauses::IsCopy(size_t s) const {
  return program_.steps[s].decision.kernel == kTransferKernel;
}

// A view or a copy: what stands behind it is looked at instead.
bool StepCauses::MovesAlone(NodeId node) const {
  const auto step = StepOf(node);
  return !step || IsCopy(*step);
}

// What this step is the reason of by itself.
std::string StepCauses::Root(size_t s) const {
  const Step& step = program_.steps[s];
  for (const ExplainRule* rule : AllExplainRules()) {
    if (rule->claims == nullptr || !rule->claims(graph_, step)) continue;
    return bf16_ && std::string_view(rule->code) == kNoInt8Kernel ? kNoBf16Kernel : rule->code;
  }
  const std::string code = DecisionCode(step);
  return IsConsequence(code) ? "" : code;
}

// Nodes that read what `node` writes, or that write what it reads.
std::vector<NodeId> StepCauses::Next(NodeId id, Side side) const {
  std::vector<NodeId> next;
  const Node& node = graph_.node(id);
  for (ValueId v : side == Side::kReaders ? node.outputs : node.inputs) {
    if (!v.valid()) continue;
    const Value& value = graph_.value(v);
    if (side == Side::kReaders) {
      next.insert(next.end(), value.users.begin(), value.users.end());
    } else if (value.producer.valid()) {
      next.push_back(value.producer);
    }
  }
  return next;
}

// As Next, through views and copies.
std::vector<NodeId> StepCauses::NextSteps(NodeId id, Side side) const {
  std::vector<NodeId> steps;
  for (NodeId next : Next(id, side)) {
    if (!MovesAlone(next)) {
      steps.push_back(next);
    } else {
      const std::vector<NodeId> behind = NextSteps(next, side);
      steps.insert(steps.end(), behind.begin(), behind.end());
    }
  }
  return steps;
}

// Views, copies, layout changes, conversions and float steps that only follow others: what stands
// beside them decides.
bool StepCauses::IsPassedThrough(NodeId id) const {
  const Node& node = graph_.node(id);
  if (MovesAlone(id) || ConvertsOnly(node) || node.op == "Transpose") return true;
  return !ReadsNarrow(graph_, node) && !WritesNarrow(graph_, node);
}

std::string StepCauses::Search(NodeId id, Side side, std::vector<bool>& seen) const {
  for (NodeId next : Next(id, side)) {
    if (seen[static_cast<size_t>(next.index)]) continue;
    seen[static_cast<size_t>(next.index)] = true;
    if (!MovesAlone(next)) {
      if (const std::string code = Root(*StepOf(next)); !code.empty()) return code;
    }
    if (!IsPassedThrough(next)) continue;
    if (const std::string code = Search(next, side, seen); !code.empty()) return code;
  }
  return "";
}

std::string StepCauses::Find(NodeId id, Side side) const {
  std::vector<bool> seen(step_of_.size());
  return Search(id, side, seen);
}

// Whether only views and layout changes stand between the node and the model's inputs (producers)
// or an output (readers).
bool StepCauses::ReachesBorder(NodeId id, Side side) const {
  const Node& node = graph_.node(id);
  for (ValueId v : side == Side::kReaders ? node.outputs : node.inputs) {
    if (v.valid() && (side == Side::kReaders ? graph_.IsOutput(v) : graph_.IsInput(v))) return true;
  }
  for (NodeId next : Next(id, side)) {
    if ((MovesAlone(next) || graph_.node(next).op == "Transpose") && ReachesBorder(next, side))
      return true;
  }
  return false;
}

// Whether what a node quantizes is only dequantized again, or what it dequantizes was quantized
// just before.
bool StepCauses::IsUselessPair(NodeId id, bool quantizes) const {
  const std::vector<NodeId> next = Next(id, quantizes ? Side::kReaders : Side::kProducers);
  return !next.empty() && std::all_of(next.begin(), next.end(), [&](NodeId n) {
    if (MovesAlone(n)) return IsUselessPair(n, quantizes);
    const Node& other = graph_.node(n);
    return ConvertsOnly(other) && WritesNarrow(graph_, other) != quantizes &&
           ReadsNarrow(graph_, other) == quantizes;
  });
}

// Why a float step at a conversion is one: what it follows from may lie on another way to it.
std::string StepCauses::OfFloatBeside(NodeId id, Side side) const {
  for (NodeId next : NextSteps(id, side)) {
    const Node& node = graph_.node(next);
    if (ConvertsOnly(node) || ReadsNarrow(graph_, node) || WritesNarrow(graph_, node)) continue;
    if (const std::string code = Fault(*StepOf(next)); !code.empty()) return code;
  }
  return "";
}

std::string StepCauses::OfConversion(NodeId id) const {
  const Node& node = graph_.node(id);
  const bool reads = ReadsNarrow(graph_, node), writes = WritesNarrow(graph_, node);
  if (reads == writes || IsUselessPair(id, writes)) return "extra-conversion";
  const Side side = writes ? Side::kProducers : Side::kReaders;
  if (const std::string code = Find(id, side); !code.empty()) return code;
  if (const std::string code = OfFloatBeside(id, side); !code.empty()) return code;
  return ReachesBorder(id, side) ? "border-conversion" : "extra-conversion";
}

std::string StepCauses::Beside(size_t s) const {
  const NodeId id = program_.steps[s].node;
  if (const std::string code = Find(id, Side::kReaders); !code.empty()) return code;
  return Find(id, Side::kProducers);
}

std::string StepCauses::Neighbour(size_t s) const {
  for (const Side side : {Side::kProducers, Side::kReaders}) {
    for (NodeId next : NextSteps(program_.steps[s].node, side)) {
      const std::string code = Fault(*StepOf(next));
      if (!code.empty() && code != "border-conversion") return code;
    }
  }
  return "";
}

std::string StepCauses::Before(size_t s) const {
  const size_t count = program_.steps.size();
  for (size_t back = 1; back <= count; ++back) {
    const size_t before = (s + count - back) % count;
    if (IsCopy(before)) continue;
    const std::string code = Fault(before);
    if (!code.empty() && code != "border-conversion") return code;
  }
  return "";
}

std::string StepCauses::Fault(size_t s) const {
  if (std::string code = Root(s); !code.empty()) return code;
  const NodeId id = program_.steps[s].node;
  const Node& node = graph_.node(id);
  if (ConvertsOnly(node)) return OfConversion(id);
  if (ReadsNarrow(graph_, node) || WritesNarrow(graph_, node)) return "";
  // A float step without a reason of its own.
  if (const std::string code = Find(id, Side::kProducers); !code.empty()) return code;
  if (const std::string code = Find(id, Side::kReaders); !code.empty()) return code;
  return DecisionCode(program_.steps[s]);
}

std::string StepCauses::Of(size_t s, bool in_float_run) const {
  const Node& node = graph_.node(program_.steps[s].node);
  if (node.op == "Transpose" && !in_float_run) return "layout-change";
  if (std::string code = Fault(s); !code.empty()) return code;
  return Multiplies(node) ? "kernel-below-ideal" : "moves-bytes";
}

}  // namespace evoq
