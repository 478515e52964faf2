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

namespace evoq {

// When a pass runs.
enum class Stage {
  kOptimize,  // on the graph as imported: float or quantized, ONNX's layout. What `evoq optimize`
              // writes.
  kLower,     // before compiling: channels-last, unsigned activations, ... What only the compiler
              // sees.
};

struct PassDef {
  const char* name;  // "fold-constants": what --disable and --stop-after call it
  const char* doc;   // one sentence
  Stage stage;
  // Rewrites the graph and returns how many places it changed. The driver sorts, removes dead
  // nodes, infers types and verifies afterwards.
  Result<int> (*run)(Graph& graph);
};

std::span<const PassDef* const> AllPasses();

struct PassOptions {
  std::vector<std::string> disable;  // glob patterns of pass names
  int stop_after = -1;               // run only the first N passes that change something; -1: all
  std::function<void(const PassDef&, int changes, const Graph&)>
      log;  // after each pass; may be null
};

// Runs one pass once; when it changed something, sorts, removes dead nodes, infers types and
// verifies. Errors: with the pass's name in front.
Result<int> RunPass(Graph& graph, const PassDef& pass);

// Runs the passes of one stage in order, repeating the list until nothing changes (at most 8
// times). Errors: of a pass or of verification, with the pass's name in front; kUsage for a
// --disable pattern that matches no pass.
Status RunPasses(Graph& graph, Stage stage, const PassOptions& options = {});

}  // namespace evoq
