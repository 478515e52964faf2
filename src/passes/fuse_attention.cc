// Softmax(scale * q k' + mask) v on float32 becomes one Attention, where that pays: where keys come
// from a cache or are shared by groups of heads, where later keys are hidden, or where there are
// many.
#include <cmath>

#include "passes/match.h"
#include "passes/size_probe.h"

namespace evoq {
namespace {

constexpr int64_t kManyKeys = 1024;
constexpr int kMaxSteps = 16;  // between a product and its keys

bool HasRank4(const Graph& graph, ValueId value) {
  const Shape& shape = graph.value(value).type.shape;
  return IsPlainFloat(graph, value) && shape.ranked() && shape.rank() == 4;
}
const Dim& DimOf(const Graph& graph, ValueId value, int axis) {
  return graph.value(value).type.shape[axis];
}
bool IsSize(const Dim& dim, int64_t size) { return dim.known() && dim.value == size; }

// InnerNode with this many inputs.
NodeId Inner(const Graph& graph, ValueId value, std::string_view op, size_t inputs) {
  const NodeId id = InnerNode(graph, value, op);
  return id.valid() && graph.node(id).inputs.size() == inputs ? id : NodeId{};
}

// `value` as x times a number, by Mul or Div: the x; `factor` is multiplied. Else `value` itself.
ValueId Unscaled(const Graph& graph, ValueId value, float& factor) {
  for (const char* op : {"Mul", "Div"}) {
    const NodeId id = ProducedBy(graph, value, op);
    if (!id.valid() || HasActivation(graph.node(id))) continue;
    for (size_t i = 0; i < 2; ++i) {
      const ValueId x = graph.node(id).input(1 - i);
      const auto number = ScalarOf(graph, graph.node(id).input(i));
      if (!number || *number == 0 || (*op == 'D' && i == 0)) continue;
      if (!HasRank4(graph, x)) continue;  // a scalar of a higher rank adds dimensions
      factor = *op == 'D' ? factor / *number : factor * *number;
      return x;
    }
  }
  return value;
}

// ---- keys and values

// x where `value` repeats each of its heads `group` times in place, as grouped queries want it: a
// Gather of axis 1, or Unsqueeze, Expand and Reshape.
struct Repeated {
  ValueId x;
  int64_t group = 1;
};

std::optional<Repeated> GatheredHeads(const Graph& graph, ValueId value) {
  const NodeId gather = ProducedBy(graph, value, "Gather");
  if (!gather.valid() || graph.node(gather).attrs.Int("axis") != 1) return std::nullopt;
  const ValueId x = graph.node(gather).input(0);
  const auto heads = IntsOf(graph, graph.node(gather).input(1));
  if (!heads || heads->empty() || !HasRank4(graph, x) || !DimOf(graph, x, 1).known())
    return std::nullopt;
  const int64_t count = DimOf(graph, x, 1).value, all = static_cast<int64_t>(heads->size());
  if (count == 0 || all % count != 0) return std::nullopt;
  for (int64_t h = 0; h < all; ++h) {
    if ((*heads)[static_cast<size_t>(h)] != h / (all / count)) return std::nullopt;
  }
  return Repeated{x, all / count};
}

std::optional<Repeated> ExpandedHeads(const Graph& graph, ValueId value, SizeProbes& probes) {
  const NodeId reshape = ProducedBy(graph, value, "Reshape");
  if (!reshape.valid()) return std::nullopt;
  const ValueId wide = graph.node(reshape).input(0);
  const NodeId expand = ProducedBy(graph, wide, "Expand");
  const NodeId unsqueeze =
      expand.valid() ? ProducedBy(graph, graph.node(expand).input(0), "Unsqueeze") : NodeId{};
  // Passes write the Unsqueeze as a Reshape, too.
  const NodeId split = unsqueeze.valid() || !expand.valid()
                           ? unsqueeze
                           : ProducedBy(graph, graph.node(expand).input(0), "Reshape");
  if (!split.valid()) return std::nullopt;
  const ValueId x = graph.node(split).input(0), five = graph.node(expand).input(0);
  const Shape &narrow = graph.value(five).type.shape, &w = graph.value(wide).type.shape;
  if (!HasRank4(graph, x) || !HasRank4(graph, value) || !narrow.ranked() || narrow.rank() != 5 ||
      !w.ranked() || w.rank() != 5)
    return std::nullopt;
  const auto heads = probes.Size(x, 1), wide_heads = probes.Size(wide, 1),
             group = probes.Size(wide, 2), all = probes.Size(value, 1);
  if (!heads || !group || heads != wide_heads || all != *heads * *group ||
      probes.Size(five, 1) != heads || probes.Size(five, 2) != 1)
    return std::nullopt;
  for (const auto [at, wider] : {std::pair{0, 0}, {2, 3}, {3, 4}}) {
    if (!probes.Same(x, at, five, wider) || !probes.Same(x, at, wide, wider) ||
        !probes.Same(x, at, value, at))
      return std::nullopt;
  }
  return Repeated{x, *group};
}

// How a side of a product is made of keys or values [batch, key heads, length, size]: by `perm`,
// after each head was repeated, times `factor`.
struct Side {
  ValueId x;
  Permutation perm;
  int64_t group = 1;
  float factor = 1;
};

Side SideOf(const Graph& graph, ValueId value, Permutation perm, SizeProbes& probes) {
  Side side{value, std::move(perm)};
  for (int step = 0; step < kMaxSteps; ++step) {
    if (const ValueId x = Unscaled(graph, side.x, side.factor); x != side.x) {
      side.x = x;
      continue;
    }
    if (const NodeId transpose = ProducedBy(graph, side.x, "Transpose"); transpose.valid()) {
      const auto first = PermutationOf(graph, graph.node(transpose));
      if (!first || first->size() != 4) break;
      side.perm = Compose(*first, side.perm);
      side.x = graph.node(transpose).input(0);
      continue;
    }
    if (side.group > 1 || side.perm[1] != 1) break;
    auto repeated = GatheredHeads(graph, side.x);
    if (!repeated && IsIdentity(side.perm)) repeated = ExpandedHeads(graph, side.x, probes);
    if (!repeated || repeated->group == 1) break;
    side.x = repeated->x;
    side.group = repeated->group;
  }
  return side;
}

// The keys of a side as Attention wants them.
ValueId Laid(Graph& graph, const Side& side, const std::string& name) {
  if (IsIdentity(side.perm)) return side.x;
  Attrs attrs = Attrs::Of("perm", side.perm);
  const TensorType type = Permuted(graph.value(side.x).type, side.perm);
  return graph.Apply("Transpose", name, {side.x}, std::move(attrs), type);
}

// ---- scores

struct Scores {
  ValueId q, keys;  // the factors of the product
  float scale = 1;
  ValueId mask;  // added, or bools; invalid: none
  ValueId kept;  // bools of a Where whose hidden scores become `fill`
  bool keeps_true = true;
  float fill = 0;
};

std::optional<Scores> ScaledOf(const Graph& graph, ValueId value) {
  Scores scores;
  if (const ValueId x = Unscaled(graph, value, scores.scale); x != value) {
    if (!graph.OnlyUser(value).valid() || !graph.OnlyUser(x).valid()) return std::nullopt;
    value = x;
  }
  const NodeId product = Inner(graph, value, "MatMul", 2);
  if (!product.valid()) return std::nullopt;
  scores.q = graph.node(product).input(0);
  scores.keys = graph.node(product).input(1);
  if (!HasRank4(graph, scores.q) || !HasRank4(graph, scores.keys)) return std::nullopt;
  for (float factor = 1;;) {
    const ValueId q = Unscaled(graph, scores.q, factor);
    scores.scale *= std::exchange(factor, 1.0f);
    if (std::exchange(scores.q, q) == q) break;
  }
  return scores;
}

bool IsMask(const Graph& graph, ValueId mask, ValueId scores, SizeProbes& probes) {
  return !graph.value(mask).type.quantized() && probes.Masks(mask, scores);
}

std::optional<Scores> ScoresOf(const Graph& graph, ValueId value, SizeProbes& probes) {
  if (auto scores = ScaledOf(graph, value)) return scores;
  if (const NodeId sum = Inner(graph, value, "Add", 2); sum.valid()) {
    for (size_t i = 0; i < 2; ++i) {
      const ValueId mask = graph.node(sum).input(1 - i);
      auto scores = ScaledOf(graph, graph.node(sum).input(i));
      if (!scores || !IsPlainFloat(graph, mask) || !IsMask(graph, mask, value, probes)) continue;
      scores->mask = mask;
      return scores;
    }
  }
  const NodeId where = Inner(graph, value, "Where", 3);
  if (!where.valid()) return std::nullopt;
  const ValueId kept = graph.node(where).input(0);
  for (const size_t i : {1, 2}) {
    auto scores = ScaledOf(graph, graph.node(where).input(i));
    const auto fill = ScalarOf(graph, graph.node(where).input(3 - i));
    if (!scores || !fill || *fill > -1e4f || !IsMask(graph, kept, value, probes)) continue;
    scores->kept = kept;
    scores->keeps_true = i == 1;
    scores->fill = *fill;
    return scores;
  }
  return std::nullopt;
}

// The mask as an input of Attention: bools as they are where that says the same, else what is
// added.
ValueId MaskOf(Graph& graph, const Scores& scores, const std::string& name) {
  if (!scores.kept.valid()) return scores.mask;
  if (scores.keeps_true && std::isinf(scores.fill)) return scores.kept;
  const ValueId zero = AddFloat(graph, name + "_seen", 0.0f),
                fill = AddFloat(graph, name + "_hidden", scores.fill);
  return graph.Apply(
      "Where", name,
      {scores.kept, scores.keeps_true ? zero : fill, scores.keeps_true ? fill : zero}, {},
      TensorType(DType::kFloat32, graph.value(scores.kept).type.shape));
}

// Softmax over the keys; also where NaN (of rows that see no key) become 0.
NodeId SoftmaxOf(const Graph& graph, ValueId weights) {
  const auto softmax = [&](ValueId value) {
    const NodeId id = ProducedBy(graph, value, "Softmax");
    const int64_t axis = id.valid() ? graph.node(id).attrs.Int("axis", -1) : 0;
    return axis == -1 || axis == 3 ? id : NodeId{};
  };
  if (const NodeId plain = softmax(weights); plain.valid())
    return OnlyReader(graph, plain).valid() ? plain : NodeId{};
  const NodeId where = Inner(graph, weights, "Where", 3);
  if (!where.valid()) return {};
  const ValueId soft = graph.node(where).input(2);
  const NodeId is_nan = Inner(graph, graph.node(where).input(0), "IsNaN", 1);
  const bool guarded = is_nan.valid() && graph.node(is_nan).input(0) == soft &&
                       ScalarOf(graph, graph.node(where).input(1)) == 0.0f &&
                       graph.value(soft).users.size() == 2 && !graph.IsOutput(soft);
  return guarded ? softmax(soft) : NodeId{};
}

// ---- where it pays

// Whether keys were joined to those of an input, or written into them.
bool IsCache(const Graph& graph, ValueId keys) {
  for (const char* op : {"Concat", "TensorScatter"}) {
    const NodeId id = ProducedBy(graph, keys, op);
    if (id.valid() && graph.IsInput(graph.node(id).input(0))) return true;
  }
  return false;
}

// Bools the other way round.
Tensor Inverted(const Tensor& bools) {
  Tensor other = Tensor::Allocate(bools.type());
  for (int64_t i = 0; i < bools.elements(); ++i)
    other.mutable_data<bool>()[i] = !bools.data<bool>()[i];
  return other;
}

// Whether sizes alone say that queries see no later keys. `biased`: the scores' shape.
bool HidesLater(const Scores& scores, ValueId biased, SizeProbes& probes) {
  const ValueId mask = scores.kept.valid() ? scores.kept : scores.mask;
  if (!mask.valid()) return false;
  for (SizeProbe& probe : probes.all()) {
    auto value = probe.ValueOf(mask);
    if (!value) return false;
    if (scores.kept.valid() && !scores.keeps_true) value = Inverted(*value);
    const Shape shape = probe.type(biased).shape;
    const auto sight = SightOf(*value, shape[2].value, shape[3].value);
    if (!sight || !sight->causal) return false;
  }
  return !probes.all().empty();
}

bool Pays(const Graph& graph, const Scores& scores, const Side& keys, ValueId biased,
          SizeProbes& probes) {
  const Dim& length = DimOf(graph, biased, 3);
  return keys.group > 1 || IsCache(graph, keys.x) ||
         (length.known() && length.value >= kManyKeys) || HidesLater(scores, biased, probes);
}

bool SameSizes(ValueId q, const Side& keys, const Side& values, SizeProbes& probes) {
  const auto axis = [](const Side& side, int i) {
    return static_cast<int>(side.perm[static_cast<size_t>(i)]);
  };
  const auto heads = probes.Size(q, 1), key_heads = probes.Size(keys.x, axis(keys, 1)),
             value_heads = probes.Size(values.x, axis(values, 1));
  return keys.group == values.group && heads && key_heads && value_heads == key_heads &&
         *heads == *key_heads * keys.group && probes.Same(q, 0, keys.x, axis(keys, 0)) &&
         probes.Same(q, 0, values.x, axis(values, 0));
}

bool Fuse(Graph& graph, NodeId id, SizeProbes& probes) {
  const Node& node = graph.node(id);
  if (!IsOp(graph, id, "MatMul") || node.inputs.size() != 2 || HasActivation(node)) return false;
  const ValueId weights = node.input(0), held = node.input(1);
  if (!HasRank4(graph, weights) || !HasRank4(graph, held) || !IsPlainFloat(graph, node.outputs[0]))
    return false;
  const NodeId softmax = SoftmaxOf(graph, weights);
  if (!softmax.valid()) return false;
  const ValueId biased = graph.node(softmax).input(0);
  const auto scores = ScoresOf(graph, biased, probes);
  if (!scores) return false;
  const Side keys = SideOf(graph, scores->keys, {0, 1, 3, 2}, probes),
             values = SideOf(graph, held, {0, 1, 2, 3}, probes);
  if (values.factor != 1 || !SameSizes(scores->q, keys, values, probes) ||
      !Pays(graph, *scores, keys, biased, probes))
    return false;
  const std::string name = node.name;
  std::vector<ValueId> inputs = {scores->q, Laid(graph, keys, name + "_keys"),
                                 Laid(graph, values, name + "_values")};
  if (const ValueId mask = MaskOf(graph, *scores, name + "_mask"); mask.valid())
    inputs.push_back(mask);
  ReplaceNode(graph, id, "Attention", "", std::move(inputs),
              Attrs::Of("scale", scores->scale * keys.factor));
  return true;
}

Result<int> Run(Graph& graph) {
  SizeProbes probes(graph);
  return CountChanges(graph, [&](Graph& g, NodeId id) { return Fuse(g, id, probes); });
}

}  // namespace

extern const PassDef kFuseAttention = {
    .name = "fuse-attention",
    .doc =
        "Softmax(scale * q k' + mask) v in float32 becomes one Attention where keys are cached, "
        "shared by heads, hidden or many.",
    .stage = Stage::kLower,
    .level = 3,
    .run = Run,
};

}  // namespace evoq
