// The samples that accuracy is measured on, kept in memory.
#pragma once

#include <optional>
#include <vector>

#include "data/dataset.h"
#include "program/model.h"

namespace evoq {

struct Samples {
  std::vector<std::vector<Tensor>> inputs;  // by sample, by input of the model
  std::vector<std::optional<int64_t>> labels;
  int64_t random = 0;  // that many were made by RandomInputs, not read

  int64_t size() const { return static_cast<int64_t>(inputs.size()); }
  int64_t labelled() const;
  // CRC-32C of all inputs and labels: whether two measurements saw the same.
  uint32_t Crc() const;
};

// At most `limit` samples (0: all) of a data set, evenly spread, and no more than fit 1 GiB.
Result<Samples> LoadSamples(const Dataset& data, int64_t limit);

// Uniform noise in the natural range of each input's type, the same on every machine, in the sizes
// that BindShapes gives for `shapes`. Errors: those of BindShapes; kUsage for an input that is no
// tensor of numbers, and for several samples of more than 1 GiB together.
Result<Samples> RandomInputs(const Graph& graph, const InputShapes& shapes, int64_t count);

}  // namespace evoq
