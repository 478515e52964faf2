// Graph rewrites: one row (PassDef) in its own file, named by one line in passes/passes.inc, run in
// that order.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "passes/choice.h"

namespace evoq {

// When a pass runs.
enum class Stage {
  kOptimize,  // on the graph as imported: float or quantized, ONNX's layout. What `evoq optimize`
              // writes.
  kLower,     // before compiling: channels-last, unsigned activations, ... What only the compiler
              // sees.
};

struct PassDef {
  const char* name;  // "fold-constants": what --disable and --log-passes call it
  const char* doc;   // one sentence
  Stage stage;
  // The least --opt-level at which it runs. 0: makes forms that kernels take, or finds sizes; 1:
  // leaves out what need not be computed, to the same bits; 2: fuses operators; 3: forms of whole
  // blocks, as attention.
  int level;
  // Rewrites the graph and returns how many places it changed. The driver sorts, removes dead
  // nodes, infers types and verifies afterwards.
  Result<int> (*run)(Graph& graph);
};

std::span<const PassDef* const> AllPasses();

struct PassOptions {
  int stop_after = -1;  // run only the first N passes that change something; -1: all
  std::function<void(const PassDef&, int changes, const Graph&)>
      log;  // after each pass; may be null
};

// Runs one pass once, on all nodes but those that `held` names; when it changed something, sorts,
// removes dead nodes, infers types and verifies. Errors: with the pass's name in front.
Result<int> RunPass(Graph& graph, const PassDef& pass, std::span<const Disabled> held = {});

// Runs the passes of one stage that the graph's choice (passes/choice.h) leaves, in order,
// repeating the list until nothing changes (at most 8 times). Errors: of a pass or of verification,
// with the pass's name in front; those of ChosenPasses.
Status RunPasses(Graph& graph, Stage stage, const PassOptions& options = {});

}  // namespace evoq
