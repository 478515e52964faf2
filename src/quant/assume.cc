#include "quant/assume.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "quant/channels.h"
#include "quant/turn_product.h"
#include "quant/unfuse.h"

namespace evoq {
namespace {

// In [0, 1), from the name alone: FNV-1a, the upper bits.
double Fraction(std::string_view name) {
  uint64_t hash = 14695981039346656037ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return static_cast<double>(hash * 0x9E3779B97F4A7C15ull >> 40) * 0x1p-24;
}

bool NeverNegative(const Graph& graph, const Value& value) {
  if (!value.producer.valid()) return false;
  const Node& node = graph.node(value.producer);
  static constexpr std::array kOps = {"Relu", "Sigmoid", "HardSigmoid", "Softmax", "Clip",
                                      "Abs",  "Exp",     "Softplus",    "Sqrt"};
  const std::string activation = node.attrs.String("activation", node.op);
  return std::find(kOps.begin(), kOps.end(), activation) != kOps.end();
}

Range Assumed(const std::string& name, bool never_negative) {
  const auto high = static_cast<float>(std::exp2(4 * Fraction(name) - 1));
  const auto low =
      never_negative ? 0.0f : -high * static_cast<float>(0.85 + 0.14 * Fraction(name + "-"));
  return {low, high};
}

// Channels use between a fifth of the range and all of it.
void AssumeChannels(const Value& value, int axis, Range& range) {
  for (int64_t c = 0; c < value.type.shape[axis].value; ++c) {
    const float high =
        range.max *
        static_cast<float>(std::exp2(-2.3 * Fraction(fmt::format("{}/{}", value.name, c))));
    range.channel_max.push_back(high);
    range.channel_means.push_back(range.min < 0 ? 0.05f * high : 0.25f * high);
  }
}

// The graph with what a calibration would take apart, whose values have ranges too.
Graph Split(Graph graph) {
  const std::vector<NodeId> nodes = graph.order();
  for (NodeId id : nodes) {
    if (IsPlainAttention(graph, graph.node(id))) SplitAttention(graph, id);
    if (IsTurnable(graph, graph.node(id), kWorkOfBytes)) TurnProduct(graph, id);
  }
  return graph;
}

}  // namespace

Ranges AssumedRanges(const Graph& whole) {
  const Graph graph = Split(whole);
  Ranges ranges;
  for (int i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId{i});
    if (value.is_constant() || value.type.dtype != DType::kFloat32) continue;
    Range range = Assumed(value.name, NeverNegative(graph, value));
    const int axis = ChannelAxis(graph, ValueId{i});
    if (axis >= 0 && axis < value.type.shape.rank() && value.type.shape[axis].known())
      AssumeChannels(value, axis, range);
    ranges[value.name] = std::move(range);
    for (const char* part : {".linear", ".product"})
      ranges[value.name + part] = Assumed(value.name + part, false);
  }
  return ranges;
}

}  // namespace evoq
