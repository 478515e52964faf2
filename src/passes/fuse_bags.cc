// Sums of rows of a table by bags of indices, as EmbeddingBag is exported: a Loop that cuts a piece
// of the indices in each round, at bounds that constants name, looks its rows up and sums them.
#include "ops/control.h"
#include "passes/match.h"

namespace evoq {
namespace {

constexpr size_t kOwnInputs = 2;  // of a Loop: how many rounds at most, and whether to begin
constexpr int64_t kMostPlaces =
    1 << 22;  // that are written out: files may name more than there are

// What the body of a Loop does in each round, in its values: y = reduce(rows of `table` at
// indices[begin of the round, end of the round)).
struct Bag {
  NodeId reduce;
  ValueId table, indices, begin, end;
};

// Through what changes no element.
ValueId Through(const Graph& graph, ValueId value) {
  while (graph.value(value).producer.valid()) {
    const Node& node = graph.node(graph.value(value).producer);
    if (!OpOf(node).view) break;
    value = node.input(0);
  }
  return value;
}

bool IsInts(const Graph& graph, ValueId value, int64_t only) {
  const auto ints = value.valid() ? IntsOf(graph, value) : std::nullopt;
  return ints == std::vector<int64_t>{only};
}

bool IsTrue(const Tensor& t) {
  return t.dtype() == DType::kBool && t.elements() == 1 && t.data<bool>()[0];
}

// Whether every round asks for another one.
bool GoesOn(const Graph& body) {
  ValueId condition = body.outputs()[0];
  while (body.value(condition).producer.valid()) {
    const Node& node = body.node(body.value(condition).producer);
    if (!OpOf(node).view && node.op != "Cast") return false;
    condition = node.input(0);
  }
  if (condition == body.inputs()[1]) return true;
  return body.value(condition).is_constant() && IsTrue(body.value(condition).constant);
}

std::optional<Bag> BagOf(const Graph& body) {
  const NodeId reduce = body.value(body.outputs()[1]).producer;
  if (!reduce.valid()) return std::nullopt;
  const Node& sum = body.node(reduce);
  if (OpOf(sum).axes != AxisUse::kInputReduced || sum.attrs.Int("keepdims", 1) != 0 ||
      !IsInts(body, sum.input(1), 0))
    return std::nullopt;
  const NodeId gather = ProducedBy(body, sum.input(0), "Gather");
  if (!gather.valid() || body.node(gather).attrs.Int("axis", 0) != 0) return std::nullopt;
  const NodeId slice = ProducedBy(body, body.node(gather).input(1), "Slice");
  if (!slice.valid()) return std::nullopt;
  const Node& cut = body.node(slice);
  const auto is_or_absent = [&](size_t i, int64_t only) {
    return !cut.input(i).valid() || IsInts(body, cut.input(i), only);
  };
  if (!is_or_absent(3, 0) || !is_or_absent(4, 1)) return std::nullopt;
  return Bag{reduce, body.node(gather).input(0), cut.input(0), cut.input(1), cut.input(2)};
}

class Loop {
 public:
  Loop(Graph& graph, const Node& node) : graph_(graph), node_(node), body_(*node.bodies[0]) {}

  // The value of the graph that a value of the body is in every round; invalid where none is.
  ValueId Outside(ValueId inner) const {
    const std::vector<ValueId>& inputs = body_.inputs();
    const auto at = std::find(inputs.begin(), inputs.end(), inner);
    const auto i = static_cast<size_t>(at - inputs.begin());
    return at == inputs.end() || i < kOwnInputs ? ValueId() : node_.inputs[i];
  }

  // What a bound is in each of `rounds`: the constant's element of the round.
  std::optional<std::vector<int64_t>> BoundsOf(ValueId bound, int64_t rounds) const {
    const NodeId gather = ProducedBy(body_, Through(body_, bound), "Gather");
    if (!gather.valid() || body_.node(gather).attrs.Int("axis", 0) != 0 ||
        Through(body_, body_.node(gather).input(1)) != body_.inputs()[0])
      return std::nullopt;
    const ValueId inner = body_.node(gather).input(0), outer = Outside(inner);
    auto bounds = outer.valid() ? IntsOf(graph_, outer) : IntsOf(body_, inner);
    if (!bounds || static_cast<int64_t>(bounds->size()) < rounds) return std::nullopt;
    bounds->resize(static_cast<size_t>(rounds));
    return bounds;
  }

  // Bags of one size, within the indices: the places of all, bag by bag.
  std::optional<std::vector<int64_t>> PlacesOf(const Bag& bag, int64_t rounds) const {
    const auto begins = BoundsOf(bag.begin, rounds), ends = BoundsOf(bag.end, rounds);
    const ValueId indices = Outside(bag.indices);
    if (!begins || !ends || !indices.valid()) return std::nullopt;
    const Shape& shape = graph_.value(indices).type.shape;
    if (!shape.ranked() || shape.rank() != 1 || !shape[0].known()) return std::nullopt;
    std::vector<int64_t> places;
    const int64_t size = (*begins)[0] < 0 ? 0 : (*ends)[0] - (*begins)[0];
    if (size <= 0 || size > kMostPlaces / rounds) return std::nullopt;
    for (size_t i = 0; i < begins->size(); ++i) {
      const int64_t begin = (*begins)[i];
      if (begin < 0 || begin > shape[0].value - size || (*ends)[i] != begin + size)
        return std::nullopt;
      for (int64_t k = 0; k < size; ++k) places.push_back(begin + k);
    }
    return places;
  }

  bool Fuse(NodeId id) {
    const auto rounds = IntsOf(graph_, node_.input(0));
    const Tensor* begins = node_.input(1).valid() ? graph_.ConstantInput(node_, 1) : nullptr;
    const bool begin = !node_.input(1).valid() || (begins != nullptr && IsTrue(*begins));
    if (!rounds || rounds->size() != 1 || (*rounds)[0] <= 0 || !begin || !GoesOn(body_))
      return false;
    const auto bag = BagOf(body_);
    const auto places = bag ? PlacesOf(*bag, (*rounds)[0]) : std::nullopt;
    if (!places) return false;
    ValueId table = Outside(bag->table);
    if (!table.valid() && body_.value(bag->table).is_constant())
      table = graph_.AddConstant(body_.value(bag->table).name, body_.value(bag->table).constant);
    if (!table.valid()) return false;
    const std::vector<int64_t> bags = {(*rounds)[0],
                                       static_cast<int64_t>(places->size()) / (*rounds)[0]};
    const ValueId rows = graph_.Apply("Gather", node_.name + "/rows",
                                      {table, IndicesOf(Outside(bag->indices), *places, bags)});
    const Node& sum = body_.node(bag->reduce);
    ReplaceNode(graph_, id, sum.op, "", {rows, AddInts(graph_, node_.name + "/axis", {1})},
                sum.attrs);
    return true;
  }

 private:
  // The indices bag by bag: as they lie, where the bags are all of them in order.
  ValueId IndicesOf(ValueId indices, const std::vector<int64_t>& places,
                    const std::vector<int64_t>& bags) {
    const std::string name = node_.name + "/indices";
    bool in_order =
        static_cast<int64_t>(places.size()) == graph_.value(indices).type.shape[0].value;
    for (size_t i = 0; i < places.size(); ++i) in_order &= places[i] == static_cast<int64_t>(i);
    if (in_order)
      return graph_.Apply("Reshape", name, {indices, AddInts(graph_, name + "_to", bags)});
    const ValueId at = graph_.AddConstant(
        name + "_at", Tensor::FromValues(Shape{bags[0], bags[1]}, std::vector<int64_t>(places)));
    return graph_.Apply("Gather", name, {indices, at});
  }

  Graph& graph_;
  const Node node_;
  const Graph& body_;
};

bool Rewrite(Graph& graph, NodeId id) {
  if (!IsOp(graph, id, "Loop")) return false;
  const auto sizes = LoopSizesOf(graph.node(id));
  if (!sizes || sizes->states != 0 || sizes->rows != 1) return false;
  return Loop(graph, graph.node(id)).Fuse(id);
}

Result<int> Run(Graph& graph) { return CountChanges(graph, Rewrite); }

}  // namespace

extern const PassDef kFuseBags;
const PassDef kFuseBags = {
    .name = "fuse-bags",
    .doc =
        "A Loop that sums the rows of a bag of indices in each round becomes one Gather and one "
        "sum, where all bags have one size.",
    .stage = Stage::kOptimize,
    .level = 2,
    .run = Run,
};

}  // namespace evoq
