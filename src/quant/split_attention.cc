#include <cmath>

#include "base/math.h"
#include "kernels/attention/attention_inputs.h"
#include "quant/unfuse.h"

namespace evoq {
namespace {

// A calibration holds the scores of all layers.
constexpr int64_t kMostScores = int64_t{1} << 26;

bool IsRealFloat(const TensorType& type) {
  return type.dtype == DType::kFloat32 && !type.quantized() && type.shape.ranked();
}

// [batch, heads, length, size] of an input, of which 3-D ones are [batch, length, heads * size].
std::optional<std::vector<Dim>> HeadsOf(const Graph& graph, const Node& node, size_t input,
                                        const char* heads) {
  if (!node.input(input).valid()) return std::nullopt;
  const TensorType& type = graph.value(node.input(input)).type;
  if (!IsRealFloat(type)) return std::nullopt;
  const Shape& shape = type.shape;
  if (shape.rank() == 4) return shape.dims();
  const int64_t count = node.attrs.Int(heads);
  if (shape.rank() != 3 || count <= 0 || !shape[2].known() || shape[2].value % count != 0)
    return std::nullopt;
  return std::vector<Dim>{shape[0], Dim(count), shape[1], Dim(shape[2].value / count)};
}

struct Split {
  Graph& graph;
  std::string name;

  ValueId Apply(const char* op, const char* part, std::vector<ValueId> inputs, Shape shape,
                Attrs attrs = {}, DType dtype = DType::kFloat32) {
    return graph.Apply(op, name + "." + part, std::move(inputs), std::move(attrs),
                       TensorType(dtype, std::move(shape)));
  }
  ValueId Ints(const char* part, const std::vector<int64_t>& values) {
    return graph.AddConstant(name + "." + part, Tensor::FromValues(values));
  }
  ValueId Number(const char* part, float value) {
    return graph.AddConstant(name + "." + part, Tensor::Scalar(value));
  }

  // An input by heads, its axes in the order `perm` of [batch, heads, length, size].
  ValueId ByHeads(ValueId x, const std::vector<Dim>& dims, const std::vector<int64_t>& perm,
                  const char* part) {
    std::vector<int64_t> order = perm;
    if (graph.value(x).type.shape.rank() == 3) {
      // [batch, length, heads, size]: axes 1 and 2 stand the other way round.
      x = Apply("Reshape", (std::string(part) + "_heads").c_str(),
                {x, Ints((std::string(part) + "_sizes").c_str(), {0, 0, dims[1].value, -1})},
                Shape(std::vector<Dim>{dims[0], dims[2], dims[1], dims[3]}));
      for (int64_t& axis : order) axis = axis == 1 ? 2 : axis == 2 ? 1 : axis;
    }
    bool moves = false;
    for (size_t i = 0; i < order.size(); ++i) moves |= order[i] != static_cast<int64_t>(i);
    if (!moves) return x;
    std::vector<Dim> sizes;
    for (const int64_t axis : perm) sizes.push_back(dims[static_cast<size_t>(axis)]);
    return Apply("Transpose", part, {x}, Shape(std::move(sizes)), Attrs::Of("perm", order));
  }

  // What is added to the scores, or an invalid id.
  ValueId Bias(ValueId mask) {
    if (!mask.valid() || graph.value(mask).type.dtype != DType::kBool) return mask;
    return Apply("Where", "mask", {mask, Number("seen", 0.0f), Number("hidden", -1e30f)},
                 graph.value(mask).type.shape);
  }
};

}  // namespace

bool IsPlainAttention(const Graph& graph, const Node& node) {
  if (node.op != "Attention" || !node.domain.empty()) return false;
  for (size_t i = kPastKey; i < node.inputs.size(); ++i) {
    if (node.input(i).valid()) return false;
  }
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i].valid()) return false;
  }
  const Attrs& attrs = node.attrs;
  if (attrs.Int("is_causal") != 0 || attrs.Float("softcap", 0) != 0 ||
      attrs.Int("left_window_size", -1) >= 0 || attrs.Int("right_window_size", -1) >= 0)
    return false;
  const auto q = HeadsOf(graph, node, kQ, "q_num_heads"),
             k = HeadsOf(graph, node, kK, "kv_num_heads"),
             v = HeadsOf(graph, node, kV, "kv_num_heads");
  if (!q || !k || !v || !(*q)[1].known() || !(*k)[1].known() || (*q)[1] != (*k)[1] ||
      (*v)[1] != (*k)[1] || !(*q)[3].known() || !IsRealFloat(graph.value(node.outputs[0]).type))
    return false;
  int64_t scores = 1;
  for (const Dim& dim : {(*q)[0], (*q)[1], (*q)[2], (*k)[2]}) {
    const auto product = CheckedMul(scores, dim.known() ? dim.value : 1);
    if (!product || *product > kMostScores) return false;
    scores = *product;
  }
  if (!node.input(kMask).valid()) return true;
  const TensorType& mask = graph.value(node.input(kMask)).type;
  const int rank = mask.shape.ranked() ? mask.shape.rank() : 0;
  // One of fewer keys hides the rest.
  const bool fits = rank >= 1 && rank <= 4 && mask.shape[rank - 1] == (*k)[2] &&
                    (mask.shape[rank - 1].known() || !mask.shape[rank - 1].symbol.empty());
  return fits && (mask.dtype == DType::kBool || IsRealFloat(mask));
}

std::string AttentionWeightsName(const Node& node) { return node.name + ".weights"; }

void SplitAttention(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  Split split{graph, node.name};
  const auto q = *HeadsOf(graph, node, kQ, "q_num_heads"),
             k = *HeadsOf(graph, node, kK, "kv_num_heads"),
             v = *HeadsOf(graph, node, kV, "kv_num_heads");
  const float given = node.attrs.Float("scale", 0),
              scale = given != 0 ? given : 1 / std::sqrt(static_cast<float>(q[3].value));
  const ValueId queries = split.ByHeads(node.input(kQ), q, {0, 1, 2, 3}, "q"),
                keys = split.ByHeads(node.input(kK), k, {0, 1, 3, 2}, "keys"),
                values = split.ByHeads(node.input(kV), v, {0, 1, 2, 3}, "values");
  const Shape scores(std::vector<Dim>{q[0], q[1], q[2], k[2]});
  ValueId x = split.Apply("MatMul", "products", {queries, keys}, scores);
  if (scale != 1) x = split.Apply("Mul", "scores", {x, split.Number("scale", scale)}, scores);
  if (const ValueId bias = split.Bias(node.input(kMask)); bias.valid())
    x = split.Apply("Add", "masked", {x, bias}, scores);
  x = split.Apply("Softmax", "weights", {x}, scores, Attrs::Of("axis", int64_t{-1}));
  const ValueId y = node.outputs[0];
  const TensorType type = graph.value(y).type;
  const Shape mixed(std::vector<Dim>{q[0], q[1], q[2], v[3]});
  graph.RemoveNode(id);
  Node last{.op = "MatMul", .name = node.name, .inputs = {x, values}};
  if (type.shape.rank() == 4) {
    last.outputs = {y};
    graph.AddNode(std::move(last));
    return;
  }
  const ValueId by_heads = graph.AddValue(node.name + ".mixed", TensorType(type.dtype, mixed));
  last.outputs = {by_heads};
  graph.AddNode(std::move(last));
  const ValueId turned = split.Apply("Transpose", "turned", {by_heads},
                                     Shape(std::vector<Dim>{q[0], q[2], q[1], v[3]}),
                                     Attrs::Of("perm", std::vector<int64_t>{0, 2, 1, 3}));
  graph.AddNode({.op = "Reshape",
                 .name = node.name + ".flat",
                 .inputs = {turned, split.Ints("flat_sizes", {0, 0, -1})},
                 .outputs = {y}});
}

}  // namespace evoq
