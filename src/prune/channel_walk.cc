#include "prune/channel_walk.h"

#include <algorithm>
#include <numeric>

#include "ops/driver.h"
#include "reference/reference.h"

namespace evoq {

int32_t ChannelWalk::Root(int32_t id) {
  while (parent_[static_cast<size_t>(id)] != id) {
    int32_t& above = parent_[static_cast<size_t>(id)];
    above = parent_[static_cast<size_t>(above)];
    id = above;
  }
  return id;
}

ChannelWalk::Ids ChannelWalk::Fresh(int64_t count) {
  Ids ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), static_cast<int32_t>(parent_.size()));
  parent_.insert(parent_.end(), ids.begin(), ids.end());
  stays_.resize(parent_.size());
  return ids;
}

// The lower number is the root, so that groups are numbered as their first channels.
void ChannelWalk::Unite(int32_t a, int32_t b) {
  a = Root(a), b = Root(b);
  if (a == b) return;
  if (b < a) std::swap(a, b);
  parent_[static_cast<size_t>(b)] = a;
  std::string& stays = stays_[static_cast<size_t>(a)];
  if (stays.empty()) stays = std::move(stays_[static_cast<size_t>(b)]);
}

void ChannelWalk::Fix(const Ids& ids, const std::string& why) {
  for (const int32_t id : ids) {
    std::string& stays = stays_[static_cast<size_t>(Root(id))];
    if (stays.empty()) stays = why;
  }
}

void ChannelWalk::Stop(const Node& node, const std::string& why) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (const Along* const along = Of(node, i))
      Fix(along->ids, fmt::format("{} {}", NodeLabel(node), why));
  }
}

const ChannelWalk::Along* ChannelWalk::Of(const Node& node, size_t i) const {
  const auto found = values_.find(node.input(i));
  return found == values_.end() ? nullptr : &found->second;
}

void ChannelWalk::Pass(const Node& node, int axis, Ids ids) {
  const ValueId y = node.outputs[0];
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    const ValueId other = node.outputs[i];
    if (other.valid() && (!graph_.value(other).users.empty() || graph_.IsOutput(other)))
      return Fix(ids, fmt::format("{} has a second output that is read", NodeLabel(node)));
  }
  const Shape& shape = ShapeOf(y);
  if (!shape.ranked() || axis >= shape.rank() || !shape[axis].known() ||
      shape[axis].value != static_cast<int64_t>(ids.size()))
    return Fix(ids, fmt::format("{} gives {}", NodeLabel(node), shape.ToString()));
  values_[y] = {axis, std::move(ids)};
}

bool ChannelWalk::Join(const Node& node, size_t i, int axis, const Ids& ids, bool scored,
                       bool consumes) {
  const ValueId id = node.inputs[i];
  const Value& value = graph_.value(id);
  const Shape& shape = value.type.shape;
  if (!shape.ranked() || axis < 0 || axis >= shape.rank() || !shape[axis].known()) return false;
  if (shape[axis].value != static_cast<int64_t>(ids.size())) return false;
  if (!value.is_constant()) {
    const Along* const along = Of(node, i);
    if (along == nullptr || along->axis != axis) {
      Fix(ids, fmt::format("{} joins them with {}, whose channels are not followed",
                           NodeLabel(node), value.name));
      return true;
    }
    for (size_t k = 0; k < ids.size(); ++k) Unite(ids[k], along->ids[k]);
    return true;
  }
  const bool plain = !value.type.quantized() && value.constant.layout().empty() &&
                     value.type.dtype != DType::kString && DTypeBits(value.type.dtype) % 8 == 0;
  if (!plain || value.constant.elements() == 0) return false;
  Held& held = held_[{id, axis}];
  if (held.ids.empty()) {
    held.slices = {.constant = id, .along = {axis, {}}, .scored = scored, .consumes = consumes};
    held.ids = ids;
  }
  for (size_t k = 0; k < ids.size(); ++k) Unite(ids[k], held.ids[k]);
  held.readers.emplace_back(node.name, i);
  return true;
}

std::optional<std::vector<int64_t>> ChannelWalk::Ints(ValueId id) const {
  const auto known = lists_.find(id);
  if (!id.valid() || (!graph_.value(id).is_constant() && known == lists_.end()))
    return std::nullopt;
  const auto ints = ToInt64s(known != lists_.end() ? known->second : graph_.value(id).constant);
  return ints ? std::optional(*ints) : std::nullopt;
}

bool ChannelWalk::Sizes(const Node& node, size_t i, int axis, size_t channels) {
  const ValueId id = node.input(i);
  if (!id.valid()) return true;
  const Value& value = graph_.value(id);
  if (!value.is_constant()) {
    found_.sizes_at_run_time.push_back(node.name);
    return follow_computed_;
  }
  if (value.type.dtype != DType::kInt64) return true;  // scales and the like
  const auto ints = Ints(id);
  const bool names = ints && axis < static_cast<int>(ints->size()) &&
                     (*ints)[static_cast<size_t>(axis)] == static_cast<int64_t>(channels);
  if (names) found_.sizes.push_back({IdOf(node), i, axis});
  return true;
}

std::optional<std::vector<int>> ChannelWalk::AxesOf(const Node& node, size_t i, int count,
                                                    int rank) const {
  std::vector<int64_t> listed(static_cast<size_t>(count));
  std::iota(listed.begin(), listed.end(), 0);
  if (node.input(i).valid()) {
    const auto given = Ints(node.input(i));
    if (!given) return std::nullopt;
    listed = *given;
  }
  std::vector<int> axes;
  for (const int64_t a : listed) {
    const auto axis = NormalizeAxis(a, rank);
    if (!axis) return std::nullopt;
    axes.push_back(*axis);
  }
  return axes;
}

// A constant that another node reads in a way that was not followed cannot lose a part.
void ChannelWalk::FixSharedConstants() {
  for (const auto& [key, held] : held_) {
    const Value& constant = graph_.value(key.first);
    size_t wanted = 0, followed = 0;  // inputs of readers, each as often as a reader is listed
    for (const NodeId user : constant.users) {
      const Node& node = graph_.node(user);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] != key.first) continue;
        ++wanted;
        followed += std::ranges::count(held.readers, std::pair(node.name, i)) > 0 ? 1 : 0;
      }
    }
    if (followed != wanted || graph_.IsOutput(key.first))
      Fix(held.ids, fmt::format("{} is read in another way too", constant.name));
  }
}

void ChannelWalk::FixOutputs() {
  for (const ValueId id : graph_.outputs()) {
    if (const auto along = values_.find(id); along != values_.end())
      Fix(along->second.ids, fmt::format("they are the output {}", graph_.value(id).name));
  }
}

// Roots become groups, counted from 0 on, and what one layer gives out together a bundle.
void ChannelWalk::Number(Channels& out) {
  std::map<int32_t, int32_t> numbers;
  const auto groups_of = [&](const Ids& ids) {
    std::vector<int32_t> groups;
    for (const int32_t id : ids) {
      const int32_t root = Root(id);
      const auto [at, added] = numbers.emplace(root, static_cast<int32_t>(numbers.size()));
      if (added)
        out.groups.push_back({.bundle = at->second, .stays = stays_[static_cast<size_t>(root)]});
      groups.push_back(at->second);
    }
    return groups;
  };
  for (const Layer& layer : layers_)
    out.layers.push_back(
        {layer.node, layer.weight, groups_of(layer.outputs), groups_of(layer.inputs)});
  for (auto& [key, held] : held_) {
    out.slices.push_back(held.slices);
    out.slices.back().along.groups = groups_of(held.ids);
  }
  for (const auto& [id, along] : values_) out.values[id] = {along.axis, groups_of(along.ids)};
  bool changed = true;
  while (changed) {  // bundles that share a layer become one
    changed = false;
    for (const ChannelLayer& layer : out.layers) {
      int32_t least = INT32_MAX;
      for (const int32_t g : layer.outputs)
        least = std::min(least, out.groups[static_cast<size_t>(g)].bundle);
      for (const int32_t g : layer.outputs) {
        int32_t& bundle = out.groups[static_cast<size_t>(g)].bundle;
        changed |= bundle != least;
        bundle = least;
      }
    }
  }
}

// Exporters leave such lists as nodes: PyTorch's pads are one of ten.
void ChannelWalk::KnowLists() {
  constexpr int64_t kMost = 256;  // elements: they are lists of a few numbers
  for (const NodeId id : graph_.order()) {
    const Node& node = graph_.node(id);
    std::vector<Tensor> inputs;
    for (const ValueId in : node.inputs) {
      const auto known = lists_.find(in);
      if (known != lists_.end()) {
        inputs.push_back(known->second);
      } else if (in.valid() && graph_.value(in).is_constant()) {
        inputs.push_back(graph_.value(in).constant);
      }
      if (inputs.empty() || inputs.back().elements() > kMost) break;
    }
    const bool small = !inputs.empty() && inputs.back().elements() <= kMost;
    if (!small || inputs.size() != node.inputs.size() || FindOp(node)->random) continue;
    std::vector<TensorType> types;
    for (const ValueId out : node.outputs)
      types.push_back(out.valid() ? graph_.value(out).type : TensorType());
    const auto outputs = EvaluateAhead(kReference, node, inputs, types);
    for (size_t i = 0; outputs && i < node.outputs.size() && i < outputs->size(); ++i) {
      const Tensor& list = (*outputs)[i];
      if (node.outputs[i].valid() && list.elements() <= kMost) lists_[node.outputs[i]] = list;
    }
  }
}

Channels ChannelWalk::Run() {
  KnowLists();
  for (const NodeId id : graph_.order()) Visit(graph_.node(id));
  FixOutputs();
  FixSharedConstants();
  Channels out = std::move(found_);
  Number(out);
  return out;
}

Channels FollowChannels(const Graph& graph, bool follow_computed) {
  return ChannelWalk(graph, follow_computed).Run();
}

}  // namespace evoq
