// MatMul(QuantizeLinear(Softmax([factor] MatMul(q, keys) [+ mask])), values) on bytes becomes one
// step, whose scores and weights never leave the cache.
#include <cmath>

#include "base/math.h"
#include "kernels/attention/quantized_attention.h"
#include "passes/match.h"
#include "passes/size_probe.h"

namespace evoq {
namespace {

bool IsUnsigned(const TensorType& type) {
  return type.dtype == DType::kUint8 && IsByteQuantized(type);
}

struct Scores {
  NodeId product;
  float factor = 1;
  ValueId mask;
  bool saves_step = false;  // scaled or masked by an operator of its own
};

// Where fewer scores are known to be, their matrix is in the cache anyway, and the step only saves
// one over them where they are scaled or masked by one.
bool Pays(const Shape& scores, bool saves_step) {
  const int64_t many = saves_step ? 128 : 256;
  const Dim &rows = scores[scores.rank() - 2], &keys = scores[scores.rank() - 1];
  if (keys.known() && keys.value < many) return false;
  return !rows.known() || !keys.known() || rows.value >= CeilDiv(many * many, keys.value);
}

bool IsMask(const Graph& graph, ValueId mask, ValueId scores, SizeProbes& probes) {
  return IsPlainFloat(graph, mask) && probes.Masks(mask, scores);
}

// The product of two operands that `value` is, times a number.
std::optional<Scores> ScaledOf(const Graph& graph, ValueId value) {
  const Product times = ProductOf(graph, value);
  if (times.factors.size() != 1 || !graph.OnlyUser(value).valid()) return std::nullopt;
  Scores scores;
  scores.factor = static_cast<float>(times.constant);
  scores.saves_step = times.factors[0] != value;
  scores.product = InnerNode(graph, times.factors[0], "MatMul");
  // A number of a higher rank would add dimensions.
  const Shape &from = graph.value(times.factors[0]).type.shape, &to = graph.value(value).type.shape;
  const bool fits = from.ranked() && to.ranked() && from.rank() == to.rank() &&
                    std::isfinite(scores.factor) && scores.factor > 0 && scores.product.valid() &&
                    IsPlainFloat(graph, times.factors[0]);
  return fits ? std::optional(scores) : std::nullopt;
}

std::optional<Scores> ScoresOf(const Graph& graph, ValueId value, SizeProbes& probes) {
  auto scores = ScaledOf(graph, value);
  const NodeId sum = scores ? NodeId{} : InnerNode(graph, value, "Add");
  for (size_t i = 0; sum.valid() && i < 2; ++i) {
    const ValueId mask = graph.node(sum).input(1 - i);
    const ValueId scaled = graph.node(sum).input(i);
    scores = ScaledOf(graph, scaled);
    if (!scores || !IsMask(graph, mask, scaled, probes)) {
      scores.reset();
      continue;
    }
    scores->mask = mask;
    scores->saves_step = true;
    break;
  }
  if (!scores) return std::nullopt;
  const Node& product = graph.node(scores->product);
  for (size_t i = 2; i < product.inputs.size(); ++i) {
    if (!product.input(i).valid()) continue;
    // A residual that was added in the product already.
    if (i != 3 || scores->mask.valid() || scores->factor != 1 ||
        !IsMask(graph, product.input(3), product.outputs[0], probes))
      return std::nullopt;
    scores->mask = product.input(3);
  }
  const TensorType &q = graph.value(product.input(0)).type,
                   &keys = graph.value(product.input(1)).type;
  const bool computed = !graph.value(product.input(1)).is_constant();
  if (!computed || !IsUnsigned(q) || !IsByteQuantized(keys)) return std::nullopt;
  return scores;
}

bool Fuse(Graph& graph, NodeId id, SizeProbes& probes) {
  const Node& node = graph.node(id);
  if (!IsOp(graph, id, "MatMul") || node.inputs.size() != 2 || HasActivation(node)) return false;
  const TensorType &weights = graph.value(node.input(0)).type,
                   &held = graph.value(node.input(1)).type, &y = graph.value(node.outputs[0]).type;
  const int rank = weights.shape.ranked() ? weights.shape.rank() : 0;
  if (!IsUnsigned(weights) || !IsByteQuantized(held) || graph.value(node.input(1)).is_constant() ||
      rank < 2 || !held.shape.ranked() || held.shape.rank() > rank ||
      !(IsByteQuantized(y) || IsPlainFloat(graph, node.outputs[0])))
    return false;
  const NodeId quantize = InnerNode(graph, node.input(0), "QuantizeLinear");
  if (!quantize.valid() || graph.node(quantize).inputs.size() != 1) return false;
  const NodeId softmax = InnerNode(graph, graph.node(quantize).input(0), "Softmax");
  if (!softmax.valid()) return false;
  const int64_t axis = graph.node(softmax).attrs.Int("axis", -1);
  if (axis != -1 && axis != rank - 1) return false;
  const auto scores = ScoresOf(graph, graph.node(softmax).input(0), probes);
  if (!scores || !Pays(weights.shape, scores->saves_step)) return false;
  // Values of more batches than scores have would repeat those.
  for (int d = 0; d + 2 < held.shape.rank(); ++d) {
    const Dim& size = held.shape[d];
    if (!(size.known() && size.value == 1) &&
        !probes.Same(node.input(1), d, node.input(0), rank - held.shape.rank() + d))
      return false;
  }
  const Node& product = graph.node(scores->product);
  std::vector<ValueId> inputs = {product.input(0), product.input(1), node.input(1)};
  if (scores->mask.valid()) inputs.push_back(scores->mask);
  Attrs attrs;
  if (scores->factor != 1) attrs.Set("factor", scores->factor);
  attrs.Set("weights_scale", weights.quant->scales[0]);
  if (weights.quant->zero_points[0] != 0)
    attrs.Set("weights_zero_point", static_cast<int64_t>(weights.quant->zero_points[0]));
  ReplaceNode(graph, id, "QuantizedAttention", "evoq", std::move(inputs), std::move(attrs));
  return true;
}

Result<int> Run(Graph& graph) {
  SizeProbes probes(graph);
  return CountChanges(graph, [&](Graph& g, NodeId id) { return Fuse(g, id, probes); });
}

}  // namespace

extern const PassDef kFuseQuantizedAttention = {
    .name = "fuse-quantized-attention",
    .doc =
        "Softmax(q keys + mask) values on bytes becomes one step, whose scores stay in the "
        "cache.",
    .stage = Stage::kLower,
    .level = 3,
    .run = Run,
};

}  // namespace evoq
