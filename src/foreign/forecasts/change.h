// What a change of a graph does to its outputs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace evoq {

// The outputs of a graph on some samples: by sample, by output.
using SampleOutputs = std::vector<std::vector<Tensor>>;

// Of one output, over all samples: y before, z after.
struct OutputChange {
  std::string output;  // its name
  // 10 log10(sum y^2 / sum (y - z)^2): infinite where nothing differs, minus infinity where all y
  // are 0 and where max_difference is infinite.
  double snr_db = 0;
  // Largest |y - z|: infinite where one of them is NaN or infinite and the other is not the same,
  // and where shapes or types differ.
  double max_difference = 0;
  double largest = 0;  // largest finite |y|

  // No more than float32 rounding: max_difference <= 1e-5 * largest.
  bool exact() const { return max_difference <= 1e-5 * largest; }
};

// One for each output, in the graph's order, whatever their types.
std::vector<OutputChange> CompareOutputs(const Graph& graph, const SampleOutputs& before,
                                         const SampleOutputs& after);

// The one with the least signal to noise among those that are not exact, or the first; nullptr of
// none.
const OutputChange* Worst(std::span<const OutputChange> changes);

}  // namespace evoq
