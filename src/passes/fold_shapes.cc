// Shape arithmetic with partly known sizes (ops/symbolic_sizes.h): a computed shape becomes a
// constant where all its elements are known, and a Reshape's target where at most one is not.
#include <algorithm>

#include "ops/symbolic_sizes.h"
#include "passes/match.h"

namespace evoq {
namespace {

class ShapeFolder {
 public:
  explicit ShapeFolder(Graph& graph) : graph_(graph), sizes_(graph) {}

  int Run() {
    int changes = 0;
    for (NodeId id : NodesOf(graph_)) {
      if (FixReshape(id)) ++changes;
      if (TileToExpand(id)) {
        ++changes;
        continue;
      }
      const ValueId out = graph_.node(id).outputs[0];
      sizes_.Learn(graph_.node(id));
      const auto elements = out.valid() ? sizes_.Of(out) : std::nullopt;
      if (elements && MakeConstant(out, *elements)) ++changes;
    }
    return changes;
  }

 private:
  bool MakeConstant(ValueId out, const SymbolicSizes::Elements& elements) {
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
    if (node.op != "Reshape") return false;
    const ValueId shape = node.input(1);
    if (graph_.value(shape).is_constant()) return false;
    const auto elements = sizes_.Of(shape);
    if (!elements) return false;
    const auto is_zero = [](const Dim& d) { return d.known() && d.value == 0; };
    const bool zero_is_a_size = node.attrs.Int("allowzero") != 0;
    if (zero_is_a_size && std::ranges::any_of(*elements, is_zero)) return false;
    const auto target = ReshapeTarget(graph_.value(node.input(0)).type.shape, Shape(*elements));
    if (!target) return false;
    const std::string name = graph_.value(shape).name;
    graph_.SetInput(id, 1, AddInts(graph_, name + "_known", *target));
    if (zero_is_a_size) graph_.attrs(id).Erase("allowzero");
    return true;
  }

  // Tile(x, computed repeats) -> Expand, which keeps sizes that it knows: where each axis has the
  // size 1 or is repeated once.
  bool TileToExpand(NodeId id) {
    if (!IsOp(graph_, id, "Tile")) return false;
    const Node node = graph_.node(id);
    const Shape& x = graph_.value(node.input(0)).type.shape;
    const auto repeats = sizes_.Of(node.input(1));
    if (graph_.value(node.input(1)).is_constant() || !repeats || !x.ranked() ||
        x.rank() != static_cast<int>(repeats->size()))
      return false;
    for (int i = 0; i < x.rank(); ++i) {
      if (x[i] != Dim(1) && (*repeats)[static_cast<size_t>(i)] != Dim(1)) return false;
    }
    ReplaceNode(graph_, id, "Expand", "", node.inputs);
    return true;
  }

  Graph& graph_;
  SymbolicSizes sizes_;
};

Result<int> Run(Graph& graph) { return ShapeFolder(graph).Run(); }

}  // namespace

extern const PassDef kFoldShapes = {
    .name = "fold-shapes",
    .doc =
        "Follows shape arithmetic with partly known sizes and turns computed shapes into "
        "constants.",
    .stage = Stage::kOptimize,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
