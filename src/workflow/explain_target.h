// What another runtime will make of a model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "foreign/forecasts/rule.h"
#include "workflow/follow.h"
#include "workflow/models.h"
#include "workflow/told.h"

namespace evoq {

struct TargetJob {
  std::string model, target;  // an .onnx; the name of a runtime (foreign/forecasts/runtime.h)
  bool fix = false;
  std::string output;             // of `fix`: the .onnx to write
  bool accept_changes = false;    // of `fix`: also make the repairs that change outputs
  std::vector<std::string> data;  // of `fix`: what outputs are compared on; random inputs if empty
  InputShapes shapes;             // sizes of those
  std::string preprocess;
};

struct TargetForecast {
  std::string model;
  Graph graph;  // as imported
  Examination before;
  struct Fixed {
    std::string output;
    Graph graph;
    Repairs repairs;
    Examination after;
    std::string compared_on;  // "4 random samples"; "": outputs were not compared
  };
  std::optional<Fixed> fixed;
};

// The forecast for the runtime; with `fix`, repairs the placement, compares the outputs before and
// after each rule's repairs by the reference evaluator, and writes what keeps the outputs, or is
// accepted, to `output`.
Result<TargetForecast> ExplainTarget(const TargetJob& job, const Follow& follow = {});
Told Tell(const TargetForecast& forecast);

}  // namespace evoq
