// The graph passes alone: ONNX to ONNX.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "workflow/deployment.h"
#include "workflow/follow.h"
#include "workflow/told.h"

namespace evoq {

// What a pass changed.
struct PassRun {
  std::string pass;
  int changes = 0;
  size_t nodes = 0;  // afterwards
};

struct OptimizeJob {
  std::string model, output;             // .onnx
  PassChoice passes;                     // which run
  std::optional<Deployment> deployment;  // what a file says of the model; passes add to its own
  bool merge_adapters = false;           // into the weights beside which they are (llm/adapter.h)
  int stop_after = -1;                   // so many passes that change something; negative: all
  std::function<void(const PassRun&)> log;  // hears of each that changed something; may be null
};

struct Optimized {
  std::string model, output;
  size_t nodes_before = 0, nodes_after = 0;
  std::vector<PassRun> passes;     // those that changed something
  std::vector<std::string> notes;  // of the deployment
};

Result<Optimized> Optimize(const OptimizeJob& job, const Follow& follow = {});
Told Tell(const Optimized& optimized);

}  // namespace evoq
