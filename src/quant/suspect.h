// Calibration data that cannot have been meant: the rules of docs/calibration.md, "Warnings",
// exactly.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "quant/quant.h"
#include "quant/statistics.h"

namespace evoq {

// A hash of type, sizes and content of all inputs of one of the `batch` samples that they hold one
// behind the other.
uint64_t SampleHash(std::span<const Tensor> inputs, int64_t sample, int64_t batch);

// What all samples showed of an input.
struct SeenInput {
  std::string name;
  bool watched = false;  // of numbers, not of indices or masks
  int64_t elements = 0;  // over all samples
  double min = 0, max = 0;
  bool flat = true;  // within each sample all elements are equal, and there are at least two

  void Append(const SeenInput& next);  // what further samples showed of the same input
};

// Sees each sample of a calibration once.
class SampleCheck {
 public:
  explicit SampleCheck(const Graph& graph);
  // As if it had seen samples of these hashes.
  SampleCheck(std::vector<SeenInput> inputs, std::span<const uint64_t> hashes)
      : inputs_(std::move(inputs)),
        seen_(hashes.begin(), hashes.end()),
        samples_(static_cast<int>(hashes.size())) {}
  void Add(std::span<const Tensor> inputs, int64_t batch = 1);
  // Sentences that say what was found and what to do; empty for data without a fault.
  std::vector<std::string> Warnings() const;
  const std::vector<SeenInput>& inputs() const { return inputs_; }

 private:
  std::vector<SeenInput> inputs_;
  std::set<uint64_t> seen_;  // a hash of each different sample
  int samples_ = 0;
};

// Ranges that one of `samples` samples alone makes many times as wide as all others would. `seen`:
// by value name, in the graph's order.
std::vector<std::string> LoneSampleWarnings(
    std::span<const std::pair<std::string, LoneSample>> seen, const Ranges& ranges,
    int64_t samples);

// What ranges of activations without a width tell, be they calibrated or read from a file. Inputs,
// and values that have one element only, are left out.
std::vector<std::string> RangeWarnings(const Graph& graph, const Ranges& ranges);

// Values with infinities, of those named, that a product reads or writes: one sentence, or none. A
// mask in front of a Softmax, which no integers compute, is as it should be.
std::vector<std::string> InfinityWarnings(const Graph& graph, std::vector<std::string> names);

}  // namespace evoq
