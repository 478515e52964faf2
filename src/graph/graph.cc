#include "graph/graph.h"

#include <algorithm>

#include "base/check.h"
#include "graph/unique_name.h"

namespace evoq {
namespace {

// Readers mostly go in the order in which they came, or in the reverse one: looked for from both
// ends.
void RemoveOne(std::vector<NodeId>& users, NodeId user) {
  for (size_t i = 0; i < users.size(); ++i) {
    for (size_t at : {i, users.size() - 1 - i}) {
      if (users[at] != user) continue;
      users.erase(users.begin() + static_cast<ptrdiff_t>(at));
      return;
    }
  }
  EVOQ_CHECK(false, "node {} is not a user", user.index);
}

// The values' lists of users against the nodes' inputs, in time linear in both.
Status VerifyUsers(const Graph& graph) {
  const size_t count = static_cast<size_t>(graph.value_count());
  std::vector<size_t> end(count + 1,
                          0);  // of value i's readers among `readers`, once they are all there
  for (NodeId id : graph.order()) {
    for (ValueId in : graph.node(id).inputs) {
      if (in.valid()) ++end[static_cast<size_t>(in.index) + 1];
    }
  }
  for (size_t i = 0; i < count; ++i) end[i + 1] += end[i];
  std::vector<NodeId> readers(end.back());
  for (NodeId id : graph.order()) {
    for (ValueId in : graph.node(id).inputs) {
      if (in.valid()) readers[end[static_cast<size_t>(in.index)]++] = id;
    }
  }
  size_t begin = 0;
  for (size_t i = 0; i < count; begin = end[i++]) {
    const Value& value = graph.value(ValueId{static_cast<int32_t>(i)});
    std::vector<NodeId> users = value.users, read(readers.begin() + static_cast<ptrdiff_t>(begin),
                                                  readers.begin() + static_cast<ptrdiff_t>(end[i]));
    std::sort(users.begin(), users.end());
    std::sort(read.begin(), read.end());
    if (users != read)
      return Fail(ErrorCode::kInternal,
                  "broken graph: value {} lists {} users, which are not its {} readers", value.name,
                  users.size(), read.size());
  }
  return {};
}

}  // namespace

bool Graph::IsInput(ValueId id) const {
  return std::find(inputs_.begin(), inputs_.end(), id) != inputs_.end();
}
bool Graph::IsOutput(ValueId id) const {
  return std::find(outputs_.begin(), outputs_.end(), id) != outputs_.end();
}

ValueId Graph::FindValue(std::string_view name) const {
  auto it = value_names_.find(name);
  return it == value_names_.end() ? ValueId{} : ValueId{it->second};
}

NodeId Graph::FindNode(std::string_view name) const {
  auto it = node_names_.find(name);
  return it == node_names_.end() ? NodeId{} : NodeId{it->second};
}

const Tensor* Graph::ConstantInput(const Node& node, size_t i) const {
  const ValueId id = node.input(i);
  if (!id.valid() || !value(id).is_constant()) return nullptr;
  return &value(id).constant;
}

NodeId Graph::OnlyUser(ValueId id) const {
  const Value& v = value(id);
  return v.users.size() == 1 && !IsOutput(id) ? v.users[0] : NodeId{};
}

std::string Graph::UniqueName(const std::string& wanted, bool node) {
  const auto& names = node ? node_names_ : value_names_;
  const std::string base = wanted.empty() ? (node ? "node" : "value") : wanted;
  return evoq::UniqueName(base, [&](const std::string& name) { return names.count(name) > 0; });
}

ValueId Graph::AddValue(std::string name, TensorType type) {
  const ValueId id{static_cast<int32_t>(values_.size())};
  Value v;
  v.name = UniqueName(name, /*node=*/false);
  v.type = std::move(type);
  value_names_[v.name] = id.index;
  values_.push_back(std::move(v));
  return id;
}

ValueId Graph::AddInput(std::string name, TensorType type) {
  const ValueId id = AddValue(std::move(name), std::move(type));
  inputs_.push_back(id);
  return id;
}

ValueId Graph::AddConstant(std::string name, Tensor tensor) {
  const ValueId id = AddValue(std::move(name), tensor.type());
  values_[id.index].constant = std::move(tensor);
  return id;
}

NodeId Graph::AddNode(Node node) {
  const NodeId id{static_cast<int32_t>(nodes_.size())};
  EVOQ_CHECK(!node.op.empty());
  node.name = UniqueName(node.name.empty() ? node.op : node.name, /*node=*/true);
  node_names_[node.name] = id.index;
  for (ValueId in : node.inputs) {
    if (in.valid()) values_[in.index].users.push_back(id);
  }
  for (ValueId out : node.outputs) {
    if (!out.valid()) continue;
    EVOQ_CHECK(!values_[out.index].producer.valid() && !values_[out.index].is_constant(),
               "{} has a producer", values_[out.index].name);
    values_[out.index].producer = id;
  }
  nodes_.push_back(std::move(node));
  order_.push_back(id);
  return id;
}

ValueId Graph::Apply(std::string op, std::string name, std::vector<ValueId> inputs, Attrs attrs,
                     TensorType type) {
  const ValueId out = AddValue(name, std::move(type));
  Node node;
  node.op = std::move(op);
  node.name = std::move(name);
  node.attrs = std::move(attrs);
  node.inputs = std::move(inputs);
  node.outputs = {out};
  AddNode(std::move(node));
  return out;
}

void Graph::MarkOutput(ValueId id) { outputs_.push_back(id); }

void Graph::ReplaceOutput(size_t i, ValueId id) {
  const std::string name = values_[outputs_[i].index].name;
  const bool input = IsInput(outputs_[i]);
  if (!input) Rename(outputs_[i], name + "_inner");
  outputs_[i] = id;
  if (!input) Rename(id, name);
}

void Graph::SetConstant(ValueId id, Tensor tensor) {
  EVOQ_CHECK(!values_[id.index].producer.valid());
  values_[id.index].type = tensor.type();
  values_[id.index].constant = std::move(tensor);
}

void Graph::Rename(ValueId id, std::string name) {
  Value& v = values_[id.index];
  if (v.name == name) return;
  value_names_.erase(v.name);
  v.name = UniqueName(name, /*node=*/false);
  value_names_[v.name] = id.index;
}

void Graph::SetOp(NodeId id, std::string op, std::string domain) {
  nodes_[id.index].op = std::move(op);
  nodes_[id.index].domain = std::move(domain);
}

void Graph::RenameNode(NodeId id, std::string name) {
  Node& n = nodes_[id.index];
  if (n.name == name) return;
  node_names_.erase(n.name);
  n.name = UniqueName(name, /*node=*/true);
  node_names_[n.name] = id.index;
}

void Graph::SetInput(NodeId id, size_t i, ValueId to) {
  Node& n = nodes_[id.index];
  if (i >= n.inputs.size()) n.inputs.resize(i + 1);
  if (n.inputs[i].valid()) RemoveOne(values_[n.inputs[i].index].users, id);
  n.inputs[i] = to;
  if (to.valid()) values_[to.index].users.push_back(id);
}

void Graph::ReplaceUsesIn(NodeId user, ValueId from, ValueId to) {
  for (size_t i = 0; i < nodes_[user.index].inputs.size(); ++i) {
    if (nodes_[user.index].inputs[i] == from) SetInput(user, i, to);
  }
}

void Graph::ReplaceUses(ValueId from, ValueId to) {
  if (from == to) return;
  const std::vector<NodeId> users = values_[from.index].users;
  for (NodeId user : users) ReplaceUsesIn(user, from, to);
  if (!IsOutput(from)) return;
  std::replace(outputs_.begin(), outputs_.end(), from, to);
  // Users of the model know outputs by name.
  if (!IsInput(to)) {
    const std::string name = values_[from.index].name;
    Rename(from, name + "_replaced");
    Rename(to, name);
  }
}

void Graph::SetOutput(NodeId node, size_t i, ValueId value) {
  Node& n = nodes_[node.index];
  if (n.outputs[i].valid()) values_[n.outputs[i].index].producer = NodeId{};
  EVOQ_CHECK(!values_[value.index].producer.valid());
  n.outputs[i] = value;
  values_[value.index].producer = node;
}

void Graph::RemoveNode(NodeId id) {
  Node& n = nodes_[id.index];
  for (ValueId in : n.inputs) {
    if (in.valid()) RemoveOne(values_[in.index].users, id);
  }
  for (ValueId out : n.outputs) {
    if (out.valid()) values_[out.index].producer = NodeId{};
  }
  node_names_.erase(n.name);
  n = Node{};
  order_.erase(std::find(order_.begin(), order_.end(), id));
}

int Graph::RemoveDeadNodes() {
  std::vector<bool> live(nodes_.size(), false);
  std::vector<NodeId> stack;
  const auto need = [&](ValueId v) {
    const NodeId p = values_[v.index].producer;
    if (p.valid() && !live[p.index]) {
      live[p.index] = true;
      stack.push_back(p);
    }
  };
  for (ValueId out : outputs_) need(out);
  while (!stack.empty()) {
    const NodeId id = stack.back();
    stack.pop_back();
    for (ValueId in : nodes_[id.index].inputs) {
      if (in.valid()) need(in);
    }
  }
  int removed = 0;
  const std::vector<NodeId> order = order_;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    if (live[it->index]) continue;
    RemoveNode(*it);
    ++removed;
  }
  return removed;
}

Status Graph::Sort() {
  // Kahn's algorithm with the present order as priority: a valid order comes out unchanged.
  std::vector<int> rank(nodes_.size(), -1), waiting(nodes_.size(), 0);
  for (size_t i = 0; i < order_.size(); ++i) rank[order_[i].index] = static_cast<int>(i);
  for (NodeId id : order_) {
    for (ValueId in : nodes_[id.index].inputs) {
      if (in.valid() && values_[in.index].producer.valid()) ++waiting[id.index];
    }
  }
  const auto later = [&](NodeId a, NodeId b) { return rank[a.index] > rank[b.index]; };
  std::vector<NodeId> ready;
  for (NodeId id : order_) {
    if (waiting[id.index] == 0) ready.push_back(id);
  }
  std::make_heap(ready.begin(), ready.end(), later);
  std::vector<NodeId> sorted;
  sorted.reserve(order_.size());
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), later);
    const NodeId id = ready.back();
    ready.pop_back();
    sorted.push_back(id);
    for (ValueId out : nodes_[id.index].outputs) {
      if (!out.valid()) continue;
      for (NodeId user : values_[out.index].users) {
        if (--waiting[user.index] > 0) continue;
        ready.push_back(user);
        std::push_heap(ready.begin(), ready.end(), later);
      }
    }
  }
  if (sorted.size() != order_.size()) {
    for (NodeId id : order_) {
      if (waiting[id.index] > 0)
        return InvalidInput("node {} ({}) is part of a cycle, expected an acyclic graph",
                            node(id).name, node(id).op);
    }
  }
  order_ = std::move(sorted);
  return {};
}

Status Graph::Verify() const {
  const auto broken = [](std::string what) {
    return Fail(ErrorCode::kInternal, "broken graph: {}", what);
  };
  EVOQ_TRY(VerifyUsers(*this));
  std::vector<bool> computed(values_.size(), false);
  for (ValueId in : inputs_) computed[in.index] = true;
  for (NodeId id : order_) {
    const Node& n = node(id);
    if (n.op.empty()) return broken(fmt::format("node {} is dead but listed", id.index));
    for (ValueId in : n.inputs) {
      if (!in.valid()) continue;
      const Value& v = value(in);
      if (!v.is_constant() && !computed[in.index])
        return broken(fmt::format("node {} reads {} before it is computed", n.name, v.name));
    }
    for (ValueId out : n.outputs) {
      if (!out.valid()) continue;
      if (value(out).producer != id)
        return broken(
            fmt::format("value {} does not know its producer {}", value(out).name, n.name));
      computed[out.index] = true;
    }
  }
  for (ValueId out : outputs_) {
    if (!value(out).is_constant() && !computed[out.index])
      return broken(fmt::format("output {} is not computed", value(out).name));
  }
  return {};
}

Graph Graph::Compacted() const {
  Graph to;
  to.name = name;
  to.metadata = metadata;
  std::vector<ValueId> map(values_.size());
  const auto move = [&](ValueId id) {
    if (!id.valid() || map[id.index].valid()) return;
    const Value& v = value(id);
    map[id.index] =
        v.is_constant() ? to.AddConstant(v.name, v.constant) : to.AddValue(v.name, v.type);
    to.values_[map[id.index].index].type = v.type;
  };
  for (ValueId in : inputs_) {
    map[in.index] = to.AddInput(value(in).name, value(in).type);
  }
  for (NodeId id : order_) {
    Node n = node(id);
    for (ValueId& in : n.inputs) {
      move(in);
      if (in.valid()) in = map[in.index];
    }
    for (ValueId& out : n.outputs) {
      move(out);
      if (out.valid()) out = map[out.index];
    }
    to.AddNode(std::move(n));
  }
  for (ValueId out : outputs_) {
    move(out);
    to.MarkOutput(map[out.index]);
  }
  return to;
}

}  // namespace evoq
