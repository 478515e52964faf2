// The ONNX project's conformance cases, run in any mode: by definition, optimized, compiled, from a file.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace evoq {

// Computes a graph's outputs in the mode under test. Inputs fit the graph's input types; symbolic dimensions are unbound.
using ConformanceRun = std::function<Result<std::vector<Tensor>>(const Graph& graph, std::span<const Tensor> inputs)>;

struct ConformanceReport {
  int passed = 0;
  int listed = 0;                     // failed, as the list says
  std::vector<std::string> problems;  // a case that fails and is not listed, one that is listed and passes, a line of no use
  std::string ToString() const;       // counts and problems
};

// Runs every case of `data`/onnx-backend-tests/{node,simple,pytorch-converted,pytorch-operator}: a folder with model.onnx and
// test_data_set_K/{input,output}_N.pb. Floats agree within 1e-5 + 1e-3 * |expected|, everything else exactly.
// `list` is a text file of cases that do not pass in this mode: "pattern: reason" per line, '#' starts a comment. A pattern
// (GlobMatch) names cases as "node/test_abs"; "pattern !exception" leaves out those that match the second pattern.
// The environment variable EVOQ_CASE, a pattern, selects cases and prints each one's result.
// Errors: the list cannot be read.
Result<ConformanceReport> RunConformance(const std::string& data, const std::string& list, const ConformanceRun& run);

}  // namespace evoq
