#include "program/scale_sets.h"

#include <set>

namespace evoq {
namespace {

bool SameForm(const QuantParams& a, const QuantParams& b) {
  return a.scales.size() == b.scales.size() && a.zero_points.size() == b.zero_points.size() &&
         a.axis == b.axis && a.block == b.block && a.inside == b.inside;
}

// The type that a change gives a value of type `type`.
TensorType ChangedType(const TensorType& type, const ScaleChange& change) {
  TensorType changed = type;
  changed.quant = change.quant;
  return changed;
}

Status CheckChange(const Graph& graph, const ScaleChange& change) {
  const ValueId id = graph.FindValue(change.value);
  if (!id.valid()) return InvalidInput("there is no such value");
  const Value& value = graph.value(id);
  if (graph.IsInput(id) || graph.IsOutput(id))
    return InvalidInput("it is an input or output of the model, whose type stays");
  if (value.is_constant() != change.constant.defined())
    return InvalidInput("{} for {}", change.constant.defined() ? "a constant" : "no constant",
                        value.is_constant() ? "a constant" : "a computed value");
  if (value.type.quantized() != (change.quant != nullptr))
    return InvalidInput("it is {}, the set has {} scales", value.type.ToString(),
                        change.quant != nullptr ? change.quant->scales.size() : 0);
  if (!value.is_constant() && change.quant == nullptr)
    return InvalidInput("it is computed, and {} has no scales to change", value.type.ToString());
  if (change.quant != nullptr) {
    if (!SameForm(*value.type.quant, *change.quant))
      return InvalidInput("{} scales, expected those of {}", change.quant->scales.size(),
                          value.type.ToString());
    EVOQ_TRY(ValidateQuant(ChangedType(value.type, change)));
  }
  if (!value.is_constant()) return {};
  const Tensor& constant = change.constant;
  if (constant.dtype() == DType::kString) return InvalidInput("a constant of strings");
  if (constant.type() != ChangedType(value.type, change) ||
      constant.layout() != value.constant.layout())
    return InvalidInput("a constant {}{}, expected {}{}", constant.type().ToString(),
                        constant.layout(), value.type.ToString(), value.constant.layout());
  return {};
}

}  // namespace

Status CheckScaleSets(const Graph& graph, const std::vector<ScaleSet>& sets) {
  if (sets.empty()) return {};
  if (sets.size() < 2 || sets.size() > kMaxScaleSets)
    return InvalidInput("{} scale sets, expected 2 to {}", sets.size(), kMaxScaleSets);
  if (!sets[0].changes.empty())
    return InvalidInput("scale set {}: {} changes of the first set, expected none", sets[0].name,
                        sets[0].changes.size());
  std::set<std::string> names;
  for (const ScaleSet& set : sets) {
    if (set.name.empty() || set.name.find('/') != std::string::npos)
      return InvalidInput("scale set '{}': expected a name without '/'", set.name);
    if (!names.insert(set.name).second)
      return InvalidInput("scale set {}: two sets have this name", set.name);
    if (set.samples < 0) return InvalidInput("scale set {}: {} samples", set.name, set.samples);
    std::set<std::string> values;
    for (const ScaleChange& change : set.changes) {
      const std::string place = fmt::format("scale set {}: value {}", set.name, change.value);
      if (!values.insert(change.value).second) return InvalidInput("{}: it stands twice", place);
      EVOQ_TRY(WithContext(CheckChange(graph, change), place));
    }
  }
  return {};
}

Graph WithScaleSet(const Graph& graph, const ScaleSet& set) {
  Graph changed = graph;
  for (const ScaleChange& change : set.changes) {
    const ValueId id = changed.FindValue(change.value);
    if (!id.valid()) continue;  // nothing reads it any more
    if (change.constant.defined()) {
      changed.SetConstant(id, change.constant);
    } else {
      changed.SetType(id, ChangedType(changed.value(id).type, change));
    }
  }
  return changed;
}

namespace {

bool SameNodes(const Graph& a, NodeId in_a, const Graph& b, NodeId in_b) {
  const Node &x = a.node(in_a), &y = b.node(in_b);
  const auto names = [](const Graph& graph, const std::vector<ValueId>& ids) {
    std::vector<std::string> all;
    for (ValueId id : ids) all.push_back(id.valid() ? graph.value(id).name : "");
    return all;
  };
  return x.op == y.op && x.domain == y.domain && x.name == y.name && x.attrs == y.attrs &&
         x.bodies.size() == y.bodies.size() && names(a, x.inputs) == names(b, y.inputs) &&
         names(a, x.outputs) == names(b, y.outputs);
}

// Whether two types differ at most in their scales and zero points.
bool SameButScales(const TensorType& a, const TensorType& b) {
  TensorType plain_a = a, plain_b = b;
  plain_a.quant = plain_b.quant = nullptr;
  return plain_a == plain_b && a.quantized() == b.quantized() &&
         (!a.quantized() || SameForm(*a.quant, *b.quant));
}

bool SameScales(const TensorType& a, const TensorType& b) {
  return !a.quantized() || *a.quant == *b.quant;
}

}  // namespace

Result<ScaleSet> ScaleSetBetween(const Graph& graph, const Graph& other, const std::string& name,
                                 int64_t samples) {
  const auto differs = [&](const std::string& where) {
    return Unsupported("scale set {} makes another graph at {}: sets share one graph", name, where);
  };
  if (graph.order().size() != other.order().size())
    return differs(
        fmt::format("its {} nodes, expected {}", other.order().size(), graph.order().size()));
  for (size_t i = 0; i < graph.order().size(); ++i) {
    if (!SameNodes(graph, graph.order()[i], other, other.order()[i]))
      return differs("node " + graph.node(graph.order()[i]).name);
  }
  ScaleSet set{name, samples, {}};
  for (int i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId{i});
    const ValueId id = other.FindValue(value.name);
    if (!id.valid()) return differs("value " + value.name);
    const Value& changed = other.value(id);
    if (value.is_constant() != changed.is_constant() || !SameButScales(value.type, changed.type) ||
        value.constant.layout() != changed.constant.layout())
      return differs("value " + value.name);
    if (value.is_constant()) {
      const bool text = value.constant.dtype() == DType::kString;
      if (text ||
          (SameScales(value.type, changed.type) && BitEqual(value.constant, changed.constant)))
        continue;
      set.changes.push_back({value.name, changed.type.quant, changed.constant});
    } else if (!SameScales(value.type, changed.type)) {
      set.changes.push_back({value.name, changed.type.quant, {}});
    }
  }
  return set;
}

}  // namespace evoq
