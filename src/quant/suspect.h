// Calibration data that cannot have been meant: the rules of docs/calibration.md, "Warnings",
// exactly.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "quant/quant.h"

namespace evoq {

// A hash of type, sizes and content of all inputs of one of the `batch` samples that they hold one
// behind the other.
uint64_t SampleHash(std::span<const Tensor> inputs, int64_t sample, int64_t batch);

// Sees each sample of a calibration once.
class SampleCheck {
 public:
  explicit SampleCheck(const Graph& graph);
  void Add(std::span<const Tensor> inputs, int64_t batch = 1);
  // Sentences that say what was found and what to do; empty for data without a fault.
  std::vector<std::string> Warnings() const;

 private:
  struct Input {
    std::string name;
    bool watched = false;  // of numbers, not of indices or masks
    int64_t elements = 0;  // over all samples
    double min = 0, max = 0;
    bool flat = true;  // within each sample all elements are equal, and there are at least two
  };

  std::vector<Input> inputs_;
  std::set<uint64_t> seen_;  // a hash of each different sample
  int samples_ = 0;
};

// What ranges of activations without a width tell, be they calibrated or read from a file. Inputs,
// and values that have one element only, are left out.
std::vector<std::string> RangeWarnings(const Graph& graph, const Ranges& ranges);

}  // namespace evoq
