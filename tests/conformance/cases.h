// The cases of the ONNX project: a folder each, with model.onnx and
// test_data_set_K/{input,output}_N.pb.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace evoq {

// The names of all cases below `root` ("node/test_abs", ...), sorted.
std::vector<std::string> CaseNames(const std::string& root);

struct DataSet {
  std::vector<Tensor> inputs, outputs;
};

struct Case {
  Graph graph;  // as imported
  std::vector<DataSet> data;
};

// Errors: what the importer says; kInvalidInput where data and model disagree.
Result<Case> ReadCase(const std::string& folder);

// Equal types and shapes; floats agree within 1e-6 + 1e-3 * |expected|, everything else exactly.
// Errors: kInvalidInput with the first difference.
Status CompareOutputs(std::span<const Tensor> got, std::span<const Tensor> wanted);

// Equal types and shapes: what can be asked of random values.
Status CompareTypes(std::span<const Tensor> got, std::span<const Tensor> wanted);

}  // namespace evoq
