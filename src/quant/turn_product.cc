#include "quant/turn_product.h"

#include "kernels/activation.h"
#include "passes/linear.h"
#include "passes/match.h"
#include "quant/unfuse.h"
#include "reference/reference.h"

namespace evoq {
namespace {

Permutation LastTwo(int rank) {
  Permutation perm;
  for (int i = 0; i < rank; ++i) perm.push_back(i);
  std::swap(perm[static_cast<size_t>(rank) - 1], perm[static_cast<size_t>(rank) - 2]);
  return perm;
}

bool IsPlainFloat(const TensorType& type) {
  return type.dtype == DType::kFloat32 && !type.quantized() && type.shape.ranked();
}

// The Add of one number to each of `rows` rows that alone reads the value, and the place of its
// constant.
struct RowBias {
  NodeId add;
  size_t constant;
};
std::optional<RowBias> RowBiasBehind(const Graph& graph, const Node& product, int64_t rows) {
  const ValueId y = product.outputs[0];
  const auto activation = ActivationFromAttrs(product.attrs);
  if (!activation || activation->kind != ActivationKind::kNone) return std::nullopt;
  if (graph.IsOutput(y) || graph.value(y).users.size() != 1) return std::nullopt;
  const NodeId id = graph.value(y).users[0];
  const Node& add = graph.node(id);
  if (add.op != "Add" || !add.domain.empty() || add.inputs.size() != 2 ||
      add.inputs[0] == add.inputs[1] || !ActivationFromAttrs(add.attrs))
    return std::nullopt;
  const size_t constant = add.inputs[0] == y ? 1 : 0;
  const Tensor* bias = graph.ConstantInput(add, constant);
  if (bias == nullptr || !IsPlainFloat(bias->type()) || bias->elements() != rows)
    return std::nullopt;
  const Shape& shape = bias->shape();
  const int rank = shape.rank();
  if (rank < 2 || rank > graph.value(y).type.shape.rank() || shape[rank - 1] != Dim(1) ||
      shape[rank - 2] != Dim(rows))
    return std::nullopt;
  return RowBias{id, constant};
}

// x with its last two axes exchanged, which products of one x share.
ValueId TurnedInput(Graph& graph, const Node& node) {
  const ValueId x = node.input(1);
  const TensorType type = graph.value(x).type;
  const Permutation perm = LastTwo(type.shape.rank());
  const std::string name = TurnedInputName(graph, node);
  const ValueId found = graph.FindValue(name);
  if (found.valid() && graph.value(found).producer.valid()) {
    const Node& before = graph.node(graph.value(found).producer);
    if (before.op == "Transpose" && before.inputs[0] == x && PermutationOf(graph, before) == perm)
      return found;
  }
  return graph.Apply("Transpose", name, {x}, Attrs::Of("perm", perm), Permuted(type, perm));
}

}  // namespace

bool IsTurnable(const Graph& graph, const Node& node, double work) {
  if (node.op != "MatMul" || !node.domain.empty() || node.input(2).valid() ||
      node.input(3).valid() || HasSlopes(node))
    return false;
  const Tensor* rows = graph.ConstantInput(node, 0);
  if (rows == nullptr || !IsPlainFloat(rows->type()) || !rows->layout().empty() ||
      rows->shape().rank() != 2 || graph.value(node.input(1)).is_constant())
    return false;
  const TensorType &x = graph.value(node.input(1)).type, &y = graph.value(node.outputs[0]).type;
  if (!IsPlainFloat(x) || !IsPlainFloat(y) || x.shape.rank() < 2 || y.shape.rank() < 2)
    return false;
  const auto m = static_cast<double>(rows->shape()[0].value),
             k = static_cast<double>(rows->shape()[1].value);
  return m * k >= work * (m + k) && m * k > 0;
}

std::string TurnedInputName(const Graph& graph, const Node& node) {
  return graph.value(node.input(1)).name + ".turned";
}

std::string TurnedResultName(const Graph& graph, const Node& node) {
  return graph.value(node.outputs[0]).name + ".turned";
}

void TurnProduct(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  const Tensor rows = *graph.ConstantInput(node, 0);
  const TensorType y = graph.value(node.outputs[0]).type;
  const Permutation of_y = LastTwo(y.shape.rank());
  const ValueId turned_x = TurnedInput(graph, node);
  const ValueId weight =
      graph.AddConstant(graph.value(node.input(0)).name + ".turned", Permuted(rows, LastTwo(2)));
  const ValueId turned_y = graph.AddValue(TurnedResultName(graph, node), Permuted(y, of_y));
  Node product{.op = "MatMul",
               .name = node.name,
               .attrs = node.attrs,
               .inputs = {turned_x, weight},
               .outputs = {turned_y}};
  ValueId result = node.outputs[0];
  if (const auto bias = RowBiasBehind(graph, node, rows.shape()[0].value)) {
    const Node add = graph.node(bias->add);
    const auto values = graph.ConstantInput(add, bias->constant)->values<float>();
    product.inputs.push_back(graph.AddConstant(
        node.name + ".bias", Tensor::FromValues<float>({values.begin(), values.end()})));
    ActivationToAttrs(*ActivationFromAttrs(add.attrs), product.attrs);
    result = add.outputs[0];
    graph.RemoveNode(bias->add);
  }
  graph.RemoveNode(id);
  graph.AddNode(std::move(product));
  graph.AddNode({.op = "Transpose",
                 .name = node.name + ".back",
                 .attrs = Attrs::Of("perm", of_y),
                 .inputs = {turned_y},
                 .outputs = {result}});
}

Status TurnProducts(Graph& graph, const QuantizeOptions& options, double work,
                    const Ranges* ranges) {
  if (!options.given.empty()) return {};
  bool changed = false;
  const std::vector<NodeId> nodes = graph.order();
  for (NodeId id : nodes) {
    const Node& node = graph.node(id);
    if (!IsTurnable(graph, node, work) || KeptByOptions(node, options)) continue;
    if (ranges != nullptr && (ranges->count(TurnedInputName(graph, node)) == 0 ||
                              ranges->count(TurnedResultName(graph, node)) == 0))
      continue;
    TurnProduct(graph, id);
    changed = true;
  }
  if (!changed) return {};
  EVOQ_TRY(graph.Sort());
  return InferTypes(graph);
}

Status TurnForWeights(Graph& graph, const Ranges&, const QuantizeOptions& options) {
  return TurnProducts(graph, options, kWorkOfFloats);
}

}  // namespace evoq
