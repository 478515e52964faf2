#include <array>
#include <cmath>

#include "passes/linear.h"

namespace evoq {
namespace {

// y[c] = x[c] * factor[c] + offset[c].
struct Affine {
  std::vector<float> factor, offset;
};

std::optional<Affine> AffineOf(const Graph& graph, const Node& norm) {
  std::array<const Tensor*, 4> params;
  for (size_t i = 0; i < params.size(); ++i) {
    params[i] = FloatConstant(graph, norm.input(i + 1));
    if (params[i] == nullptr || params[i]->elements() != params[0]->elements()) return std::nullopt;
  }
  const float epsilon = norm.attrs.Float("epsilon", 1e-5f);
  Affine affine;
  for (int64_t c = 0; c < params[0]->elements(); ++c) {
    const auto at = [&](int i) {
      return static_cast<double>(params[i]->values<float>()[c]);
    };  // scale, B, mean, var
    const double factor = at(0) / std::sqrt(at(3) + epsilon);
    if (!std::isfinite(factor)) return std::nullopt;
    affine.factor.push_back(static_cast<float>(factor));
    affine.offset.push_back(static_cast<float>(at(1) - at(2) * factor));
  }
  return affine;
}

// The linear operator whose output only this node reads, when the affine function can move into it.
NodeId LinearBefore(const Graph& graph, NodeId norm, const Affine& affine) {
  const ValueId x = graph.node(norm).input(0);
  const NodeId id = graph.value(x).producer;
  if (!graph.alive(id) || graph.OnlyUser(x) != norm) return {};
  const Node& linear = graph.node(id);
  if (!TakesFactor(graph, linear, affine.factor) || ChannelAxis(graph, linear) != 1) return {};
  return OutputChannels(graph, linear) == static_cast<int64_t>(affine.factor.size()) ? id
                                                                                     : NodeId{};
}

// x * factor + offset by two element-wise nodes.
bool Decompose(Graph& graph, NodeId norm, const Affine& affine) {
  const Node node = graph.node(norm);
  const Shape& shape = graph.value(node.input(0)).type.shape;
  if (!shape.ranked() || shape.rank() < 2) return false;
  std::vector<int64_t> sizes(shape.rank() - 1, 1);
  sizes[0] = static_cast<int64_t>(affine.factor.size());
  const ValueId factor =
      graph.AddConstant(node.name + "_factor", Tensor::FromValues(Shape(sizes), affine.factor));
  const ValueId offset =
      graph.AddConstant(node.name + "_offset", Tensor::FromValues(Shape(sizes), affine.offset));
  const ValueId scaled = graph.Apply("Mul", node.name + "_mul", {node.input(0), factor});
  ReplaceNode(graph, norm, "Add", "", {scaled, offset});
  return true;
}

Result<int> Run(Graph& graph) {
  int changes = 0;
  for (NodeId id : NodesOf(graph)) {
    if (!IsOp(graph, id, "BatchNormalization") || graph.node(id).attrs.Int("channels_last") != 0)
      continue;
    const Node& norm = graph.node(id);
    if (graph.value(norm.input(0)).type.quantized() ||
        graph.value(norm.outputs[0]).type.quantized())
      continue;
    const auto affine = AffineOf(graph, norm);
    if (!affine) continue;
    const NodeId linear = LinearBefore(graph, id, *affine);
    if (linear.valid()) {
      ScaleChannels(graph, linear, affine->factor);
      OffsetChannels(graph, linear, affine->offset);
      Absorb(graph, linear, id);
      ++changes;
    } else {
      changes += Decompose(graph, id, *affine);
    }
  }
  return changes;
}

}  // namespace

extern const PassDef kFuseBatchNorm = {
    .name = "fuse-batch-norm",
    .doc =
        "Folds BatchNormalization into the Conv, ConvTranspose or MatMul before it; a lone one "
        "becomes Mul and Add by channel.",
    .stage = Stage::kOptimize,
    .level = 2,
    .run = Run,
};

}  // namespace evoq
