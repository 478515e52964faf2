#include "passes/layout.h"

namespace evoq {
namespace {

// Later rounds, with nothing left to convert, may still push Transposes together.
Result<int> Run(Graph& graph) {
  Graph lowered = graph;
  const int converted = LayoutWalk(lowered, /*channels_last=*/true).Run();
  EVOQ_TRY(lowered.Sort());
  lowered.RemoveDeadNodes();
  const int vanished = CountTransposes(graph) - CountTransposes(lowered);
  if (converted == 0 && vanished <= 0) return 0;
  graph = std::move(lowered);
  return converted > 0 ? converted : vanished;
}

}  // namespace

extern const PassDef kChannelsLast = {
    .name = "channels-last",
    .doc =
        "Spatial operators take channels_last=1; Transposes are pushed through everything between "
        "them to the graph's borders.",
    .stage = Stage::kLower,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
