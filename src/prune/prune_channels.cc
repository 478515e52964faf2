#include "prune/prune_channels.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "prune/choose_channels.h"
#include "reference/reference.h"

namespace evoq {
namespace {

// Of all constants that are read.
int64_t FloatBytes(const Graph& graph) {
  int64_t bytes = 0;
  for (int i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId{i});
    if (value.is_constant() && value.type.dtype == DType::kFloat32 && !value.users.empty())
      bytes += static_cast<int64_t>(value.constant.bytes());
  }
  return bytes;
}

// Of one sample; nothing where sizes are free besides the batch.
std::optional<int64_t> MacsOf(Graph graph) {
  if (!BindShapes(graph, {})) return std::nullopt;
  int64_t macs = 0;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    for (const auto* list : {&node.inputs, &node.outputs}) {
      for (const ValueId value : *list) {
        if (value.valid() && !graph.value(value).type.shape.is_static()) return std::nullopt;
      }
    }
    macs += NodeCost(graph, node).macs;
  }
  return macs;
}

int64_t Kept(const std::vector<int32_t>& groups, const std::vector<bool>& removed) {
  return std::ranges::count_if(groups, [&](int32_t g) { return !removed[static_cast<size_t>(g)]; });
}

// Why a layer keeps all its channels; "" where none of them stays by itself.
std::string WhyLeft(const ChannelLayer& layer, const Channels& channels) {
  std::string why;
  for (const int32_t g : layer.outputs) {
    const std::string& stays = channels.groups[static_cast<size_t>(g)].stays;
    if (stays.empty()) return "";
    if (why.empty()) why = stays;
  }
  return why;
}

}  // namespace

Result<std::vector<bool>> NamedChannels(const Graph& graph, const Channels& channels,
                                        const std::vector<std::string>& layers) {
  std::vector<bool> named(channels.groups.size(), true);
  if (layers.empty()) return named;
  std::set<std::string> matched;
  for (const ChannelLayer& layer : channels.layers) {
    bool wanted = false;
    for (const std::string& pattern : layers) {
      if (!GlobMatch(pattern, graph.node(layer.node).name)) continue;
      wanted = true;
      matched.insert(pattern);
    }
    for (const int32_t g : layer.outputs) {
      if (!wanted) named[static_cast<size_t>(g)] = false;
    }
  }
  for (const std::string& pattern : layers) {
    if (!matched.contains(pattern))
      return Fail(ErrorCode::kUsage, "--layers {}: no product has such a name", pattern);
  }
  return named;
}

Result<PruneReport> RemoveAndReport(Graph& graph, const Channels& channels,
                                    const std::vector<bool>& removed) {
  PruneReport report;
  report.bytes_before = FloatBytes(graph);
  report.macs_before = MacsOf(graph);
  for (const ChannelLayer& layer : channels.layers) {
    const Node& node = graph.node(layer.node);
    const Value& weight = graph.value(layer.weight);
    report.channels.push_back({.node = node.name,
                               .weight = weight.name,
                               .outputs_before = static_cast<int64_t>(layer.outputs.size()),
                               .outputs = Kept(layer.outputs, removed),
                               .inputs_before = static_cast<int64_t>(layer.inputs.size()),
                               .inputs = Kept(layer.inputs, removed),
                               .weights_before = weight.constant.elements()});
    if (std::string why = WhyLeft(layer, channels); !why.empty())
      report.left.emplace_back(node.name, std::move(why));
  }
  for (const NodeId id : graph.order()) {
    if (KeepsWeights(graph.node(id)))
      report.left.emplace_back(graph.node(id).name, kRecurrentStays);
  }
  EVOQ_TRY(RemoveChannels(graph, channels, removed));
  for (size_t i = 0; i < channels.layers.size(); ++i)
    report.channels[i].weights = graph.value(channels.layers[i].weight).constant.elements();
  report.bytes = FloatBytes(graph);
  report.macs = MacsOf(graph);
  graph.metadata.emplace(kUnprunedBytes, std::to_string(report.bytes_before));  // of the first time
  return report;
}

Result<PruneReport> PruneChannels(Graph& graph, const PruneOptions& options,
                                  const PruneRows& rows) {
  const Channels channels = FindChannels(graph);
  ChannelChoice choice{.score = rows.score,
                       .share = rows.sparsity,
                       .global = options.scope == "global",
                       .multiple = options.multiple};
  EVOQ_ASSIGN(choice.may_go, NamedChannels(graph, channels, options.layers));
  const std::vector<bool> removed =
      ChooseChannels(graph, channels, choice, [&](const ChannelSlices& slices) {
        const Tensor& constant = graph.value(slices.constant).constant;
        const bool real = constant.dtype() == DType::kFloat32;
        return ChannelNumbers{real ? constant.values<float>() : std::span<const float>(), {}};
      });
  if (std::ranges::count(removed, true) == 0) {
    std::string why;
    for (const ChannelLayer& layer : channels.layers) {
      const std::string left = WhyLeft(layer, channels);
      if (why.empty() && !left.empty())
        why = fmt::format(": {}: {}", graph.node(layer.node).name, left);
    }
    return Unsupported("--pattern channel: no channel can go{}", why);
  }
  return RemoveAndReport(graph, channels, removed);
}

}  // namespace evoq
