// `explain --target`: what another runtime will make of a model.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace evoq {

struct TargetJob {
  std::string model, target;
  bool fix = false;
  std::string output;                     // of --fix: the .onnx to write
  bool accept_changes = false;            // of --fix: also make the repairs that change outputs
  std::vector<std::string> data, shapes;  // of --fix: what outputs are compared on, random inputs
                                          // where it is empty; sizes of those
  std::string preprocess;
};

// Prints the forecast for the runtime of that name; with `fix`, repairs the placement, compares the
// outputs before and after each rule's repairs by the reference evaluator, and writes what keeps
// the outputs, or is accepted, to `output`.
Result<nlohmann::json> ExplainTarget(const TargetJob& job);

}  // namespace evoq
