// The samples that accuracy is measured on, kept in memory.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "program/model.h"

namespace evoq {

struct Samples {
  std::vector<std::vector<Tensor>> inputs;     // by sample, by input of the model
  std::vector<std::optional<int64_t>> labels;  // by sample, or by sample and row
  int64_t rows = 1;    // of a sample, of a model whose first size is fixed above 1
  int64_t random = 0;  // that many were made by RandomInputs, not read

  // Of a language model: a sample is a window of a text, and this is what follows each of its
  // tokens, by sample.
  std::vector<std::vector<int64_t>> next;
  // The runs that its speed is measured on, the one that a search minimizes first: inputs of each
  // by phase (llm/phase.h). Empty: what the shapes say.
  struct TimedRun {
    std::string phase;
    std::vector<Tensor> inputs;
  };
  std::vector<TimedRun> timed;

  int64_t size() const { return static_cast<int64_t>(inputs.size()); }
  int64_t labelled() const;
  // Adds the inputs and labels of a sample of as many rows as the others have.
  void Add(Sample sample);
  std::span<const std::optional<int64_t>> labels_of(size_t sample) const;
  // CRC-32C of all inputs and labels: whether two measurements saw the same.
  uint32_t Crc() const;
};

// At most `limit` samples (0: all) of a data set, evenly spread, and no more than fit 1 GiB.
Result<Samples> LoadSamples(const Dataset& data, int64_t limit);

// Windows of `window` tokens of a text, one after the other (at most `limit`; 0: all) and no more
// than fit 1 GiB, for a model with caches (llm/phase.h), which sees each without what came before;
// and a run of each phase to measure speed on. Errors: kUsage for fewer than two tokens, a window
// that the model does not hold and a graph of another kind.
Result<Samples> TextWindows(const Graph& graph, std::span<const int64_t> tokens, int64_t window,
                            int64_t limit);
// What is measured of a language model's speed: each phase, decode first. Nothing for other graphs.
Result<std::vector<Samples::TimedRun>> TimedRuns(const Graph& graph);

// Uniform noise in the natural range of each input's type, the same on every machine, in the sizes
// that BindShapes gives for `shapes`. Errors: those of BindShapes; kUsage for an input that is no
// tensor of numbers, and for several samples of more than 1 GiB together.
Result<Samples> RandomInputs(const Graph& graph, const InputShapes& shapes, int64_t count);

}  // namespace evoq
