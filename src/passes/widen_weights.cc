#include "passes/match.h"

namespace evoq {
namespace {

// The same integers in 8 bits.
std::optional<Tensor> Widened(const Tensor& weights) {
  const auto q = ToInt64s(weights.WithType(TensorType(weights.dtype(), weights.shape())));
  if (!q) return std::nullopt;
  TensorType type = weights.type();
  type.dtype = IsSigned(type.dtype) ? DType::kInt8 : DType::kUint8;
  Tensor wide = Tensor::Allocate(type);
  for (size_t i = 0; i < q->size(); ++i) wide.mutable_raw()[i] = static_cast<std::byte>((*q)[i]);
  return wide;
}

Result<int> Run(Graph& graph) {
  int changes = 0;
  for (NodeId id : NodesOf(graph)) {
    const Node& node = graph.node(id);
    if (!IsLinear(node) || !graph.value(node.input(0)).type.quantized()) continue;
    const Tensor* weights = graph.ConstantInput(node, 1);
    if (weights == nullptr || !weights->layout().empty() || DTypeBits(weights->dtype()) >= 8)
      continue;
    if (!weights->type().quantized() || weights->type().quant->block != 0) continue;
    auto wide = Widened(*weights);
    if (!wide) continue;
    graph.SetInput(id, 1, graph.AddConstant(graph.value(node.input(1)).name, std::move(*wide)));
    ++changes;
  }
  return changes;
}

}  // namespace

extern const PassDef kWidenWeights = {
    .name = "widen-weights",
    .doc = "2- and 4-bit weights of integer operators become 8-bit weights of the same values.",
    .stage = Stage::kLower,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
