// The ways in which evoq computes a model; each must give what ONNX's conformance cases expect.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace evoq {

struct Mode {
  const char* name;  // as tests/conformance/ignore.txt has it
  const char* doc;
  // Outputs of an imported graph. `file` is a path that the mode may write to.
  Result<std::vector<Tensor>> (*run)(const Graph& graph, std::span<const Tensor> inputs,
                                     const std::string& file);
};

std::span<const Mode> AllModes();

}  // namespace evoq
