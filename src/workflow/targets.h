// What a model's outputs are to be, from files (docs/training.md), and how far they are from it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/inputs.h"
#include "graph/graph.h"

namespace evoq {

// Of one output: sums over its elements.
struct Deviation {
  int64_t elements = 0;
  double squared = 0, absolute = 0;  // of the differences
  double sum = 0, squares = 0;       // of the targets

  Deviation& operator+=(const Deviation& other);
  // Means over the elements; of no elements 0.
  double mse() const;
  double mae() const;
  // 1 - the squared differences / those of the targets from their mean, over all elements; nothing
  // where the targets are all alike.
  std::optional<double> r2() const;
};

// How targets are read: `options` as the data's, without its labels.
DatasetOptions TargetOptions(DatasetOptions options);
// `name`: an output. An index of an array's first axis is of a sample, or of a row of one.
InputSpec TargetSpec(const std::string& name);

class Targets {
 public:
  // `sources` as of OpenInputs, with the graph's outputs in place of inputs: one for each sample of
  // `data`, or for each of the `rows` that its samples have. Errors: those of OpenInputs;
  // kInvalidInput for another number of targets.
  static Result<Targets> Open(const std::vector<std::string>& sources, const Graph& graph,
                              const DatasetOptions& options, const Dataset& data, int64_t rows);

  // How far the outputs of sample `index` are from what they are to be, by output. Errors:
  // kInvalidInput for another number of elements.
  Result<std::vector<Deviation>> Of(int64_t index, const std::vector<Tensor>& outputs) const;

 private:
  std::unique_ptr<Dataset> data_;
  std::vector<std::string> names_;
  int64_t rows_ = 1;
};

}  // namespace evoq
