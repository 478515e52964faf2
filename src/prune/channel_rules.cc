// What each kind of operator makes of channels, from what its row says (ops/op.h, ops/roles.h).
#include <algorithm>

#include "prune/channel_walk.h"

namespace evoq {
namespace {

constexpr int kSpatialChannels = 1;  // of N, C, spatial...

// The product of the sizes before `axis`: the known ones, and the names of the others.
struct Outer {
  int64_t known = 1;
  std::vector<std::string> symbols;
  bool told = true;
  bool operator==(const Outer&) const = default;
};
Outer OuterOf(const Shape& shape, int axis) {
  Outer outer;
  for (int i = 0; i < axis; ++i) {
    if (shape[i].known()) {
      outer.told &= !__builtin_mul_overflow(outer.known, shape[i].value, &outer.known);
    } else {
      outer.told &= !shape[i].symbol.empty();
      outer.symbols.push_back(shape[i].symbol);
    }
  }
  return outer;
}

// The product of the sizes after `axis`, -1 where one is not known.
int64_t InnerOf(const Shape& shape, int axis) {
  int64_t inner = 1;
  for (int i = axis + 1; i < shape.rank(); ++i) {
    if (!shape[i].known() || __builtin_mul_overflow(inner, shape[i].value, &inner)) return -1;
  }
  return inner;
}

}  // namespace

void ChannelWalk::Visit(const Node& node) {
  if (node.outputs.empty() || !node.outputs[0].valid()) return;
  const OpDef* const op = FindOp(node);
  if (op != nullptr && IsWeighted(node) && op->linear != nullptr)
    return VisitProduct(IdOf(node), node);
  bool any = false;
  for (size_t i = 0; i < node.inputs.size(); ++i) any |= Of(node, i) != nullptr;
  if (!any) return;
  if (op == nullptr || !node.bodies.empty()) return Stop(node, "is not followed");
  if (QuantizesOrDequantizes(op)) return Stop(node, "quantizes: prune the float32 model");
  if (GivesSizes(node)) return;
  if (op->view && !op->elementwise) return VisitView(node);
  if (op->elementwise) return VisitElementwise(node);
  if (op->spatial) return VisitSpatial(node);
  if (node.op == "Transpose") return VisitTransposed(node);
  if (op->axes == AxisUse::kGathered) return VisitGather(node);
  if (op->axes == AxisUse::kTargetShape) return VisitExpand(node);
  const Along* const along = Of(node, 0);
  if (along == nullptr && op->max_inputs >= 0) return Stop(node, "reads them as a parameter");
  VisitAxis(node);
}

// y[.., m, ..] = sum over c of x[.., c, ..] w[m, c]: new channels m, of which the weight has a
// slice each, as of the channels c that it reads. The channels of a group of a grouped product,
// those that go in and those that come out, are one.
void ChannelWalk::VisitProduct(NodeId id, const Node& node) {
  const LinearForm& form = *LinearFormOf(node);
  const Along* const x = Of(node, 0);
  const auto w_input = static_cast<size_t>(InputWith(*FindOp(node), Role::kWeight));
  const Tensor* const w = graph_.ConstantInput(node, w_input);
  const Shape& y = ShapeOf(node.outputs[0]);
  if (w == nullptr) return Stop(node, "has no constant weight");
  const bool fits = w->dtype() == DType::kFloat32 && !w->type().quantized() &&
                    w->layout().empty() && w->shape().rank() >= 2 && w->elements() > 0;
  if (!fits) return Stop(node, fmt::format("has a weight {}", w->type().ToString()));
  const int x_rank = ShapeOf(node.inputs[0]).rank();
  if (!y.ranked() || x_rank < 2 || node.attrs.Int("transA") != 0 ||
      node.attrs.Int("channels_last") != 0)
    return Stop(node, "takes its channels in another order");
  if (x != nullptr && x->axis != ChannelAxis(node, x_rank))
    return Stop(node, "mixes another axis than that of the channels");
  const std::vector<int64_t> sizes = w->sizes();
  const int rank = w->shape().rank(), out_axis = WeightAxis(node, rank);
  const auto positive = [rank](int axis) { return axis < 0 ? axis + rank : axis; };
  const int in_axis = positive(form.out_axis) + positive(form.in_axis) - out_axis;  // the other
  const WeightIndex index(node, sizes);
  const int64_t groups = index.groups();
  const int axis = ChannelAxis(node, y.rank());
  const Ids outputs = Fresh(index.outputs());
  Ids inputs = x != nullptr ? x->ids : Fresh(index.inputs() * groups);
  if (static_cast<int64_t>(inputs.size()) != index.inputs() * groups)
    return Stop(node, "reads another number of channels");
  if (x == nullptr) Fix(inputs, fmt::format("{} reads what has no channels", NodeLabel(node)));
  layers_.push_back({id, node.inputs[w_input], outputs, x != nullptr ? inputs : Ids()});
  if (groups == 1) {
    Join(node, w_input, out_axis, outputs, true);
    Join(node, w_input, in_axis, inputs, true, true);
  } else {
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t ins = index.inputs(), outs = index.outputs() / groups;
      for (int64_t k = 1; k < ins; ++k)
        Unite(inputs[static_cast<size_t>(g * ins)], inputs[static_cast<size_t>(g * ins + k)]);
      for (int64_t k = 0; k < outs; ++k)
        Unite(inputs[static_cast<size_t>(g * ins)], outputs[static_cast<size_t>(g * outs + k)]);
    }
    if (form.outputs_by_group) {
      Join(node, w_input, in_axis, inputs, true);
    } else {
      Join(node, w_input, out_axis, outputs, true);
    }
    found_.grouped.push_back(id);
  }
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (i == 0 || i == w_input || !node.inputs[i].valid()) continue;
    const Shape& shape = ShapeOf(node.inputs[i]);
    const bool residual = RoleOf(node, i) == Role::kResidual;
    const int at = residual ? axis : shape.rank() - 1;  // a bias is of the last axis, or has one
    if (at >= 0 && shape.rank() > 0 && shape[at].known() && shape[at].value == 1 &&
        outputs.size() != 1)
      continue;
    if (shape.rank() > 0 && (RoleOf(node, i) == Role::kTable || !Join(node, i, at, outputs)))
      Fix(outputs, fmt::format("{}: input {} is not followed", NodeLabel(node), i));
  }
  Pass(node, axis, outputs);
}

// Reshape, Flatten, Squeeze, Unsqueeze: the axis that begins behind as many elements has the
// channels. Merged with what follows, each is there several times; cut, those of equal place in
// each part are one.
void ChannelWalk::VisitView(const Node& node) {
  const Along x = *Of(node, 0);
  const Shape &from = ShapeOf(node.inputs[0]), &to = ShapeOf(node.outputs[0]);
  const auto channels = static_cast<int64_t>(x.ids.size());
  if (!to.ranked()) return Stop(node, "has a shape that depends on data");
  const Outer outer = OuterOf(from, x.axis);
  const int64_t inner = InnerOf(from, x.axis);
  for (int axis = 0; axis < to.rank(); ++axis) {
    if (!to[axis].known() || !outer.told || !(OuterOf(to, axis) == outer)) continue;
    const int64_t size = to[axis].value;
    if (size == 1 && channels != 1) continue;  // one of several places before the channels
    Ids ids = x.ids;
    int at = axis;
    if (size != channels) {
      const int64_t rest = InnerOf(to, axis);
      const bool merged =
          size > channels && size % channels == 0 && inner > 0 && rest * size == inner * channels;
      const bool cut = size < channels && axis + 1 < to.rank() && to[axis + 1].known() &&
                       size * to[axis + 1].value == channels;
      if (rest < 0 || (!merged && !cut)) break;
      ids.clear();
      if (merged) {
        for (int64_t i = 0; i < size; ++i)
          ids.push_back(x.ids[static_cast<size_t>(i / (size / channels))]);
      } else {
        at = axis + 1;
        for (int64_t i = 0; i < channels; ++i)
          Unite(x.ids[static_cast<size_t>(i % to[at].value)], x.ids[static_cast<size_t>(i)]);
        ids.assign(x.ids.begin(), x.ids.begin() + to[at].value);
      }
    }
    if (node.op == "Reshape" && !Sizes(node, 1, at, ids.size()))
      return Stop(node, "has a shape that the model computes");
    return Pass(node, at, std::move(ids));
  }
  Stop(node, "mixes channels with other axes");
}

void ChannelWalk::VisitElementwise(const Node& node) {
  const Shape& y = ShapeOf(node.outputs[0]);
  const Along* first = nullptr;
  int axis = -1;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Along* const along = Of(node, i);
    if (along == nullptr) continue;
    const int at = y.ranked() ? along->axis + y.rank() - ShapeOf(node.inputs[i]).rank() : -1;
    if (first == nullptr) axis = at;
    if (at < 0 || at != axis) return Stop(node, "joins channels of different axes");
    if (first == nullptr || along->ids.size() > first->ids.size()) first = along;
  }
  const Ids ids = first->ids;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].valid()) continue;
    const Shape& shape = ShapeOf(node.inputs[i]);
    if (!shape.ranked()) return Stop(node, "joins them with what has no known rank");
    const int at = axis - (y.rank() - shape.rank());
    if (at < 0) continue;  // broadcast
    if (shape[at].known() && shape[at].value == 1 && ids.size() != 1) {
      if (const Along* const along = Of(node, i))
        Fix(along->ids, fmt::format("{} repeats it for several channels", NodeLabel(node)));
      continue;
    }
    if (!Join(node, i, at, ids))
      return Stop(node, fmt::format("joins them with {}", graph_.value(node.inputs[i]).name));
  }
  Pass(node, axis, ids);
}

// Pools, normalizations by channel, Resize: what leaves the number of channels leaves channels.
void ChannelWalk::VisitSpatial(const Node& node) {
  const Along* const x = Of(node, 0);
  if (x == nullptr) return Stop(node, "reads them as a parameter");
  const Shape& y = ShapeOf(node.outputs[0]);
  const Ids ids = x->ids;
  const auto channels = static_cast<int64_t>(ids.size());
  if (x->axis != kSpatialChannels || node.attrs.Int("channels_last") != 0 || !y.ranked() ||
      y.rank() < 2 || !y[kSpatialChannels].known() || y[kSpatialChannels].value != channels)
    return Stop(node, "moves channels");
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].valid()) continue;
    if (RoleOf(node, i) == Role::kParameter) {
      if (!Sizes(node, i, kSpatialChannels, ids.size()))
        return Stop(node, "has sizes that the model computes");
      continue;
    }
    if (!Join(node, i, 0, ids, i == 1)) return Stop(node, fmt::format("reads input {}", i));
  }
  Pass(node, kSpatialChannels, ids);
}

void ChannelWalk::VisitTransposed(const Node& node) {
  const Along* const x = Of(node, 0);
  const int rank = ShapeOf(node.inputs[0]).rank();
  std::vector<int64_t> perm = node.attrs.Ints("perm");
  if (perm.empty()) {
    for (int i = 0; i < rank; ++i) perm.push_back(rank - 1 - i);
  }
  const auto at = std::find(perm.begin(), perm.end(), x->axis);
  if (at == perm.end()) return Stop(node, "has no axis for them");
  Pass(node, static_cast<int>(at - perm.begin()), x->ids);
}

// Operators that say by an attribute or an input which axes they are about.
void ChannelWalk::VisitAxis(const Node& node) {
  const OpDef& op = *FindOp(node);
  const Along* const x = Of(node, 0);
  const int rank = ShapeOf(node.inputs[0]).rank();
  const auto axis = NormalizeAxis(node.attrs.Int("axis", op.default_axis), rank);
  switch (op.axes) {
    case AxisUse::kAttribute:
      if (!axis) break;
      if (op.max_inputs < 0) return VisitConcat(node, *axis);
      if (op.outputs < 0) return VisitSplit(IdOf(node), node);
      if (*axis == x->axis) return Stop(node, "computes along the channels");
      return Pass(node, x->axis, x->ids);
    case AxisUse::kTrailing:
      if (!axis) break;
      if (*axis <= x->axis) return Stop(node, "normalizes over the channels");
      return Pass(node, x->axis, x->ids);
    case AxisUse::kAttributeReduced:
      if (!axis) break;
      return VisitReduced(node, {*axis});
    case AxisUse::kInputReduced: {
      const auto axes = AxesOf(node, 1, rank, rank);
      if (!axes || axes->empty() || node.attrs.Has("axes")) break;
      return VisitReduced(node, *axes);
    }
    case AxisUse::kFirstListed: return VisitListed(node);
    case AxisUse::kAllListed: return VisitPad(node);
    default: break;
  }
  Stop(node, "is not followed");
}

void ChannelWalk::VisitReduced(const Node& node, const std::vector<int>& axes) {
  const Along* const x = Of(node, 0);
  if (std::ranges::count(axes, x->axis) > 0) return Stop(node, "reduces over the channels");
  const bool keeps = node.attrs.Int("keepdims", 1) != 0;
  const auto before = std::ranges::count_if(axes, [&](int a) { return a < x->axis; });
  Pass(node, x->axis - (keeps ? 0 : static_cast<int>(before)), x->ids);
}

// What has no channels brings some that stay.
void ChannelWalk::VisitConcat(const Node& node, int axis) {
  Ids joined;
  int at = -1;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Along* const along = Of(node, i);
    if (along == nullptr) continue;
    if (at >= 0 && along->axis != at) return Stop(node, "joins channels of different axes");
    at = along->axis;
    joined = along->ids;
  }
  if (at != axis) {  // beside each other in another axis: they are the same channels
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!Join(node, i, at, joined)) return Stop(node, fmt::format("reads input {}", i));
    }
    return Pass(node, at, joined);
  }
  joined.clear();
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (const Along* const along = Of(node, i)) {
      joined.insert(joined.end(), along->ids.begin(), along->ids.end());
      continue;
    }
    const Shape& shape = ShapeOf(node.inputs[i]);
    if (!shape.ranked() || axis >= shape.rank() || !shape[axis].known())
      return Stop(node, fmt::format("reads input {} of no known size", i));
    const Ids fresh = Fresh(shape[axis].value);
    Fix(fresh, fmt::format("{} reads what has no channels", NodeLabel(node)));
    joined.insert(joined.end(), fresh.begin(), fresh.end());
  }
  Pass(node, axis, std::move(joined));
}

// Each output has its part of the channels; how many is written anew.
void ChannelWalk::VisitSplit(NodeId id, const Node& node) {
  const Along* const x = Of(node, 0);
  const Ids ids = x->ids;
  const int axis = x->axis;
  const auto split = NormalizeAxis(node.attrs.Int("axis"), ShapeOf(node.inputs[0]).rank());
  const bool cuts = split && *split == axis;
  size_t at = 0;
  for (const ValueId y : node.outputs) {
    const Shape& shape = ShapeOf(y);
    if (!y.valid() || !shape.ranked() || axis >= shape.rank() || !shape[axis].known())
      return Stop(node, "has parts of no known size");
    const auto size = static_cast<size_t>(shape[axis].value);
    if (size == 0 || at + size > ids.size()) return Stop(node, "has empty parts");
    values_[y] = {axis, Ids(ids.begin() + static_cast<std::ptrdiff_t>(at),
                            ids.begin() + static_cast<std::ptrdiff_t>(at + size))};
    if (cuts) at += size;
  }
  if (cuts) found_.splits.push_back(id);
}

void ChannelWalk::VisitListed(const Node& node) {
  const Along* const x = Of(node, 0);
  const Shape& starts = ShapeOf(node.inputs[1]);
  const auto count = starts.elements();
  const int rank = ShapeOf(node.inputs[0]).rank();
  const auto axes =
      AxesOf(node, 3, count && *count <= rank ? static_cast<int>(*count) : rank, rank);
  if (!axes || std::ranges::count(*axes, x->axis) > 0) return Stop(node, "cuts channels out");
  Pass(node, x->axis, x->ids);
}

// Channels of padding stay.
void ChannelWalk::VisitPad(const Node& node) {
  const Along* const x = Of(node, 0);
  const int rank = ShapeOf(node.inputs[0]).rank();
  const auto pads = Ints(node.input(1));
  const auto axes = AxesOf(node, 3, rank, rank);
  if (!pads || !axes || pads->size() != 2 * axes->size())
    return Stop(node, "has pads that the model computes");
  Ids ids = x->ids;
  const auto at = std::ranges::find(*axes, x->axis);
  if (at != axes->end()) {
    const auto place = static_cast<size_t>(at - axes->begin());
    const int64_t before = (*pads)[place], after = (*pads)[place + axes->size()];
    const bool constant = node.attrs.String("mode", "constant") == "constant";
    const Dim& size = ShapeOf(node.outputs[0])[x->axis];  // which inference has checked
    if (before < 0 || after < 0 || !size.known() || ((before > 0 || after > 0) && !constant))
      return Stop(node, "pads channels by others");
    const Ids front = Fresh(before), back = Fresh(after);
    const std::string why = fmt::format("{} pads them", NodeLabel(node));
    Fix(front, why);
    Fix(back, why);
    ids.insert(ids.begin(), front.begin(), front.end());
    ids.insert(ids.end(), back.begin(), back.end());
  }
  Pass(node, x->axis, std::move(ids));
}

void ChannelWalk::VisitGather(const Node& node) {
  const Along* const x = Of(node, 0);
  const Shape& indices = ShapeOf(node.inputs[1]);
  const auto axis = NormalizeAxis(node.attrs.Int("axis"), ShapeOf(node.inputs[0]).rank());
  if (x == nullptr || !axis || *axis == x->axis || !indices.ranked())
    return Stop(node, "picks channels");
  Pass(node, x->axis + (*axis < x->axis ? indices.rank() - 1 : 0), x->ids);
}

void ChannelWalk::VisitExpand(const Node& node) {
  const Along* const x = Of(node, 0);
  const Shape& y = ShapeOf(node.outputs[0]);
  if (x == nullptr || !y.ranked()) return Stop(node, "has a shape that the model computes");
  const int at = x->axis + y.rank() - ShapeOf(node.inputs[0]).rank();
  const Ids ids = x->ids;
  if (!Sizes(node, 1, at, ids.size())) return Stop(node, "has a shape that the model computes");
  Pass(node, at, ids);
}

}  // namespace evoq
