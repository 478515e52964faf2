#include "passes/pass.h"

#include "base/budget_scope.h"
#include "base/text.h"
#include "ops/driver.h"
#include "ops/held.h"
#include "reference/reference.h"

namespace evoq {

#define EVOQ_ROW_TYPE PassDef
#define EVOQ_ROW_FILE "passes/passes.inc"
#include "base/rows.inl.h"

namespace {

// The list repeats until nothing changes; a pass that never settles is cut off here.
constexpr int kMaxRounds = 8;

// A pass that runs, and the nodes that it leaves alone.
struct Chosen {
  const PassDef* pass;
  std::vector<Disabled> held;
};

Result<std::vector<Chosen>> ChosenOf(const Graph& graph, Stage stage) {
  EVOQ_ASSIGN(const PassChoice choice, ChosenPasses(graph));
  std::vector<Disabled> all;
  for (const std::string& text : choice.disable) all.push_back(ParseDisabled(text));
  std::vector<Chosen> chosen;
  for (const PassDef* pass : AllPasses()) {
    bool runs = pass->stage == stage && (choice.opt_level < 0 || pass->level <= choice.opt_level);
    std::vector<Disabled> held;
    for (const Disabled& disabled : all) {
      if (!GlobMatch(disabled.pass, pass->name)) continue;
      runs = runs && !disabled.everywhere();
      held.push_back(disabled);
    }
    if (runs) chosen.push_back({pass, std::move(held)});
  }
  return chosen;
}

void HoldNodes(Graph& graph, std::span<const Disabled> held) {
  for (const NodeId id : graph.order()) {
    for (const Disabled& disabled : held) {
      if (!Matches(disabled, graph.node(id))) continue;
      Hold(graph, id);
      break;
    }
  }
}

Status CleanUp(Graph& graph) {
  EVOQ_TRY(graph.Sort());
  graph.RemoveDeadNodes();
  EVOQ_TRY(InferTypes(graph));
  return graph.Verify();
}

}  // namespace

std::span<const PassDef* const> AllPasses() { return kAllRows; }

Result<int> RunPass(Graph& graph, const PassDef& pass, std::span<const Disabled> held) {
  const std::string context = fmt::format("pass {}", pass.name);
  if (!held.empty()) HoldNodes(graph, held);
  auto changes = WithContext(pass.run(graph), context);
  if (!held.empty()) Release(graph);
  if (changes && *changes > 0) EVOQ_TRY(WithContext(CleanUp(graph), context));
  return changes;
}

Status RunPasses(Graph& graph, Stage stage, const PassOptions& options) {
  EVOQ_ASSIGN(const std::vector<Chosen> chosen, ChosenOf(graph, stage));
  const BudgetScope budget(Budget::ForFile(GraphBytes(graph)));
  EVOQ_TRY(WithContext(CleanUp(graph), "before the passes"));
  int done = 0;
  for (int round = 0; round < kMaxRounds; ++round) {
    int total = 0;
    for (const Chosen& row : chosen) {
      if (options.stop_after >= 0 && done >= options.stop_after) return {};
      EVOQ_ASSIGN(const int changes, RunPass(graph, *row.pass, row.held));
      if (options.log) options.log(*row.pass, changes, graph);
      total += changes;
      done += changes > 0;
    }
    if (total == 0) break;
  }
  return {};
}

}  // namespace evoq
