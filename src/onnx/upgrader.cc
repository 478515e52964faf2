// The machinery behind the upgrade rules.
#include "base/budget_scope.h"
#include "onnx/upgrade.h"
#include "ops/control.h"
#include "ops/driver.h"
#include "reference/reference.h"

namespace evoq {

Status Upgrade::NeedInputs(std::initializer_list<size_t> wanted) const {
  for (const size_t i : wanted) {
    if (!HasInput(i)) return InvalidInput("input {} is missing", i);
  }
  return {};
}

TensorType Upgrade::InputType(size_t i) const {
  const ValueId id = node().input(i);
  return id.valid() ? graph_.value(id).type : TensorType{};
}

ValueId Upgrade::AddConstant(std::string_view suffix, Tensor tensor) {
  if (status_) status_ = SpendMemory(FootprintBytes(tensor), "constants of the upgraded form");
  return graph_.AddConstant(fmt::format("{}_{}", node().name, suffix), std::move(tensor));
}

void Upgrade::SetInts(size_t i, std::string_view suffix, const std::vector<int64_t>& values) {
  const Shape shape{static_cast<int64_t>(values.size())};
  graph_.SetInput(id_, i, AddConstant(suffix, Tensor::FromValues<int64_t>(shape, values)));
}

Status Upgrade::AttrToInput(const char* attr, size_t i) {
  if (!attrs().Has(attr)) return {};
  if (!attrs().KindIs<std::vector<int64_t>>(attr))
    return InvalidInput("attribute {} is not a list of integers", attr);
  SetInts(i, attr, attrs().Ints(attr));
  attrs().Erase(attr);
  return {};
}

ValueId Upgrade::Apply(std::string op, std::string_view suffix, std::vector<ValueId> inputs,
                       Attrs attrs) {
  const std::string name = suffix.empty() ? node().name : fmt::format("{}_{}", node().name, suffix);
  const ValueId out = graph_.Apply(std::move(op), name, std::move(inputs), std::move(attrs));
  added_.push_back(graph_.value(out).producer);
  return out;
}

void Upgrade::ReplaceBy(ValueId value) {
  const ValueId old = node().outputs[0];
  const std::string name = node().name, value_name = graph_.value(old).name;
  const NodeId producer = graph_.value(value).producer;
  graph_.ReplaceUses(old, value);
  graph_.RemoveNode(id_);
  graph_.Rename(old, value_name + "_upgraded");
  graph_.Rename(value, value_name);
  graph_.RenameNode(producer, name);
}

const Tensor* Upgrade::Constant(size_t i) const {
  const Tensor* constant = graph_.ConstantInput(node(), i);
  return constant == nullptr ? nullptr : &constants_.emplace_back(*constant);
}

bool Upgrade::OutputUsed(size_t i) const {
  if (i >= node().outputs.size() || !node().outputs[i].valid()) return false;
  const ValueId id = node().outputs[i];
  return !graph_.value(id).users.empty() || graph_.IsOutput(id);
}

namespace {

// Runs `visit` on the rules of a domain in order: a rule may make its node one of an operator that
// later rules are for.
template <typename Visit>
void ForRules(std::string_view domain, const Visit& visit) {
  for (const auto rules : {QuantizedRules(), QonnxRules(), MicrosoftRules(), PackedRules(),
                           Bnb4Rules(), RecurrentRules(), OnnxRules()}) {
    for (const UpgradeRule& rule : rules) {
      if (domain == rule.domain) visit(rule);
    }
  }
}

// Infers the nodes in an order in which each finds its inputs' types. Those whose inputs never get
// one wait for InferTypes, which reports them. `lenient`: nodes that cannot be inferred keep no
// type (a branch that is never taken may be impossible).
Status InferAll(Graph& graph, std::vector<NodeId> nodes, bool lenient) {
  for (size_t left = nodes.size() + 1; !nodes.empty() && nodes.size() < left;) {
    left = nodes.size();
    std::vector<NodeId> waiting;
    for (NodeId id : nodes) {
      const Node& node = graph.node(id);
      bool ready = true;
      for (ValueId in : node.inputs)
        ready &= !in.valid() || graph.value(in).type.dtype != DType::kUndefined;
      if (!ready) {
        waiting.push_back(id);
        continue;
      }
      std::vector<TensorType> declared;
      for (ValueId out : node.outputs)
        declared.push_back(out.valid() ? graph.value(out).type : TensorType{});
      auto inferred = InferNode(graph, node, declared);
      if (!inferred && lenient) continue;
      EVOQ_ASSIGN(const std::vector<TensorType> types, std::move(inferred));
      for (size_t i = 0; i < node.outputs.size() && i < types.size(); ++i) {
        if (node.outputs[i].valid()) graph.SetType(node.outputs[i], types[i]);
      }
    }
    nodes = std::move(waiting);
  }
  return {};
}

// Upgrades the subgraphs of a node, from the types of the node's inputs. What is kept of those are
// element types and containers: inference starts from the inputs at hand.
Status UpgradeBodies(Graph& graph, NodeId id, const std::map<std::string, int>& versions) {
  for (size_t i = 0; i < graph.node(id).bodies.size(); ++i) {
    const Node& node = graph.node(id);
    std::vector<TensorType> inputs;
    for (ValueId in : node.inputs)
      inputs.push_back(in.valid() ? graph.value(in).type : TensorType());
    Graph body = *node.bodies[i];
    EVOQ_ASSIGN(const std::vector<TensorType> types, BodyInputTypes(node, i, inputs));
    for (size_t k = 0; k < types.size(); ++k) body.SetType(body.inputs()[k], types[k]);
    EVOQ_TRY(WithContext(UpgradeNodes(body, versions, /*lenient=*/true), "subgraph " + body.name));
    body.RemoveDeadNodes();
    body = body.Compacted();
    for (size_t k = 0; k < types.size(); ++k)
      body.SetType(body.inputs()[k],
                   TensorType::In(types[k].kind, types[k].dtype, Shape::UnknownRank()));
    graph.SetBody(id, i, std::make_shared<const Graph>(std::move(body)));
  }
  return {};
}

}  // namespace

bool IsReplaced(std::string_view op, std::string_view domain) {
  bool found = false;
  ForRules(domain,
           [&](const UpgradeRule& rule) { found |= rule.op == op && rule.before == kAnyVersion; });
  return found;
}

int VersionOf(const Node& node, const std::map<std::string, int>& versions) {
  if (node.attrs.Has(kOpsetAttr)) return static_cast<int>(node.attrs.Int(kOpsetAttr));
  const auto found = versions.find(node.domain);
  return found == versions.end() ? kAnyVersion - 1 : found->second;
}

Status UpgradeNodes(Graph& graph, const std::map<std::string, int>& versions, bool lenient) {
  const std::vector<NodeId> order = graph.order();
  for (NodeId id : order) {
    EVOQ_TRY(WithContext(UpgradeBodies(graph, id, versions), NodeLabel(graph.node(id))));
    const std::string domain = graph.node(id).domain;
    // Rules may rely on output 0, also where only a later output is read.
    if (!graph.node(id).outputs[0].valid())
      graph.SetOutput(id, 0, graph.AddValue(graph.node(id).name + "_unused"));
    const std::string label = NodeLabel(graph.node(id));
    Upgrade upgrade(graph, id, VersionOf(graph.node(id), versions));
    graph.attrs(id).Erase(kOpsetAttr);
    const std::vector<ValueId> outputs = graph.node(id).outputs;
    Status status;
    ForRules(domain, [&](const UpgradeRule& rule) {
      if (!status || !graph.alive(id) || graph.node(id).op != rule.op ||
          upgrade.version() >= rule.before)
        return;
      status = rule.apply(upgrade);
    });
    if (status) status = upgrade.status();
    if (!status) return WithContext(std::move(status), label);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const bool gone = outputs[i].valid() && !graph.value(outputs[i]).producer.valid();
      if (gone && (!graph.value(outputs[i]).users.empty() || graph.IsOutput(outputs[i])))
        return InvalidInput("{}: output {} is read, but the operator does not have it", label, i);
    }
    std::vector<NodeId> pending = upgrade.added();
    if (graph.alive(id)) pending.push_back(id);
    std::erase_if(pending, [&](NodeId n) { return !graph.alive(n); });
    EVOQ_TRY(InferAll(graph, std::move(pending), lenient));
  }
  return graph.Sort();
}

}  // namespace evoq
