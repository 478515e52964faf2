#include "passes/match.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "ops/held.h"
#include "reference/util.h"
#include "tensor/permute.h"

namespace evoq {

const OpDef& OpOf(const Node& node) {
  const OpDef* op = FindOp(node);
  EVOQ_CHECK(op != nullptr, "unknown operator {}", node.op);
  return *op;
}

std::vector<NodeId> NodesOf(const Graph& graph) {
  std::vector<NodeId> nodes = graph.order();
  std::erase_if(nodes, [&](NodeId id) { return IsHeld(graph.node(id)); });
  return nodes;
}

bool IsOp(const Graph& graph, NodeId id, std::string_view op, std::string_view domain) {
  return graph.alive(id) && graph.node(id).op == op && graph.node(id).domain == domain;
}

NodeId ProducedBy(const Graph& graph, ValueId value, std::string_view op, std::string_view domain) {
  if (!value.valid()) return {};
  const NodeId id = graph.value(value).producer;
  return IsOp(graph, id, op, domain) ? id : NodeId{};
}

NodeId InnerNode(const Graph& graph, ValueId value, std::string_view op) {
  const NodeId id = ProducedBy(graph, value, op);
  const bool fits = id.valid() && OnlyReader(graph, id).valid() && !HasActivation(graph.node(id));
  return fits ? id : NodeId{};
}

NodeId OnlyReader(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  return node.outputs.empty() || !node.outputs[0].valid() ? NodeId{}
                                                          : graph.OnlyUser(node.outputs[0]);
}

const Tensor* FloatConstant(const Graph& graph, ValueId value) {
  if (!value.valid() || !graph.value(value).is_constant()) return nullptr;
  const Tensor& tensor = graph.value(value).constant;
  return tensor.dtype() == DType::kFloat32 && tensor.layout().empty() ? &tensor : nullptr;
}

std::optional<float> ScalarOf(const Graph& graph, ValueId value) {
  const Tensor* tensor = FloatConstant(graph, value);
  if (tensor == nullptr || tensor->elements() != 1) return std::nullopt;
  return tensor->values<float>()[0];
}

std::optional<float> UniformOf(const Graph& graph, ValueId value) {
  const Tensor* tensor = FloatConstant(graph, value);
  if (tensor == nullptr || tensor->elements() == 0) return std::nullopt;
  const auto values = tensor->values<float>();
  for (float v : values) {
    if (v != values[0]) return std::nullopt;
  }
  return values[0];
}

std::optional<std::vector<int64_t>> IntsOf(const Graph& graph, ValueId value) {
  if (!value.valid() || !graph.value(value).is_constant()) return std::nullopt;
  const Tensor& tensor = graph.value(value).constant;
  if (tensor.elements() > 4096 || !tensor.layout().empty() || tensor.type().quantized())
    return std::nullopt;
  auto ints = ToInt64s(tensor);
  if (!ints) return std::nullopt;
  return *ints;
}

bool SameDim(const Dim& a, const Dim& b) {
  return a.known() ? a.value == b.value : !b.known() && !a.symbol.empty() && a.symbol == b.symbol;
}

bool SameShape(const Shape& a, const Shape& b) {
  if (!a.ranked() || !b.ranked() || a.rank() != b.rank()) return false;
  return std::equal(a.dims().begin(), a.dims().end(), b.dims().begin(), SameDim);
}

bool SameQuant(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && a.quantized() && b.quantized() && *a.quant == *b.quant;
}

bool IsByteQuantized(const TensorType& type) {
  return type.quantized() && type.quant->per_tensor() &&
         (type.dtype == DType::kUint8 || type.dtype == DType::kInt8);
}

bool HasActivation(const Node& node) { return !node.attrs.String("activation").empty(); }

namespace {
std::optional<Activation> ClipActivation(const Graph& graph, const Node& node) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Activation clip{ActivationKind::kClip, -kInfinity, kInfinity};
  if (node.input(1).valid()) {
    const auto low = ScalarOf(graph, node.input(1));
    if (!low || std::isnan(*low)) return std::nullopt;
    clip.alpha = *low;
  }
  if (node.input(2).valid()) {
    const auto high = ScalarOf(graph, node.input(2));
    if (!high || std::isnan(*high)) return std::nullopt;
    clip.beta = *high;
  }
  if (clip.alpha == 0 && clip.beta >= std::numeric_limits<float>::max())
    return Activation{ActivationKind::kRelu};
  return clip;
}
}  // namespace

std::optional<Activation> ActivationOf(const Graph& graph, const Node& node) {
  if (node.domain == "evoq" && node.op == "Silu") return Activation{ActivationKind::kSilu};
  if (!node.domain.empty()) return std::nullopt;
  if (node.op == "Clip") return ClipActivation(graph, node);
  if (node.op == "LeakyRelu")
    return Activation{ActivationKind::kLeakyRelu, node.attrs.Float("alpha", 0.01f)};
  if (node.op == "Gelu" && node.attrs.String("approximate", "none") != "none") return std::nullopt;
  const auto kind = ActivationFromName(node.op);
  if (!kind || *kind == ActivationKind::kNone || *kind == ActivationKind::kSilu)
    return std::nullopt;
  return Activation{*kind};
}

std::optional<std::vector<int64_t>> ReshapeTarget(const Shape& from, const Shape& to) {
  if (!to.ranked()) return std::nullopt;
  std::vector<int64_t> target;
  bool inferred = false;
  for (int i = 0; i < to.rank(); ++i) {
    if (to[i].known()) {
      if (to[i].value == 0) return std::nullopt;  // 0 means "copy"
      target.push_back(to[i].value);
    } else if (from.ranked() && i < from.rank() && SameDim(from[i], to[i])) {
      target.push_back(0);
    } else if (!inferred) {
      inferred = true;
      target.push_back(-1);
    } else {
      return std::nullopt;
    }
  }
  return target;
}

namespace {
void Multiply(const Graph& graph, ValueId value, bool root, Product& product) {
  if (const auto scalar = ScalarOf(graph, value)) {
    product.constant *= *scalar;
    return;
  }
  const NodeId id = graph.value(value).producer;
  const bool open = id.valid() && (root || graph.OnlyUser(value).valid()) &&
                    !graph.value(value).type.quantized() && !HasActivation(graph.node(id));
  if (open && IsOp(graph, id, "Mul")) {
    Multiply(graph, graph.node(id).input(0), false, product);
    Multiply(graph, graph.node(id).input(1), false, product);
  } else if (const auto divisor = open && IsOp(graph, id, "Div")
                                      ? ScalarOf(graph, graph.node(id).input(1))
                                      : std::nullopt;
             divisor && *divisor != 0) {
    product.constant /= *divisor;
    Multiply(graph, graph.node(id).input(0), false, product);
  } else {
    product.factors.push_back(value);
  }
}
}  // namespace

Product ProductOf(const Graph& graph, ValueId value) {
  Product product;
  Multiply(graph, value, true, product);
  return product;
}

bool Near(double value, double expected) {
  return std::abs(value - expected) <= 1e-4 * std::abs(expected);
}

bool IsPlainFloat(const Graph& graph, ValueId value) {
  const TensorType& type = graph.value(value).type;
  return type.dtype == DType::kFloat32 && !type.quantized();
}

ValueId AddInts(Graph& graph, std::string name, const std::vector<int64_t>& values) {
  return graph.AddConstant(std::move(name), Tensor::FromValues(values));
}

ValueId AddFloat(Graph& graph, std::string name, float value) {
  return graph.AddConstant(std::move(name), Tensor::Scalar(value));
}

void Absorb(Graph& graph, NodeId into, NodeId tail) {
  const ValueId out = graph.node(tail).outputs[0];
  graph.RemoveNode(tail);
  graph.SetOutput(into, 0, out);
}

bool ReplaceOutput(Graph& graph, NodeId id, ValueId value) {
  const ValueId out = graph.node(id).outputs[0];
  if (graph.IsOutput(out) &&
      (graph.IsInput(value) || graph.IsOutput(value) || graph.value(value).is_constant()))
    return false;
  graph.ReplaceUses(out, value);
  return true;
}

NodeId ReplaceNode(Graph& graph, NodeId id, std::string op, std::string domain,
                   std::vector<ValueId> inputs, Attrs attrs) {
  Node node;
  node.op = std::move(op);
  node.domain = std::move(domain);
  node.name = graph.node(id).name;
  node.attrs = std::move(attrs);
  node.inputs = std::move(inputs);
  node.outputs = {graph.node(id).outputs[0]};
  graph.RemoveNode(id);
  return graph.AddNode(std::move(node));
}

bool IsIdentity(const Permutation& perm) {
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

Permutation Inverse(const Permutation& perm) {
  Permutation inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[perm[i]] = static_cast<int64_t>(i);
  return inverse;
}

Permutation Compose(const Permutation& first, const Permutation& second) {
  Permutation both(second.size());
  for (size_t i = 0; i < second.size(); ++i) both[i] = first[second[i]];
  return both;
}

Permutation ChannelsLast(int rank) {
  Permutation perm{0};
  for (int i = 2; i < rank; ++i) perm.push_back(i);
  perm.push_back(1);
  return perm;
}

std::optional<Permutation> PermutationOf(const Graph& graph, const Node& transpose) {
  const Shape& shape = graph.value(transpose.input(0)).type.shape;
  Permutation perm = transpose.attrs.Ints("perm");
  if (!shape.ranked()) return std::nullopt;
  if (perm.empty()) {
    for (int i = shape.rank() - 1; i >= 0; --i) perm.push_back(i);
  }
  // Type inference has validated it; a graph that was never inferred has not.
  Permutation sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  if (static_cast<int>(perm.size()) != shape.rank() || !IsIdentity(sorted)) return std::nullopt;
  return perm;
}

Shape Permuted(const Shape& shape, const Permutation& perm) {
  if (!shape.ranked()) return shape;
  std::vector<Dim> dims;
  for (int64_t axis : perm) dims.push_back(shape[static_cast<int>(axis)]);
  return Shape(std::move(dims));
}

TensorType Permuted(const TensorType& type, const Permutation& perm) {
  return type.shape.ranked() ? PermutedAxes(type, perm) : type;
}

bool CanPermute(const Tensor& tensor) {
  return tensor.layout().empty() && tensor.dtype() != DType::kString;
}

Tensor Permuted(const Tensor& tensor, const Permutation& perm) {
  EVOQ_CHECK(CanPermute(tensor), "{} in layout '{}'", tensor.type().ToString(), tensor.layout());
  Tensor to = Tensor::Allocate(Permuted(tensor.type(), perm));
  const int bits = DTypeBits(tensor.dtype());
  const size_t width = bits / 8;
  const std::vector<int64_t> sizes = to.sizes(), from_strides = RowMajorStrides(tensor.sizes());
  std::vector<int64_t> index(sizes.size(), 0);
  int64_t from = 0;
  for (int64_t i = 0; i < to.elements(); ++i) {
    if (bits < 8) {
      SetPackedBits(to.mutable_raw(), i, bits, PackedBits(tensor.raw(), from, bits));
    } else {
      std::memcpy(to.mutable_raw() + i * width, tensor.raw() + from * width, width);
    }
    for (int axis = static_cast<int>(sizes.size()) - 1; axis >= 0; --axis) {
      from += from_strides[perm[axis]];
      if (++index[axis] < sizes[axis]) break;
      from -= from_strides[perm[axis]] * sizes[axis];
      index[axis] = 0;
    }
  }
  return to;
}

bool MovesNothing(const Shape& shape, const Permutation& perm) {
  int64_t last = -1;
  for (int64_t axis : perm) {
    const Dim& dim = shape[static_cast<int>(axis)];
    if (dim.known() && dim.value == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

}  // namespace evoq
