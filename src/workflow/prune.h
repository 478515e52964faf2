// Pruning of a model's weights: ONNX to ONNX, or to an .etm of float32 weights.
#pragma once

#include <string>

#include "prune/prune.h"
#include "workflow/follow.h"
#include "workflow/told.h"

namespace evoq {

struct PruneJob {
  std::string model, output;  // .onnx
  PruneOptions options;
};

struct PrunedModel {
  std::string model, output;
  PruneReport report;
  PruneRows rows = {};
};

// Errors: kUsage for options that do not fit; kUnsupported for a pattern that fits no weight; those
// of import and files. Nothing is written then.
Result<PrunedModel> Prune(const PruneJob& job, const Follow& follow = {});
Told Tell(const PrunedModel& pruned);

}  // namespace evoq
