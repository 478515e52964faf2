#include "parity/part_runs.h"

#include <algorithm>
#include <set>

#include "graph/float_reason.h"
#include "reference/reference.h"

namespace evoq {
namespace {

Attrs WithoutReason(Attrs attrs) {
  attrs.Erase(kFloatReason);
  return attrs;
}

class Matcher {
 public:
  Matcher(const Graph& base, const Graph& variant) : base_(base), variant_(variant) {}

  std::map<ValueId, ValueId> Run() {
    for (const ValueId v : variant_.inputs()) {
      const ValueId same = base_.FindValue(variant_.value(v).name);
      if (same.valid() && base_.IsInput(same) && SameType(v, same)) shared_[v] = same;
    }
    for (const NodeId id : variant_.order()) Match(variant_.node(id));
    return std::move(shared_);
  }

 private:
  bool SameType(ValueId v, ValueId b) const {
    return variant_.value(v).type == base_.value(b).type;
  }

  bool SameOperand(ValueId v, ValueId b) const {
    if (!v.valid() || !b.valid()) return v.valid() == b.valid();
    const Value &ours = variant_.value(v), &theirs = base_.value(b);
    if (ours.is_constant() != theirs.is_constant()) return false;
    if (!ours.is_constant()) {
      const auto it = shared_.find(v);
      return it != shared_.end() && it->second == b;
    }
    const Tensor &x = ours.constant, &y = theirs.constant;
    return x.type() == y.type() && (x.raw() == y.raw() || BitEqual(x, y));
  }

  void Match(const Node& node) {
    ValueId same;
    for (const ValueId v : node.outputs) {
      if (v.valid() && !same.valid()) same = base_.FindValue(variant_.value(v).name);
    }
    if (!same.valid() || !base_.value(same).producer.valid() || !node.bodies.empty()) return;
    const Node& other = base_.node(base_.value(same).producer);
    if (node.op != other.op || node.domain != other.domain || !other.bodies.empty() ||
        node.inputs.size() != other.inputs.size() || node.outputs.size() != other.outputs.size() ||
        !(WithoutReason(node.attrs) == WithoutReason(other.attrs)))
      return;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!SameOperand(node.inputs[i], other.inputs[i])) return;
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId v = node.outputs[i], b = other.outputs[i];
      if (v.valid() != b.valid()) return;
      if (v.valid() && (variant_.value(v).name != base_.value(b).name || !SameType(v, b))) return;
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].valid()) shared_[node.outputs[i]] = other.outputs[i];
    }
  }

  const Graph &base_, &variant_;
  std::map<ValueId, ValueId> shared_;
};

// A part of a graph: its inputs are all of the graph's, then those of the values to be given that
// it reads; what it computes is its outputs.
struct Part {
  Graph graph;
  std::vector<ValueId> given;  // of the whole graph, by input behind the graph's own
};

Result<Part> PartBetween(const Graph& whole, const std::set<ValueId>& given,
                         const std::vector<ValueId>& wanted) {
  std::set<NodeId> needed;
  std::set<ValueId> read;
  std::vector<ValueId> open = wanted;
  while (!open.empty()) {
    const ValueId v = open.back();
    open.pop_back();
    if (!v.valid()) continue;
    const NodeId producer = whole.value(v).producer;
    if (given.count(v)) {
      read.insert(v);
    } else if (producer.valid() && needed.insert(producer).second) {
      const auto& inputs = whole.node(producer).inputs;
      open.insert(open.end(), inputs.begin(), inputs.end());
    }
  }
  Part part;
  part.graph.name = whole.name;
  part.graph.metadata = whole.metadata;
  std::map<ValueId, ValueId> copies;
  for (const ValueId v : whole.inputs())
    copies[v] = part.graph.AddInput(whole.value(v).name, whole.value(v).type);
  for (const ValueId v : read) {
    copies[v] = part.graph.AddInput(whole.value(v).name, whole.value(v).type);
    part.given.push_back(v);
  }
  const auto copy = [&](ValueId v) {
    const Value& value = whole.value(v);
    const auto [it, fresh] = copies.emplace(v, ValueId());
    if (fresh)
      it->second = value.is_constant() ? part.graph.AddConstant(value.name, value.constant)
                                       : part.graph.AddValue(value.name, value.type);
    return it->second;
  };
  for (const NodeId id : whole.order()) {
    if (!needed.count(id)) continue;
    Node node = whole.node(id);
    // Another node may give an output that is given here: under its name stands the input.
    for (ValueId& v : node.outputs) {
      if (!v.valid()) continue;
      v = read.count(v) ? part.graph.AddValue(whole.value(v).name + ".again", whole.value(v).type)
                        : copy(v);
    }
    for (ValueId& v : node.inputs) {
      if (v.valid()) v = copy(v);
    }
    part.graph.AddNode(std::move(node));
  }
  for (const ValueId v : wanted) {
    if (!part.graph.IsOutput(copies.at(v))) part.graph.MarkOutput(copies.at(v));
  }
  EVOQ_TRY(part.graph.Sort());
  EVOQ_TRY(InferTypes(part.graph));
  return part;
}

bool HasBodies(const Graph& graph) {
  return std::ranges::any_of(graph.order(),
                             [&](NodeId id) { return !graph.node(id).bodies.empty(); });
}

}  // namespace

std::map<ValueId, ValueId> SharedValues(const Graph& base, const Graph& variant) {
  return Matcher(base, variant).Run();
}

Status PartRuns::RunWhole(const Graph& variant, const UseFn& use) {
  ++whole_runs_;
  EVOQ_ASSIGN(const RunFn run, prepare_(variant));
  for (size_t s = 0; s < samples_.size(); ++s) {
    EVOQ_ASSIGN(const std::vector<Tensor> outputs, run(samples_[s]));
    EVOQ_TRY(use(s, outputs));
  }
  return {};
}

// Brings what is kept to the values of these names; false where they take too much memory.
Result<bool> PartRuns::Keep(const std::vector<std::string>& names) {
  std::map<std::string, std::vector<Tensor>> kept;
  std::vector<ValueId> missing;
  int64_t bytes = 0;
  const auto count = static_cast<int64_t>(samples_.size());
  for (const std::string& name : names) {
    const auto it = kept_.find(name);
    if (it == kept_.end()) {
      missing.push_back(base_.FindValue(name));
      continue;
    }
    bytes += static_cast<int64_t>(it->second[0].bytes()) * count;
    kept[name] = it->second;
  }
  if (!missing.empty()) {
    std::set<ValueId> given;
    for (const auto& [name, values] : kept_) given.insert(base_.FindValue(name));
    EVOQ_ASSIGN(const Part part, PartBetween(base_, given, missing));
    EVOQ_ASSIGN(const RunFn run, prepare_(part.graph));
    for (size_t s = 0; s < samples_.size(); ++s) {
      std::vector<Tensor> inputs = samples_[s];
      for (const ValueId v : part.given) inputs.push_back(kept_.at(base_.value(v).name)[s]);
      EVOQ_ASSIGN(std::vector<Tensor> outputs, run(inputs));
      for (size_t i = 0; i < missing.size(); ++i) {
        if (s == 0) bytes += static_cast<int64_t>(outputs[i].bytes()) * count;
        kept[base_.value(missing[i]).name].push_back(std::move(outputs[i]));
      }
      if (s == 0 && bytes > most_bytes_) return false;
    }
  }
  if (bytes > most_bytes_) return false;
  kept_ = std::move(kept);
  return true;
}

Status PartRuns::Run(const Graph& variant, const UseFn& use) {
  if (samples_.empty()) return {};
  if (HasBodies(variant) || HasBodies(base_)) return RunWhole(variant, use);
  const std::map<ValueId, ValueId> shared = SharedValues(base_, variant);
  std::set<ValueId> border;  // shared and computed, and read by what is not shared
  const auto note = [&](ValueId v) {
    if (v.valid() && shared.count(v) && variant.value(v).producer.valid()) border.insert(v);
  };
  for (const NodeId id : variant.order()) {
    const Node& node = variant.node(id);
    const bool same = std::ranges::all_of(
        node.outputs, [&](ValueId v) { return !v.valid() || shared.count(v) > 0; });
    if (!same) std::ranges::for_each(node.inputs, note);
  }
  std::ranges::for_each(variant.outputs(), note);
  std::vector<std::string> names;
  for (const ValueId v : border) names.push_back(variant.value(v).name);
  if (names.empty()) return RunWhole(variant, use);
  EVOQ_ASSIGN(const bool kept, Keep(names));
  if (!kept) return RunWhole(variant, use);
  // Outputs that are shared are kept; the others are computed.
  std::vector<ValueId> wanted;
  for (const ValueId v : variant.outputs()) {
    if (!border.count(v) && std::ranges::find(wanted, v) == wanted.end()) wanted.push_back(v);
  }
  Part part;
  RunFn run;
  if (!wanted.empty()) {
    EVOQ_ASSIGN(part, PartBetween(variant, border, wanted));
    EVOQ_ASSIGN(run, prepare_(part.graph));
  }
  for (size_t s = 0; s < samples_.size(); ++s) {
    std::vector<Tensor> computed, outputs;
    if (run) {
      std::vector<Tensor> inputs = samples_[s];
      for (const ValueId v : part.given) inputs.push_back(kept_.at(variant.value(v).name)[s]);
      EVOQ_ASSIGN(computed, run(inputs));
    }
    for (const ValueId v : variant.outputs()) {
      const auto at = static_cast<size_t>(std::ranges::find(wanted, v) - wanted.begin());
      outputs.push_back(at < wanted.size() ? computed[at] : kept_.at(variant.value(v).name)[s]);
    }
    EVOQ_TRY(use(s, outputs));
  }
  return {};
}

}  // namespace evoq
