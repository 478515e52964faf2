#include "encodings/lineage.h"

#include <algorithm>

#include "base/math.h"
#include "ops/op.h"
#include "passes/match.h"
#include "quant/unfuse.h"
#include "reference/util.h"

namespace evoq {
namespace {

// How far an operator's result is followed to where a fused one ends.
constexpr int kMaxSteps = 16;

// The node gives its first input on, perhaps in another precision.
bool OnlyPasses(const Graph& graph, const Node& node) {
  if (IsConversion(node)) return true;
  if (FindOp(node) == nullptr || FindOp(node)->quant != QuantTrait::kMove) return false;
  return node.inputs.size() == 1 &&
         SameShape(graph.value(node.inputs[0]).type.shape, graph.value(node.outputs[0]).type.shape);
}

// The node gives all numbers of its first input and no others, perhaps in another shape.
bool KeepsNumbers(const Graph& graph, const Node& node) {
  if (FindOp(node) == nullptr || FindOp(node)->quant != QuantTrait::kMove || !node.input(0).valid())
    return false;
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i].valid() && !graph.value(node.inputs[i]).is_constant()) return false;
  }
  if (node.outputs.size() != 1 || !node.outputs[0].valid()) return false;
  const Shape &x = graph.value(node.inputs[0]).type.shape,
              &y = graph.value(node.outputs[0]).type.shape;
  if (SameShape(x, y)) return true;
  return x.is_static() && y.is_static() && CheckedProduct(x.sizes()) == CheckedProduct(y.sizes());
}

// The constant that input i of a node of the file is, perhaps through operators that only permute
// or pass it on, and the permutation of it that the node reads.
struct Source {
  ValueId constant;
  Permutation perm;
};
std::optional<Source> SourceOf(const Graph& graph, const Node& node, size_t i) {
  Source source;
  ValueId v = node.input(i);
  if (!v.valid()) return std::nullopt;
  const LinearForm* form = LinearFormOf(node);
  if (form != nullptr && form->transposed != nullptr && i == 1 &&
      node.attrs.Int(form->transposed) != 0)
    source.perm = {1, 0};
  for (int step = 0; step < kMaxSteps && !graph.value(v).is_constant(); ++step) {
    const NodeId id = graph.value(v).producer;
    if (!graph.alive(id)) return std::nullopt;
    const Node& producer = graph.node(id);
    if (producer.op == "Transpose") {
      const auto perm = PermutationOf(graph, producer);
      if (!perm) return std::nullopt;
      source.perm = source.perm.empty() ? *perm : Compose(*perm, source.perm);
    } else if (!OnlyPasses(graph, producer)) {
      return std::nullopt;
    }
    v = producer.input(0);
    if (!v.valid()) return std::nullopt;
  }
  if (!graph.value(v).is_constant()) return std::nullopt;
  source.constant = v;
  return source;
}

// Whether the constant has other numbers than the tensor with its axes permuted.
bool Changed(const Tensor& tensor, const Tensor& constant, const Permutation& perm) {
  if (tensor.dtype() != constant.dtype()) return true;
  if (perm.empty()) return !BitEqual(tensor, constant);
  return !CanPermute(tensor) || !BitEqual(Permuted(tensor, perm), constant);
}

}  // namespace

Lineage::Lineage(const Graph& original, const Graph& optimized) {
  LinkNames(original, optimized);
  for (NodeId id : optimized.order()) {
    if (!original.FindNode(optimized.node(id).name).valid()) continue;
    LinkConstants(original, optimized, id);
    if (IsLinear(optimized.node(id))) LinkInner(original, optimized, id);
  }
  LinkMoved(original);
}

void Lineage::Add(Link link) {
  if (link.moved || by_value_.emplace(link.value, link).second)
    by_tensor_.emplace(link.tensor, std::move(link));
}

void Lineage::LinkNames(const Graph& original, const Graph& optimized) {
  for (int i = 0; i < optimized.value_count(); ++i) {
    const Value& value = optimized.value(ValueId{i});
    const bool dead = value.users.empty() && !optimized.IsOutput(ValueId{i});
    if (dead) continue;
    const ValueId from = original.FindValue(value.name);
    if (!from.valid() || original.value(from).is_constant() != value.is_constant()) continue;
    Link link{.value = value.name, .tensor = value.name};
    if (value.is_constant()) {
      if (original.value(from).constant.shape() != value.constant.shape()) continue;
      link.changed = Changed(original.value(from).constant, value.constant, {});
    }
    Add(std::move(link));
  }
}

void Lineage::LinkConstants(const Graph& original, const Graph& optimized, NodeId id) {
  const Node &node = optimized.node(id), &from = original.node(original.FindNode(node.name));
  for (size_t i = 0; i < std::min(node.inputs.size(), from.inputs.size()); ++i) {
    const Tensor* constant = optimized.ConstantInput(node, i);
    if (constant == nullptr) continue;
    const std::string& name = optimized.value(node.inputs[i]).name;
    if (by_value_.count(name)) continue;
    const auto source = SourceOf(original, from, i);
    if (!source) continue;
    const Value& tensor = original.value(source->constant);
    const Shape shape = source->perm.empty() ? tensor.constant.shape()
                                             : Permuted(tensor.constant.shape(), source->perm);
    if (shape != constant->shape()) continue;
    Add({name, tensor.name, source->perm, Changed(tensor.constant, *constant, source->perm)});
  }
}

// From the linear operator of the file to the value that the fused one computes.
void Lineage::LinkInner(const Graph& original, const Graph& optimized, NodeId id) {
  const Node& node = optimized.node(id);
  if (!node.outputs[0].valid()) return;
  const std::string& y = optimized.value(node.outputs[0]).name;
  ValueId v = original.node(original.FindNode(node.name)).outputs[0];
  for (int step = 0; step < kMaxSteps && v.valid() && original.value(v).name != y; ++step) {
    const NodeId next = original.OnlyUser(v);
    const Node* user = next.valid() ? &original.node(next) : nullptr;
    const bool has_constant = user != nullptr && std::ranges::any_of(user->inputs, [&](ValueId in) {
                                return in.valid() && original.value(in).is_constant();
                              });
    const bool folds = user != nullptr && !ActivationOf(original, *user) &&
                       (has_constant || OnlyPasses(original, *user));
    if (user != nullptr && user->op == "Add" && !has_constant) {
      if (HasResidual(node)) Add({y + ".product", original.value(v).name, {}, false});
    } else if (!folds && HasActivation(node)) {
      Add({y + ".linear", original.value(v).name, {}, false});
    }
    if (user == nullptr) return;
    v = user->outputs[0];
  }
}

// Tensors of which the optimized graph has the numbers under the name of what moved them.
void Lineage::LinkMoved(const Graph& original) {
  for (int i = 0; i < original.value_count(); ++i) {
    const Value& tensor = original.value(ValueId{i});
    if (tensor.is_constant() || by_tensor_.count(tensor.name)) continue;
    for (const bool forward : {true, false}) {
      ValueId v{i};
      for (int step = 0; step < kMaxSteps && v.valid(); ++step) {
        const NodeId id = forward ? original.OnlyUser(v) : original.value(v).producer;
        if (!original.alive(id) || !KeepsNumbers(original, original.node(id))) break;
        v = forward ? original.node(id).outputs[0] : original.node(id).input(0);
        const auto link = by_value_.find(original.value(v).name);
        if (link == by_value_.end()) continue;
        Add({link->first, tensor.name, {}, false, true});
        break;
      }
      if (by_tensor_.count(tensor.name)) break;
    }
  }
}

std::vector<const Lineage::Link*> Lineage::OfTensor(const std::string& tensor) const {
  std::vector<const Link*> links;
  const auto [first, last] = by_tensor_.equal_range(tensor);
  for (auto it = first; it != last; ++it) links.push_back(&it->second);
  return links;
}

const Lineage::Link* Lineage::OfValue(const std::string& value) const {
  const auto it = by_value_.find(value);
  return it == by_value_.end() ? nullptr : &it->second;
}

}  // namespace evoq
