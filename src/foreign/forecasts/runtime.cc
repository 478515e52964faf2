#include "foreign/forecasts/runtime.h"

#include <algorithm>

#include "base/rows.h"
#include "foreign/forecasts/qdq.h"

namespace evoq {

#define EVOQ_ROW_TYPE Runtime
#define EVOQ_ROW_FILE "foreign/forecasts/runtimes.inc"
#include "base/rows.inl.h"

std::span<const Runtime* const> AllRuntimes() { return kAllRows; }

const Runtime* FindRuntime(std::string_view name) {
  if (const Runtime* runtime = FindRow(AllRuntimes(), name)) return runtime;
  for (const Runtime* runtime : AllRuntimes()) {
    if (!name.empty() && name == runtime->placement) return runtime;
  }
  return nullptr;
}

const char* FateName(Fate fate) {
  switch (fate) {
    case Fate::kNone: return "none";
    case Fate::kInteger: return "integer";
    case Fate::kMoved: return "moved";
    case Fate::kAbsorbed: return "absorbed";
    case Fate::kFloat: return "float";
    case Fate::kHost: return "host";
    case Fate::kRefused: return "refused";
  }
  return "";
}

bool OnIntegers(Fate fate) {
  return fate == Fate::kInteger || fate == Fate::kMoved || fate == Fate::kAbsorbed;
}

int Fates::Count(Fate fate) const {
  return static_cast<int>(std::count(nodes.begin(), nodes.end(), fate));
}

bool HasFate(const Graph& graph, const Node& node) {
  if (IsQuantize(node) || IsDequantize(node)) return false;
  const auto computed = [&](ValueId v) { return v.valid() && !IsConstantLike(graph, v); };
  if (!node.inputs.empty() && std::none_of(node.inputs.begin(), node.inputs.end(), computed))
    return false;
  const auto real = [&](ValueId v) {
    if (!v.valid()) return false;
    const TensorType& type = graph.value(v).type;
    return type.quantized() || IsFloat(type.dtype) || DTypeBits(type.dtype) == 8;
  };
  return std::any_of(node.outputs.begin(), node.outputs.end(), real) ||
         std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId v) { return computed(v) && real(v); });
}

namespace {

class Table {
 public:
  Table(const Graph& graph, std::span<const IntegerOp> table,
        bool (*takes)(const TensorType&, const TensorType&))
      : graph_(graph), table_(table), takes_(takes) {}

  Fates Run() {
    for (NodeId id : graph_.order())
      fates_.nodes.resize(std::max<size_t>(fates_.nodes.size(), id.index + 1), Fate::kNone);
    for (NodeId id : graph_.order()) {
      if (HasFate(graph_, graph_.node(id))) fates_.nodes[id.index] = FateOf(id);
    }
    for (NodeId id : graph_.order()) CountConversion(id);
    return std::move(fates_);
  }

 private:
  const IntegerForm* FormOf(const Node& node) const {
    if (!node.domain.empty()) return nullptr;
    for (const IntegerOp& row : table_) {
      if (node.op == row.op) return &row.form;
    }
    return nullptr;
  }

  static const TensorType* InBytes(const TensorType* type) {
    return type != nullptr && DTypeBits(type->dtype) == 8 ? type : nullptr;
  }
  bool WritesQuantized(const Node& node) const {
    return InBytes(WrittenQuantType(graph_, node.outputs[0])) != nullptr;
  }

  bool IntegerBefore(ValueId x) const {
    const NodeId producer = graph_.value(x).producer;
    if (!graph_.alive(producer)) return false;
    const Fate fate = fates_.at(producer);
    return graph_.OnlyUser(x).valid() && (fate == Fate::kInteger || fate == Fate::kAbsorbed);
  }

  // x Sigmoid(x) of an integer operator's result x, which nothing else reads: one activation.
  bool IsSwish(NodeId sigmoid, NodeId mul) const {
    if (!graph_.alive(sigmoid) || !graph_.alive(mul)) return false;
    const IntegerForm* form = FormOf(graph_.node(sigmoid));
    if (form == nullptr || *form != IntegerForm::kAfterOrEvery) return false;
    if (graph_.node(sigmoid).op != "Sigmoid") return false;
    if (graph_.node(mul).op != "Mul") return false;
    const ValueId x = graph_.node(sigmoid).input(0), gate = graph_.node(sigmoid).outputs[0];
    const std::vector<ValueId>& inputs = graph_.node(mul).inputs;
    const NodeId producer = graph_.value(x).producer;
    return graph_.OnlyUser(gate) == mul && graph_.value(x).users.size() == 2 &&
           !graph_.IsOutput(x) && std::find(inputs.begin(), inputs.end(), x) != inputs.end() &&
           graph_.alive(producer) &&
           (fates_.at(producer) == Fate::kInteger || fates_.at(producer) == Fate::kAbsorbed);
  }
  bool IsSwish(const Node& node, NodeId id) const {
    if (node.op == "Sigmoid") return IsSwish(id, graph_.OnlyUser(node.outputs[0]));
    return node.op == "Mul" && std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
             return v.valid() && IsSwish(graph_.value(v).producer, id);
           });
  }

  // A bias behind the operator that it belongs to.
  bool AddsConstant(const Node& node) const {
    return (IsConstantLike(graph_, node.input(0)) && IntegerBefore(node.input(1))) ||
           (IsConstantLike(graph_, node.input(1)) && IntegerBefore(node.input(0)));
  }

  // The stored type of a value that is dequantized, or was before operators that only move it.
  const TensorType* QuantTypeThrough(ValueId v) const {
    for (;;) {
      if (const TensorType* type = ReadQuantType(graph_, v)) return InBytes(type);
      const NodeId producer = graph_.value(v).producer;
      if (!graph_.alive(producer) || fates_.at(producer) != Fate::kMoved ||
          graph_.node(producer).op == "Concat")
        return nullptr;
      v = graph_.node(producer).input(0);
    }
  }

  // Every activation it reads is dequantized; `but_one` may come straight from an integer operator,
  // which then adds it itself.
  bool ReadsQuantized(const Node& node, bool but_one) const {
    int other = 0, quantized = 0;
    for (ValueId v : node.inputs) {
      if (!v.valid() || IsConstantLike(graph_, v) || !IsFloat(graph_.value(v).type.dtype)) continue;
      if (QuantTypeThrough(v) != nullptr)
        ++quantized;
      else if (but_one && IntegerBefore(v))
        ++other;
      else
        return false;
    }
    return quantized > 0 && other <= 1;
  }

  Fate FateOf(NodeId id) const {
    const Node& node = graph_.node(id);
    if (node.inputs.empty() || !node.inputs[0].valid()) return Fate::kFloat;
    if (graph_.value(node.inputs[0]).type.quantized())
      return Fate::kMoved;  // integers as the file has them
    const IntegerForm* form = FormOf(node);
    if (form == nullptr) return Fate::kFloat;
    if (IsSwish(node, id)) return Fate::kAbsorbed;
    switch (*form) {
      case IntegerForm::kWeighted: {
        const TensorType *x = QuantTypeThrough(node.input(0)),
                         *w = ReadQuantType(graph_, node.input(1));
        return x != nullptr && w != nullptr && takes_(*x, *w) ? Fate::kInteger : Fate::kFloat;
      }
      case IntegerForm::kEvery: {
        const bool add = node.op == "Add";
        if (add && AddsConstant(node)) return Fate::kAbsorbed;
        if (!ReadsQuantized(node, add)) return Fate::kFloat;
        const bool absorbed = add && !ReadsQuantized(node, false);
        return absorbed ? Fate::kAbsorbed : WritesQuantized(node) ? Fate::kInteger : Fate::kFloat;
      }
      case IntegerForm::kMove: {
        if (node.op == "Resize" && node.attrs.String("mode", "nearest") != "nearest")
          return Fate::kFloat;
        return ReadsQuantized(node, false) || WritesQuantized(node) ? Fate::kMoved : Fate::kFloat;
      }
      case IntegerForm::kAfter:
        return IntegerBefore(node.inputs[0]) ? Fate::kAbsorbed : Fate::kFloat;
      case IntegerForm::kAfterOrEvery:
        if (IntegerBefore(node.inputs[0])) return Fate::kAbsorbed;
        return ReadsQuantized(node, false) && WritesQuantized(node) ? Fate::kInteger : Fate::kFloat;
    }
    return Fate::kFloat;
  }

  // A conversion is no node of its own when an integer operator stands on its real side.
  void CountConversion(NodeId id) {
    const Node& node = graph_.node(id);
    if (IsQuantize(node)) {
      const NodeId producer = graph_.value(node.input(0)).producer;
      if (!graph_.alive(producer) || !OnIntegers(fates_.at(producer)))
        fates_.conversions.push_back(id);
    } else if (IsDequantize(node) && !graph_.value(node.input(0)).is_constant()) {
      const ValueId real = node.outputs[0];
      const auto& users = graph_.value(real).users;
      const bool inside =
          !graph_.IsOutput(real) && std::all_of(users.begin(), users.end(),
                                                [&](NodeId u) { return OnIntegers(fates_.at(u)); });
      if (!inside) fates_.conversions.push_back(id);
    }
  }

  const Graph& graph_;
  std::span<const IntegerOp> table_;
  bool (*takes_)(const TensorType&, const TensorType&);
  Fates fates_;
};

}  // namespace

Fates FatesByTable(const Graph& graph, std::span<const IntegerOp> table,
                   bool (*takes)(const TensorType&, const TensorType&)) {
  return Table(graph, table, takes).Run();
}

std::string QlinearName(const Node& node) { return node.attrs.String("evoq.from", ""); }

Fates Refuse(const Graph& graph, Fates fates,
             bool (*refuses)(const Graph& graph, const Node& node)) {
  for (NodeId id : graph.order()) {
    if (refuses(graph, graph.node(id))) fates.nodes[id.index] = Fate::kRefused;
  }
  return fates;
}

}  // namespace evoq
