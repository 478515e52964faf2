// Shape arithmetic with partly known sizes: follows Shape, Gather, Slice, Concat, Cast, Squeeze,
// Unsqueeze and integer arithmetic element by element, so that a computed shape becomes a constant
// where all its elements are known, and a Reshape's target where at most one is not.
#include <algorithm>
#include <limits>
#include <map>

#include "passes/match.h"

namespace evoq {
namespace {

// The elements of a small integer value, as dimensions: a number, a symbol, or unknown (a Dim
// without symbol).
using Elements = std::vector<Dim>;
constexpr int64_t kMaxElements = 64;

class ShapeFolder {
 public:
  explicit ShapeFolder(Graph& graph) : graph_(graph) {}

  int Run() {
    int changes = 0;
    for (NodeId id : NodesOf(graph_)) {
      if (FixReshape(id)) ++changes;
      const Node& node = graph_.node(id);
      const ValueId out = node.outputs[0];
      const auto elements = Compute(node);
      if (!elements || !Holds(graph_.value(out).type, *elements)) continue;
      known_[out.index] = *elements;
      if (MakeConstant(out, *elements)) ++changes;
    }
    return changes;
  }

 private:
  std::optional<Elements> Of(ValueId value) {
    if (auto it = known_.find(value.index); it != known_.end()) return it->second;
    const auto ints = graph_.value(value).is_constant() ? IntsOf(graph_, value) : std::nullopt;
    if (!ints) return std::nullopt;
    Elements elements;
    for (int64_t v : *ints) elements.push_back(v < 0 ? Negative(v) : Dim(v));
    return elements;
  }
  // Dim cannot tell "-1" from "unknown": negative numbers are kept as unknown and only their
  // constants used.
  static Dim Negative(int64_t) { return Dim(); }

  std::optional<Elements> Compute(const Node& node) {
    if (node.op == "Shape") return OfShape(node);
    if (node.op == "Cast" || node.op == "Identity" || node.op == "Squeeze" ||
        node.op == "Unsqueeze" || node.op == "Reshape")
      return Of(node.input(0));
    if (node.op == "Concat") return Concat(node);
    if (node.op == "Gather") return Gather(node);
    if (node.op == "Slice") return Slice(node);
    if (node.op == "Add" || node.op == "Sub" || node.op == "Mul" || node.op == "Div")
      return Arithmetic(node);
    return std::nullopt;
  }

  // Whether the elements are a value of the type: as many (a broadcast may make more), and no
  // number that would wrap.
  static bool Holds(const TensorType& type, const Elements& elements) {
    const auto count = static_cast<int64_t>(elements.size());
    if (count > kMaxElements || type.shape.elements() != count) return false;
    return type.dtype == DType::kInt64 ||
           (type.dtype == DType::kInt32 &&
            std::all_of(elements.begin(), elements.end(), [](const Dim& d) {
              return d.value <= std::numeric_limits<int32_t>::max();
            }));
  }

  std::optional<Elements> OfShape(const Node& node) {
    const Shape& shape = graph_.value(node.input(0)).type.shape;
    if (!shape.ranked()) return std::nullopt;
    const int64_t rank = shape.rank();
    const auto bound = [&](int64_t v) {
      return std::clamp(v < 0 ? v + rank : v, int64_t{0}, rank);
    };
    const int64_t begin = bound(node.attrs.Int("start", 0)),
                  end = bound(node.attrs.Int("end", rank));
    if (begin >= end) return Elements{};
    return Elements(shape.dims().begin() + begin, shape.dims().begin() + end);
  }

  std::optional<Elements> Concat(const Node& node) {
    Elements all;
    for (ValueId in : node.inputs) {
      const auto part = Of(in);
      if (!part || graph_.value(in).type.shape.rank() != 1) return std::nullopt;
      all.insert(all.end(), part->begin(), part->end());
    }
    return all;
  }

  std::optional<Elements> Gather(const Node& node) {
    const auto data = Of(node.input(0));
    const auto indices = IntsOf(graph_, node.input(1));
    if (!data || !indices || graph_.value(node.input(0)).type.shape.rank() != 1)
      return std::nullopt;
    const int64_t size = static_cast<int64_t>(data->size());
    Elements picked;
    for (int64_t i : *indices) {
      if (i < -size || i >= size) return std::nullopt;
      picked.push_back((*data)[i < 0 ? i + size : i]);
    }
    return picked;
  }

  // By steps of 1: others make another number of elements.
  std::optional<Elements> Slice(const Node& node) {
    const auto data = Of(node.input(0));
    const auto starts = IntsOf(graph_, node.input(1)), ends = IntsOf(graph_, node.input(2));
    if (!data || !starts || !ends || starts->size() != 1 ||
        graph_.value(node.input(0)).type.shape.rank() != 1)
      return std::nullopt;
    const int64_t size = static_cast<int64_t>(data->size());
    const auto bound = [&](int64_t v) {
      return std::clamp(v < 0 ? std::max(v, -size) + size : v, int64_t{0}, size);
    };
    const int64_t begin = bound((*starts)[0]), end = std::max(begin, bound((*ends)[0]));
    return Elements(data->begin() + begin, data->begin() + end);
  }

  std::optional<Elements> Arithmetic(const Node& node) {
    const auto a = Of(node.input(0)), b = Of(node.input(1));
    if (!a || !b) return std::nullopt;
    if (a->size() != b->size() && a->size() != 1 && b->size() != 1) return std::nullopt;
    Elements out;
    const size_t count = a->size() == 1 ? b->size() : a->size();  // one element goes with none, too
    for (size_t i = 0; i < count; ++i) {
      const Dim &x = (*a)[a->size() == 1 ? 0 : i], &y = (*b)[b->size() == 1 ? 0 : i];
      out.push_back(x.known() && y.known() ? Combine(node.op, x.value, y.value) : Dim());
    }
    return out;
  }

  static Dim Combine(const std::string& op, int64_t x, int64_t y) {
    int64_t r = -1;
    if (op == "Add" && __builtin_add_overflow(x, y, &r)) return Dim();
    if (op == "Mul" && __builtin_mul_overflow(x, y, &r)) return Dim();
    if (op == "Sub") r = x - y;
    if (op == "Div" && y > 0) r = x / y;
    return r < 0 ? Dim() : Dim(r);
  }

  bool MakeConstant(ValueId out, const Elements& elements) {
    const TensorType& type = graph_.value(out).type;
    const bool known =
        std::all_of(elements.begin(), elements.end(), [](const Dim& d) { return d.known(); });
    if (!known || graph_.IsOutput(out)) return false;
    Tensor tensor = Tensor::Allocate(type);
    for (size_t i = 0; i < elements.size(); ++i) {
      if (type.dtype == DType::kInt64) tensor.mutable_data<int64_t>()[i] = elements[i].value;
      if (type.dtype == DType::kInt32)
        tensor.mutable_data<int32_t>()[i] = static_cast<int32_t>(elements[i].value);
    }
    graph_.RemoveNode(graph_.value(out).producer);
    graph_.SetConstant(out, std::move(tensor));
    return true;
  }

  // Reshape(x, computed shape) -> Reshape(x, constant): an element that is x's own dimension at the
  // same place is 0, one other unknown is -1. A -1 written in the model comes as an unknown element
  // and is the one -1.
  bool FixReshape(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.op != "Reshape" || node.attrs.Int("allowzero") != 0) return false;
    const ValueId shape = node.input(1);
    if (graph_.value(shape).is_constant()) return false;
    const auto elements = Of(shape);
    if (!elements) return false;
    const auto target = ReshapeTarget(graph_.value(node.input(0)).type.shape, Shape(*elements));
    if (!target) return false;
    const std::string name = graph_.value(shape).name;
    graph_.SetInput(id, 1, AddInts(graph_, name + "_known", *target));
    return true;
  }

  Graph& graph_;
  std::map<int32_t, Elements> known_;
};

Result<int> Run(Graph& graph) { return ShapeFolder(graph).Run(); }

}  // namespace

extern const PassDef kFoldShapes = {
    .name = "fold-shapes",
    .doc =
        "Follows shape arithmetic with partly known sizes and turns computed shapes into "
        "constants.",
    .stage = Stage::kOptimize,
    .run = Run,
};

}  // namespace evoq
