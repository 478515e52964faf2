#include "passes/pass.h"

#include "base/budget_scope.h"
#include "base/text.h"
#include "ops/driver.h"
#include "reference/reference.h"

namespace evoq {

#define EVOQ_ROW_TYPE PassDef
#define EVOQ_ROW_FILE "passes/passes.inc"
#include "base/rows.inl.h"

namespace {

// The list repeats until nothing changes; a pass that never settles is cut off here.
constexpr int kMaxRounds = 8;

Status CheckPatterns(const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    bool matches = false;
    for (const PassDef* pass : AllPasses()) matches |= GlobMatch(pattern, pass->name);
    if (!matches) return Fail(ErrorCode::kUsage, "--disable '{}' matches no pass", pattern);
  }
  return {};
}

bool Disabled(const PassDef& pass, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    if (GlobMatch(pattern, pass.name)) return true;
  }
  return false;
}

Status CleanUp(Graph& graph) {
  EVOQ_TRY(graph.Sort());
  graph.RemoveDeadNodes();
  EVOQ_TRY(InferTypes(graph));
  return graph.Verify();
}

}  // namespace

std::span<const PassDef* const> AllPasses() { return kAllRows; }

Result<int> RunPass(Graph& graph, const PassDef& pass) {
  const std::string context = fmt::format("pass {}", pass.name);
  auto changes = WithContext(pass.run(graph), context);
  if (changes && *changes > 0) EVOQ_TRY(WithContext(CleanUp(graph), context));
  return changes;
}

Status RunPasses(Graph& graph, Stage stage, const PassOptions& options) {
  EVOQ_TRY(CheckPatterns(options.disable));
  const BudgetScope budget(Budget::ForFile(GraphBytes(graph)));
  EVOQ_TRY(WithContext(CleanUp(graph), "before the passes"));
  int done = 0;
  for (int round = 0; round < kMaxRounds; ++round) {
    int total = 0;
    for (const PassDef* pass : AllPasses()) {
      if (pass->stage != stage || Disabled(*pass, options.disable)) continue;
      if (options.stop_after >= 0 && done >= options.stop_after) return {};
      EVOQ_ASSIGN(const int changes, RunPass(graph, *pass));
      if (options.log) options.log(*pass, changes, graph);
      total += changes;
      done += changes > 0;
    }
    if (total == 0) break;
  }
  return {};
}

}  // namespace evoq
