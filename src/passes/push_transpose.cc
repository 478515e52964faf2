#include "passes/layout.h"

namespace evoq {
namespace {

// Pushes on a copy and keeps it when Transposes met and vanished.
Result<int> Run(Graph& graph) {
  const int before = CountTransposes(graph);
  if (before < 2) return 0;
  Graph pushed = graph;
  LayoutWalk(pushed, /*channels_last=*/false).Run();
  EVOQ_TRY(pushed.Sort());
  pushed.RemoveDeadNodes();
  const int after = CountTransposes(pushed);
  if (after >= before) return 0;
  graph = std::move(pushed);
  return before - after;
}

}  // namespace

extern const PassDef kPushTranspose = {
    .name = "push-transpose",
    .doc =
        "Pushes Transposes down through operators that do not care about the order of axes, where "
        "that makes some of them vanish.",
    .stage = Stage::kOptimize,
    .level = 1,
    .run = Run,
};

}  // namespace evoq
