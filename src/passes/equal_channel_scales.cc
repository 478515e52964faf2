// A depthwise operator's input that is quantized with a scale for each channel, between the linear
// operator that computes it and the depthwise ones that read it: one scale for all, the ratios in
// the weights on both sides. The integers are the same.
#include <algorithm>
#include <cmath>

#include "passes/linear.h"

namespace evoq {
namespace {

struct Place {
  NodeId linear;      // computes the value
  NodeId activation;  // between that and the QuantizeLinear; or invalid
  NodeId quantize;
  std::vector<NodeId> dequantize, readers;
};

bool IsRelu(const Activation& a) { return a.kind == ActivationKind::kRelu; }

// Whether bounds cut off nothing that the integers' own range leaves, whatever the channel, so that
// other scales may stand behind them.
bool BoundsAreTheType(const Activation& a, const TensorType& type) {
  if (a.kind != ActivationKind::kClip) return false;
  const QuantParams& q = *type.quant;
  const auto low = static_cast<float>(IntegerMin(type.dtype)),
             high = static_cast<float>(IntegerMax(type.dtype));
  for (size_t c = 0; c < q.scales.size(); ++c) {
    const auto zero = static_cast<float>(q.zero_points[c]);
    if (std::nearbyint(a.alpha / q.scales[c]) + zero > low ||
        std::nearbyint(a.beta / q.scales[c]) + zero < high)
      return false;
  }
  return true;
}

// A scale for each channel, and one zero point.
bool HasScaleForEachChannel(const TensorType& type, int axis) {
  return type.quantized() && !type.quant->per_tensor() && type.quant->block == 0 &&
         type.quant->axis == axis && type.shape.ranked() && type.shape[axis].known() &&
         DTypeBits(type.dtype) == 8 && std::ranges::all_of(type.quant->zero_points, [&](int32_t z) {
           return z == type.quant->zero_points[0];
         });
}

// Each output channel is of the input channel of its number.
bool IsDepthwise(const Graph& graph, NodeId id, int64_t channels) {
  const Node& node = graph.node(id);
  const LinearForm* form = OpOf(node).linear;
  return form != nullptr && form->grouped && node.attrs.Int("group", 1) == channels &&
         OutputChannels(graph, node) == channels &&
         TakesFactor(graph, node, std::vector<float>(static_cast<size_t>(channels), 1));
}

// All readers of the integers are DequantizeLinear whose readers are depthwise.
bool FindReaders(const Graph& graph, ValueId integers, int64_t channels, Place& place) {
  if (graph.IsOutput(integers)) return false;
  for (const NodeId dequantize : graph.value(integers).users) {
    if (!IsOp(graph, dequantize, "DequantizeLinear") || graph.node(dequantize).inputs.size() != 1)
      return false;
    const ValueId real = graph.node(dequantize).outputs[0];
    if (graph.IsOutput(real)) return false;
    for (const NodeId reader : graph.value(real).users) {
      if (graph.node(reader).input(0) != real || !IsDepthwise(graph, reader, channels))
        return false;
      place.readers.push_back(reader);
    }
    place.dequantize.push_back(dequantize);
  }
  std::ranges::sort(place.readers);
  return !place.readers.empty() && std::ranges::adjacent_find(place.readers) == place.readers.end();
}

std::optional<Place> PlaceOf(const Graph& graph, NodeId quantize) {
  if (!IsOp(graph, quantize, "QuantizeLinear") || graph.node(quantize).inputs.size() != 1)
    return std::nullopt;
  const ValueId integers = graph.node(quantize).outputs[0];
  const TensorType& type = graph.value(integers).type;
  const ValueId x = graph.node(quantize).input(0);
  NodeId at = graph.value(x).producer;
  if (!at.valid() || !graph.OnlyUser(x).valid()) return std::nullopt;
  Place place{.quantize = quantize};
  const auto activation = ActivationOf(graph, graph.node(at));
  if (activation && (IsRelu(*activation) || BoundsAreTheType(*activation, type))) {
    place.activation = at;
    const ValueId before = graph.node(at).input(0);
    at = graph.value(before).producer;
    if (!at.valid() || !graph.OnlyUser(before).valid()) return std::nullopt;
  }
  if (OpOf(graph.node(at)).linear == nullptr) return std::nullopt;
  const int axis = ChannelAxis(graph, graph.node(at));
  if (axis < 0 || !HasScaleForEachChannel(type, axis)) return std::nullopt;
  const int64_t channels = type.shape[axis].value;
  place.linear = at;
  if (OutputChannels(graph, graph.node(at)) != channels ||
      !TakesFactor(graph, graph.node(at), type.quant->scales) ||
      !FindReaders(graph, integers, channels, place))
    return std::nullopt;
  return place;
}

bool Equalize(Graph& graph, NodeId id) {
  const auto place = PlaceOf(graph, id);
  if (!place) return false;
  const ValueId integers = graph.node(id).outputs[0];
  const TensorType type = graph.value(integers).type;
  const std::vector<float>& scales = type.quant->scales;
  const float one = *std::ranges::max_element(scales);
  std::vector<float> before, behind;
  for (const float scale : scales) {
    before.push_back(one / scale);
    behind.push_back(scale / one);
  }
  if (!std::ranges::all_of(before, [](float f) { return std::isfinite(f); })) return false;
  ScaleChannels(graph, place->linear, before);
  if (place->activation.valid() && !IsRelu(*ActivationOf(graph, graph.node(place->activation)))) {
    const ValueId bounded = graph.node(place->activation).input(0);
    graph.ReplaceUses(graph.node(place->activation).outputs[0], bounded);
    graph.RemoveNode(place->activation);
  }
  for (const NodeId reader : place->readers) ScaleWeights(graph, reader, behind);
  graph.SetType(integers, TensorType(type.dtype, type.shape,
                                     QuantParams::PerTensor(one, type.quant->zero_points[0])));
  return true;
}

Result<int> Run(Graph& graph) { return CountChanges(graph, Equalize); }

}  // namespace

extern const PassDef kEqualChannelScales = {
    .name = "equal-channel-scales",
    .doc =
        "A depthwise operator's input with a scale for each channel gets one scale, the ratios "
        "move into the weights before and behind it.",
    .stage = Stage::kOptimize,
    .level = 1,
    .run = Run,
};

}  // namespace evoq
