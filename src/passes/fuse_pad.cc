#include <algorithm>
#include <cmath>

#include "passes/match.h"

namespace evoq {
namespace {

// The padding per axis, [begin..., end...] over all axes, of a Pad by constant sizes; nothing where
// they are not known.
std::optional<std::vector<int64_t>> PaddingOf(const Graph& graph, const Node& pad, int rank) {
  const auto pads = IntsOf(graph, pad.input(1));
  std::vector<int64_t> axes;
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  if (pad.input(3).valid()) {
    const auto given = IntsOf(graph, pad.input(3));
    if (!given) return std::nullopt;
    axes = *given;
  }
  if (!pads || pads->size() != 2 * axes.size()) return std::nullopt;
  std::vector<int64_t> all(2 * rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = NormalizeAxis(axes[i], rank);
    if (!axis || (*pads)[i] < 0 || (*pads)[axes.size() + i] < 0) return std::nullopt;
    all[*axis] = (*pads)[i];
    all[rank + *axis] = (*pads)[axes.size() + i];
  }
  return all;
}

bool IsNonNegative(const Graph& graph, ValueId value) {
  const NodeId id = graph.value(value).producer;
  if (!graph.alive(id)) return false;
  const Node& node = graph.node(id);
  const auto activation =
      HasActivation(node) ? ActivationFromAttrs(node.attrs) : Result<Activation>(Activation{});
  const auto own = ActivationOf(graph, node);
  for (const Activation& a : {own.value_or(Activation{}), activation.value_or(Activation{})}) {
    if (a.kind == ActivationKind::kRelu || a.kind == ActivationKind::kSigmoid) return true;
    if (a.kind == ActivationKind::kClip && a.alpha >= 0) return true;
  }
  return false;
}

// The value that a Pad puts around its input; nothing where it is none or not known.
std::optional<float> FillOf(const Graph& graph, const Node& pad) {
  if (pad.attrs.String("mode", "constant") != "constant") return std::nullopt;
  return pad.input(2).valid() ? ScalarOf(graph, pad.input(2)) : 0.0f;
}

// Whether `fill` around the input means the same as the operator's own padding after `total` pads.
bool MayAbsorb(const Graph& graph, const Node& node, ValueId x, float fill,
               const std::vector<int64_t>& total) {
  const bool least = fill == -INFINITY && node.op == "MaxPool";
  if (fill != 0 && !least) return false;
  if (node.op == "Conv") return true;
  const auto kernel = node.attrs.Ints("kernel_shape");
  const auto own = node.attrs.Ints("pads");
  const bool own_zero = std::all_of(own.begin(), own.end(), [](int64_t p) { return p == 0; });
  if (kernel.size() * 2 != total.size() || !own_zero || node.attrs.Int("ceil_mode") != 0)
    return false;
  for (size_t i = 0; i < total.size(); ++i) {
    if (total[i] >= kernel[i % kernel.size()]) return false;  // a window without a real element
  }
  if (node.op == "AveragePool") return true;
  const auto dilations = node.attrs.Ints("dilations");
  const bool dense =
      std::all_of(dilations.begin(), dilations.end(), [](int64_t d) { return d == 1; });
  return node.op == "MaxPool" && node.outputs.size() == 1 && dense &&
         (least || IsNonNegative(graph, x));
}

bool Fuse(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.op != "Conv" && node.op != "MaxPool" && node.op != "AveragePool") return false;
  if (node.attrs.Int("channels_last") != 0) return false;
  if (node.attrs.Has("auto_pad") && node.attrs.String("auto_pad") != "NOTSET") return false;
  const NodeId pad_id = ProducedBy(graph, node.input(0), "Pad");
  if (!pad_id.valid()) return false;
  const Node& pad = graph.node(pad_id);
  const TensorType &from = graph.value(pad.input(0)).type, &to = graph.value(pad.outputs[0]).type;
  if (from.shape.rank() < 3 || from.quantized() != to.quantized()) return false;
  if (from.quantized() && !SameQuant(from, to)) return false;
  const int rank = from.shape.rank(), spatial = rank - 2;
  const auto fill = FillOf(graph, pad);
  const auto padding = PaddingOf(graph, pad, rank);
  if (!fill || !padding ||
      (*padding)[0] + (*padding)[1] + (*padding)[rank] + (*padding)[rank + 1] != 0)
    return false;
  std::vector<int64_t> total = node.attrs.Ints("pads", std::vector<int64_t>(2 * spatial, 0));
  if (static_cast<int>(total.size()) != 2 * spatial) return false;
  for (int i = 0; i < spatial; ++i) {
    total[i] += (*padding)[2 + i];
    total[spatial + i] += (*padding)[rank + 2 + i];
  }
  if (!MayAbsorb(graph, node, pad.input(0), *fill, total)) return false;
  const bool average = node.op == "AveragePool";
  graph.attrs(id).Set("pads", total);
  if (average) graph.attrs(id).Set("count_include_pad", 1);
  graph.SetInput(id, 0, pad.input(0));
  return true;
}

Result<int> Run(Graph& graph) {
  int changes = 0;
  for (NodeId id : NodesOf(graph)) changes += Fuse(graph, id);
  return changes;
}

}  // namespace

extern const PassDef kFusePad = {
    .name = "fuse-pad",
    .doc =
        "Moves a Pad by zeros into the Conv, AveragePool or (after a value >= 0) MaxPool that "
        "reads it, and one by -infinity into the MaxPool.",
    .stage = Stage::kOptimize,
    .level = 2,
    .run = Run,
};

}  // namespace evoq
