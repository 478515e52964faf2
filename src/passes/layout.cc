#include "passes/layout.h"

#include <algorithm>

#include "reference/util.h"

namespace evoq {

namespace {

// Whether a float Resize of [N, C, spatial...] widens its rows so much that it is quicker on planes
// than on pixels and a Transpose of what it gives. Pixels whose channels do not fill registers are
// slow; at the end of a model, sizes that are known at run time only are those of the picture.
bool Widens(const Graph& graph, const Node& node) {
  const TensorType& type = graph.value(node.input(0)).type;
  const Shape &x = type.shape, &y = graph.value(node.outputs[0]).type.shape;
  if (!x.ranked() || x.rank() < 3 || y.rank() != x.rank() || type.quantized()) return false;
  const bool filled = !x[1].known() || x[1].value % 16 == 0;
  const Tensor* scales = node.input(2).valid() ? FloatConstant(graph, node.input(2)) : nullptr;
  if (scales != nullptr && scales->elements() != x.rank()) scales = nullptr;
  double all = 1, last = 1;
  for (int i = 2; i < x.rank(); ++i) {
    if (x[i].known() && y[i].known()) {
      last =
          static_cast<double>(y[i].value) / static_cast<double>(std::max<int64_t>(x[i].value, 1));
    } else if (scales != nullptr) {
      last = scales->data<float>()[i];
    } else {
      return !filled;
    }
    all *= last;
  }
  return last >= (filled ? 3 : 7.0 / 6) && all > 1;
}

}  // namespace

int LayoutWalk::Run() {
  if (channels_last_) FindEnds();
  for (NodeId id : graph_.order()) {
    const Node& node = graph_.node(id);
    only_resizes_ = only_resizes_ && (!OpOf(node).spatial || node.op == "Resize");
  }
  for (NodeId id : NodesOf(graph_)) {
    if (graph_.alive(id)) Visit(id);
  }
  return converted_;
}

void LayoutWalk::FindEnds() {
  const auto& order = graph_.order();
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    const Node& node = graph_.node(*id);
    const auto computed = std::ranges::count_if(
        node.inputs, [&](ValueId in) { return in.valid() && !graph_.value(in).is_constant(); });
    if (IsOp(graph_, *id, "Transpose")) continue;
    if (node.op != "Resize" && (computed != 1 || OpOf(node).spatial)) continue;
    const bool ends = std::ranges::all_of(node.outputs, [&](ValueId out) {
      return !out.valid() || std::ranges::all_of(graph_.value(out).users,
                                                 [&](NodeId user) { return ends_.contains(user); });
    });
    if (ends) ends_.insert(*id);
  }
}

const LayoutWalk::Form* LayoutWalk::FormOf(ValueId x) const {
  const auto it = forms_.find(x);
  return it == forms_.end() ? nullptr : &it->second;
}

void LayoutWalk::Visit(NodeId id) {
  const Node& node = graph_.node(id);
  if (node.outputs.empty() || !node.outputs[0].valid()) return;
  if (IsOp(graph_, id, "Transpose")) return VisitTranspose(id);
  const OpDef& op = OpOf(node);
  if (op.spatial) {
    if (channels_last_) VisitSpatial(id);
    return;
  }
  const Form* found = nullptr;
  for (ValueId in : node.inputs) {
    if (found == nullptr && in.valid()) found = FormOf(in);
  }
  if (found == nullptr) return;
  const Form form = *found;
  if (op.view && !op.elementwise) return VisitReshape(id, form);
  // A quantization keeps elements in place, whatever else it gives.
  if ((op.elementwise && node.outputs.size() == 1) || op.conversion == PrecisionChange::kQuantize)
    return VisitElementwise(id, form.perm);
  switch (op.axes) {
    case AxisUse::kByPosition:
    case AxisUse::kTrailing:
    case AxisUse::kSizeOf: return;
    case AxisUse::kAttribute:
    case AxisUse::kAttributeReduced: return VisitAxis(id, form.perm);
    case AxisUse::kInputReduced: return VisitReduce(id, form.perm);
    case AxisUse::kFirstListed: return VisitSlice(id, form.perm);
    case AxisUse::kAllListed: return VisitPad(id, form.perm);
    case AxisUse::kGathered: return VisitGather(id, form.perm);
    case AxisUse::kTargetShape: return VisitExpand(id, form.perm);
    case AxisUse::kShapeOf: return VisitShape(id, form);
  }
}

// y = Transpose(x, q): of x's permuted form where it has one, and itself the plain side of a
// permuted form of y.
void LayoutWalk::VisitTranspose(NodeId id) {
  const auto q = PermutationOf(graph_, graph_.node(id));
  ValueId u = graph_.node(id).input(0);
  const ValueId y = graph_.node(id).outputs[0];
  const TensorType &from = graph_.value(u).type, &to = graph_.value(y).type;
  if (!q || graph_.value(u).is_constant() || from.quantized() != to.quantized()) return;
  if (from.quantized() && !SameQuant(from, to)) return;  // it requantizes
  Permutation r = *q;
  const Form* form = FormOf(u);
  if (form != nullptr) {
    r = Compose(Inverse(form->perm), *q);
    u = form->value;
    graph_.SetInput(id, 0, u);
    graph_.attrs(id).Set("perm", r);
  }
  if (IsIdentity(r) && ReplaceOutput(graph_, id, u)) {
    graph_.RemoveNode(id);
    return;
  }
  const Permutation back = Inverse(r);
  const bool to_channels_last =
      back.size() >= 3 && back == ChannelsLast(static_cast<int>(back.size()));
  if (!channels_last_ || form != nullptr || to_channels_last) forms_[y] = {back, u};
}

ValueId LayoutWalk::AddTranspose(ValueId x, const Permutation& perm) {
  const std::string name = graph_.value(x).name + "_t";
  return graph_.Apply("Transpose", name, {x}, Attrs::Of("perm", perm),
                      Permuted(graph_.value(x).type, perm));
}

ValueId LayoutWalk::Get(ValueId x, const Permutation& perm) {
  const Form* form = FormOf(x);
  if (form != nullptr && form->perm == perm) return form->value;
  if (const auto it = cached_.find({x, perm}); it != cached_.end()) return it->second;
  const NodeId before = ProducedBy(graph_, x, "Transpose");
  const auto first = before.valid() ? PermutationOf(graph_, graph_.node(before)) : std::nullopt;
  ValueId made;
  if (graph_.value(x).is_constant() && CanPermute(graph_.value(x).constant)) {
    made =
        graph_.AddConstant(graph_.value(x).name + "_t", Permuted(graph_.value(x).constant, perm));
  } else if (form != nullptr) {
    made = AddTranspose(form->value, Compose(Inverse(form->perm), perm));
  } else if (first) {
    const Permutation both = Compose(*first, perm);
    made = IsIdentity(both) ? graph_.node(before).input(0)
                            : AddTranspose(graph_.node(before).input(0), both);
  } else {
    made = AddTranspose(x, perm);
  }
  cached_[{x, perm}] = made;
  return made;
}

void LayoutWalk::SetPermuted(NodeId id, size_t i, const Permutation& perm) {
  const ValueId plain = graph_.node(id).outputs[i];
  if (!plain.valid()) return;
  const std::string name = graph_.value(plain).name;
  const ValueId permuted = graph_.AddValue(name + "_t", Permuted(graph_.value(plain).type, perm));
  graph_.SetOutput(id, i, permuted);
  const Attrs attrs = Attrs::Of("perm", Inverse(perm));
  graph_.AddNode({.op = "Transpose",
                  .name = name + "_plain",
                  .attrs = attrs,
                  .inputs = {permuted},
                  .outputs = {plain}});
  forms_[plain] = {perm, permuted};
}

bool LayoutWalk::StaysPlain(NodeId id) const {
  const Node& node = graph_.node(id);
  // As fast in either order, or faster by less than a Transpose takes.
  const bool plain = FormOf(node.input(0)) == nullptr;
  if (node.op == "GroupNormalization") return plain;
  if (node.op == "GridSample") return plain;
  if (node.op != "Resize") return false;
  const std::string mode = node.attrs.String("mode", "nearest");
  if (mode == "nearest") return only_resizes_ && plain;
  // The Transpose before it moves less than the one behind it would.
  return mode == "linear" && node.attrs.Int("antialias") == 0 && ends_.contains(id) &&
         Widens(graph_, node);
}

void LayoutWalk::VisitSpatial(NodeId id) {
  const Node node = graph_.node(id);
  const Shape& x = ShapeOf(node.input(0));
  if (node.attrs.Int("channels_last") != 0 || StaysPlain(id) || !x.ranked() || x.rank() < 3 ||
      x.rank() != ShapeOf(node.outputs[0]).rank())
    return;
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    const ValueId out = node.outputs[i];
    if (out.valid() && (!graph_.value(out).users.empty() || graph_.IsOutput(out))) return;
  }
  const Permutation perm = ChannelsLast(x.rank());
  graph_.SetInput(id, 0, Get(node.input(0), perm));
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.input(i).valid() && RoleOf(node, i) == Role::kResidual)
      graph_.SetInput(id, i, Get(node.input(i), perm));
  }
  graph_.attrs(id).Set("channels_last", 1);
  SetPermuted(id, 0, perm);
  ++converted_;
}

void LayoutWalk::VisitElementwise(NodeId id, const Permutation& perm) {
  const Node node = graph_.node(id);
  const int rank = static_cast<int>(perm.size());
  if (ShapeOf(node.outputs[0]).rank() != rank) return;
  for (ValueId in : node.inputs) {
    if (!in.valid()) continue;
    const Shape& shape = ShapeOf(in);
    const bool constant = graph_.value(in).is_constant();
    if (!shape.ranked() || shape.rank() > rank) return;
    if (shape.rank() < rank && shape.rank() > 0 && !constant && shape.elements() != 1) return;
    if (constant && !CanPermute(graph_.value(in).constant)) return;
  }
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId in = node.inputs[i];
    if (!in.valid() || (ShapeOf(in).rank() < rank && ShapeOf(in).elements() == 1)) continue;
    if (ShapeOf(in).rank() == rank) {
      graph_.SetInput(id, i, Get(in, perm));
      continue;
    }
    // A constant of lower rank is aligned at the right: leading dimensions of size 1 are written
    // out.
    TensorType type = graph_.value(in).type;
    const int missing = rank - type.shape.rank();
    std::vector<Dim> dims(missing, Dim(1));
    dims.insert(dims.end(), type.shape.dims().begin(), type.shape.dims().end());
    if (type.quantized() && !type.quant->per_tensor()) {
      QuantParams quant = *type.quant;
      quant.axis += missing;
      type.quant = std::make_shared<const QuantParams>(std::move(quant));
    }
    type.shape = Shape(std::move(dims));
    Tensor moved = Permuted(graph_.value(in).constant.WithType(type), perm);
    graph_.SetInput(id, i, graph_.AddConstant(graph_.value(in).name + "_t", std::move(moved)));
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].valid() && ShapeOf(node.outputs[i]).rank() == rank)
      SetPermuted(id, i, perm);
  }
}

void LayoutWalk::VisitAxis(NodeId id, const Permutation& perm) {
  const Node node = graph_.node(id);
  const int rank = static_cast<int>(perm.size());
  const OpDef& op = OpOf(node);
  const size_t inputs = op.max_inputs < 0 ? node.inputs.size() : 1;
  const auto axis = NormalizeAxis(node.attrs.Int("axis", op.default_axis), rank);
  if (!axis) return;
  for (size_t i = 0; i < inputs; ++i) {
    if (ShapeOf(node.inputs[i]).rank() != rank) return;
  }
  for (size_t i = 0; i < inputs; ++i) graph_.SetInput(id, i, Get(node.inputs[i], perm));
  graph_.attrs(id).Set("axis", AttrValue(Inverse(perm)[*axis]));
  if (op.axes == AxisUse::kAttributeReduced && node.attrs.Int("keepdims", 1) == 0)
    return SetReduced(id, perm, {*axis});
  for (size_t i = 0; i < node.outputs.size(); ++i) SetPermuted(id, i, perm);
}

void LayoutWalk::SetReduced(NodeId id, const Permutation& perm,
                            const std::vector<int64_t>& dropped) {
  // The axes that stay, in the permuted order, numbered as in the reduced plain order.
  Permutation kept;
  for (int64_t axis : perm) {
    if (std::binary_search(dropped.begin(), dropped.end(), axis)) continue;
    kept.push_back(axis -
                   (std::lower_bound(dropped.begin(), dropped.end(), axis) - dropped.begin()));
  }
  if (!IsIdentity(kept)) SetPermuted(id, 0, kept);
}

void LayoutWalk::VisitReduce(NodeId id, const Permutation& perm) {
  const Node node = graph_.node(id);
  const int rank = static_cast<int>(perm.size());
  const auto axes = IntsOf(graph_, node.input(1));
  if (!axes || axes->empty() || ShapeOf(node.input(0)).rank() != rank || node.attrs.Has("axes"))
    return;
  std::vector<int64_t> plain, mapped;
  for (int64_t a : *axes) {
    const auto axis = NormalizeAxis(a, rank);
    if (!axis) return;
    plain.push_back(*axis);
    mapped.push_back(Inverse(perm)[*axis]);
  }
  std::sort(plain.begin(), plain.end());
  std::sort(mapped.begin(), mapped.end());
  graph_.SetInput(id, 0, Get(node.input(0), perm));
  graph_.SetInput(id, 1, AddInts(graph_, node.name + "_axes", mapped));
  if (node.attrs.Int("keepdims", 1) == 0) return SetReduced(id, perm, plain);
  SetPermuted(id, 0, perm);
}

// Input 3 of Slice and Pad: the axes in the layout of `perm`.
void LayoutWalk::SetAxes(NodeId id, const Permutation& perm, std::vector<int64_t> axes) {
  for (int64_t& a : axes) {
    const auto axis = NormalizeAxis(a, static_cast<int>(perm.size()));
    if (!axis) return;
    a = Inverse(perm)[*axis];
  }
  graph_.SetInput(id, 0, Get(graph_.node(id).input(0), perm));
  graph_.SetInput(id, 3, AddInts(graph_, graph_.node(id).name + "_axes", axes));
  SetPermuted(id, 0, perm);
}

void LayoutWalk::VisitSlice(NodeId id, const Permutation& perm) {
  const Node node = graph_.node(id);
  const int rank = static_cast<int>(perm.size());
  if (ShapeOf(node.input(0)).rank() != rank) return;
  std::vector<int64_t> axes;
  if (node.input(3).valid()) {
    const auto given = IntsOf(graph_, node.input(3));
    if (!given) return;
    axes = *given;
  } else {
    const auto count = ShapeOf(node.input(1)).elements();
    if (!count || *count > rank) return;
    for (int64_t i = 0; i < *count; ++i) axes.push_back(i);
  }
  return SetAxes(id, perm, std::move(axes));
}

void LayoutWalk::VisitPad(NodeId id, const Permutation& perm) {
  const Node node = graph_.node(id);
  const int rank = static_cast<int>(perm.size());
  if (ShapeOf(node.input(0)).rank() != rank) return;
  std::vector<int64_t> axes;
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  if (node.input(3).valid()) {
    const auto given = IntsOf(graph_, node.input(3));
    if (!given) return;
    axes = *given;
  }
  return SetAxes(id, perm, std::move(axes));
}

// Constant indices: one index drops its axis, a list keeps it.
void LayoutWalk::VisitGather(NodeId id, const Permutation& perm) {
  const Node node = graph_.node(id);
  const int rank = static_cast<int>(perm.size());
  const ValueId data = node.input(0), indices = node.input(1);
  if (ShapeOf(data).rank() != rank || !graph_.value(indices).is_constant() ||
      ShapeOf(indices).rank() > 1)
    return;
  const auto axis = NormalizeAxis(node.attrs.Int("axis"), rank);
  if (!axis) return;
  graph_.SetInput(id, 0, Get(data, perm));
  graph_.attrs(id).Set("axis", AttrValue(Inverse(perm)[*axis]));
  if (ShapeOf(indices).rank() == 0) return SetReduced(id, perm, {*axis});
  SetPermuted(id, 0, perm);
}

// To a shape of x's rank, whose elements are permuted.
void LayoutWalk::VisitExpand(NodeId id, const Permutation& perm) {
  const Node node = graph_.node(id);
  const int64_t rank = static_cast<int64_t>(perm.size());
  if (ShapeOf(node.input(0)).rank() != rank || ShapeOf(node.input(1)).elements() != rank) return;
  const Attrs attrs = Attrs::Of("axis", 0);
  const ValueId order = AddInts(graph_, node.name + "_order", perm);
  graph_.SetInput(id, 0, Get(node.input(0), perm));
  graph_.SetInput(id, 1,
                  graph_.Apply("Gather", node.name + "_shape", {node.input(1), order}, attrs));
  SetPermuted(id, 0, perm);
}

// The sizes of the permuted form, picked in the plain order.
void LayoutWalk::VisitShape(NodeId id, const Form& form) {
  const Node node = graph_.node(id);
  const int64_t rank = static_cast<int64_t>(form.perm.size());
  const auto bound = [&](int64_t v) { return std::clamp(v < 0 ? v + rank : v, int64_t{0}, rank); };
  const int64_t begin = bound(node.attrs.Int("start", 0)), end = bound(node.attrs.Int("end", rank));
  std::vector<int64_t> picks;
  for (int64_t axis = begin; axis < end; ++axis) picks.push_back(Inverse(form.perm)[axis]);
  const ValueId sizes = graph_.Apply("Shape", node.name + "_permuted", {form.value});
  const ValueId indices = AddInts(graph_, node.name + "_order", picks);
  ReplaceNode(graph_, id, "Gather", "", {sizes, indices}, Attrs::Of("axis", 0));
}

void LayoutWalk::VisitReshape(NodeId id, const Form& form) {
  const Node node = graph_.node(id);
  const ValueId x = node.input(0);
  const TensorType type = graph_.value(node.outputs[0]).type;
  if (FormOf(x) == nullptr || graph_.value(x).type.quantized() != type.quantized()) return;
  const auto moved = ReshapePermutation(ShapeOf(x), type.shape, form.perm);
  if (!moved) return;
  const Permutation gather = Compose(Inverse(form.perm), moved->gathered);
  const bool gathers = !MovesNothing(ShapeOf(form.value), gather);
  if (gathers && IsIdentity(moved->result)) return;  // the plain order is what the reshape wants
  const Shape& before = ShapeOf(form.value);
  const auto target = ReshapeTarget(gathers ? Permuted(before, gather) : before,
                                    Permuted(type.shape, moved->result));
  if (!target) return;
  const ValueId from = gathers ? AddTranspose(form.value, gather) : form.value;
  const ValueId shape = AddInts(graph_, node.name + "_shape", *target);
  const NodeId reshape = ReplaceNode(graph_, id, "Reshape", "", {from, shape});
  if (!IsIdentity(moved->result)) SetPermuted(reshape, 0, moved->result);
}

int CountTransposes(const Graph& graph) {
  int count = 0;
  for (NodeId id : graph.order()) {
    if (!IsOp(graph, id, "Transpose")) continue;
    const auto perm = PermutationOf(graph, graph.node(id));
    count += !perm || !MovesNothing(graph.value(graph.node(id).input(0)).type.shape, *perm);
  }
  return count;
}

}  // namespace evoq
