// Removing channels: smaller constants, attributes and lists of sizes.
#include <algorithm>
#include <cstring>

#include "prune/channels.h"
#include "reference/reference.h"

namespace evoq {
namespace {

using Flags = std::vector<bool>;

int64_t Kept(const std::vector<int32_t>& groups, const Flags& removed) {
  return std::ranges::count_if(groups, [&](int32_t g) { return !removed[static_cast<size_t>(g)]; });
}

// The tensor without the indices along the axis whose groups are removed.
Tensor Without(const Tensor& tensor, const AxisGroups& along, const Flags& removed) {
  TensorType type = tensor.type();
  const std::vector<int64_t> sizes = tensor.sizes();
  int64_t outer = 1, inner = tensor.elements() == 0 ? 0 : 1;
  for (int i = 0; i < type.shape.rank(); ++i) {
    if (i < along.axis) outer *= sizes[static_cast<size_t>(i)];
    if (i > along.axis) inner *= sizes[static_cast<size_t>(i)];
  }
  type.shape[along.axis] = Dim(Kept(along.groups, removed));
  Tensor out = Tensor::Allocate(type);
  const size_t line = static_cast<size_t>(inner) * DTypeBits(type.dtype) / 8;
  const std::byte* from = tensor.raw();
  std::byte* to = out.mutable_raw();
  for (int64_t o = 0; o < outer; ++o) {
    for (const int32_t g : along.groups) {
      if (!removed[static_cast<size_t>(g)]) {
        std::memcpy(to, from, line);
        to += line;
      }
      from += line;
    }
  }
  return out;
}

void SetInts(Graph& graph, NodeId node, size_t input, std::vector<int64_t> ints) {
  const auto count = static_cast<int64_t>(ints.size());
  const std::string name = fmt::format("{}.sizes", graph.node(node).name);
  graph.SetInput(node, input,
                 graph.AddConstant(name, Tensor::FromValues<int64_t>(Shape{count}, ints)));
}

// Attributes and lists that count channels.
void WriteCounts(Graph& graph, const Channels& channels, const Flags& removed) {
  for (const NodeId id : channels.grouped) {
    const auto layer = std::ranges::find(channels.layers, id, &ChannelLayer::node);
    const auto all = static_cast<int64_t>(layer->outputs.size());
    graph.attrs(id).Set("group",
                        graph.node(id).attrs.Int("group", 1) * Kept(layer->outputs, removed) / all);
  }
  for (const ChannelSize& size : channels.sizes) {
    const Node& node = graph.node(size.node);
    const auto along = channels.values.find(node.outputs[0]);
    if (along == channels.values.end()) continue;
    std::vector<int64_t> ints = *ToInt64s(graph.value(node.inputs[size.input]).constant);
    ints[static_cast<size_t>(size.axis)] = Kept(along->second.groups, removed);
    SetInts(graph, size.node, size.input, std::move(ints));
  }
  for (const NodeId id : channels.splits) {
    std::vector<int64_t> parts;
    for (const ValueId y : graph.node(id).outputs)
      parts.push_back(Kept(channels.values.at(y).groups, removed));
    graph.attrs(id).Erase("num_outputs");
    SetInts(graph, id, 1, std::move(parts));
  }
}

// The shapes that the graph's values are to have, and what they have.
Status CompareShapes(const Graph& graph, const Graph& before, const Channels& channels,
                     const Flags& removed) {
  for (int i = 0; i < before.value_count(); ++i) {
    const ValueId id{i};
    Shape wanted = before.value(id).type.shape;
    if (!before.value(id).producer.valid() || !wanted.ranked()) continue;
    if (const auto along = channels.values.find(id); along != channels.values.end())
      wanted[along->second.axis] = Dim(Kept(along->second.groups, removed));
    const Shape& found = graph.value(id).type.shape;
    bool same = found.ranked() && found.rank() == wanted.rank();
    for (int k = 0; same && k < wanted.rank(); ++k)
      same = wanted[k].known() == found[k].known() &&
             (!wanted[k].known() || wanted[k].value == found[k].value);
    if (!same)
      return Unsupported("without channels, {} of {} is {}, expected {}", before.value(id).name,
                         NodeLabel(before.node(before.value(id).producer)), found.ToString(),
                         wanted.ToString());
  }
  return {};
}

}  // namespace

Status RemoveChannels(Graph& graph, const Channels& channels, const Flags& removed) {
  EVOQ_CHECK(removed.size() == channels.groups.size(), "{} flags for {} groups", removed.size(),
             channels.groups.size());
  const Graph before = graph;
  for (const ChannelSlices& slices : channels.slices) {
    const Tensor& constant = graph.value(slices.constant).constant;
    if (Kept(slices.along.groups, removed) == static_cast<int64_t>(slices.along.groups.size()))
      continue;
    graph.SetConstant(slices.constant, Without(constant, slices.along, removed));
  }
  WriteCounts(graph, channels, removed);
  EVOQ_TRY(WithContext(InferTypes(graph), "without channels"));
  EVOQ_TRY(CompareShapes(graph, before, channels, removed));
  return graph.Verify();
}

// Computed sizes follow when the shapes come out right without every second group.
Channels FindChannels(const Graph& graph) {
  Channels channels = FollowChannels(graph, true);
  if (channels.sizes_at_run_time.empty()) return channels;
  Flags removed(channels.groups.size());
  for (size_t g = 0; g < removed.size(); ++g)
    removed[g] = channels.groups[g].stays.empty() && g % 2 == 1;
  Graph without = graph;
  return RemoveChannels(without, channels, removed) ? channels : FollowChannels(graph, false);
}

}  // namespace evoq
