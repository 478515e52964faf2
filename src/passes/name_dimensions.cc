#include "passes/match.h"

namespace evoq {
namespace {

Result<int> Run(Graph& graph) {
  int changes = 0;
  for (ValueId in : std::vector<ValueId>(graph.inputs())) {
    TensorType type = graph.value(in).type;
    if (!type.shape.ranked()) continue;
    for (int i = 0; i < type.shape.rank(); ++i) {
      if (type.shape[i].known() || !type.shape[i].symbol.empty()) continue;
      type.shape[i] = Dim::Symbolic(fmt::format("{}.{}", graph.value(in).name, i));
      ++changes;
    }
    graph.SetType(in, std::move(type));
  }
  return changes;
}

}  // namespace

extern const PassDef kNameDimensions = {
    .name = "name-dimensions",
    .doc =
        "Gives unnamed sizes of the graph's inputs a name, so that equal shapes are known to be "
        "equal.",
    .stage = Stage::kOptimize,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
