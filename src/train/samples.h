// Labelled samples in memory, as training reads them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/on_progress.h"
#include "data/dataset.h"

namespace evoq {

struct LabelledSamples {
  std::vector<std::vector<int64_t>> sizes;  // of each input, without the batch
  std::vector<std::vector<float>> inputs;   // of each input, [samples, elements]
  std::vector<int64_t> labels;
  int64_t count() const { return static_cast<int64_t>(labels.size()); }
  int64_t elements(size_t input) const {
    return static_cast<int64_t>(inputs[input].size()) / std::max<int64_t>(count(), 1);
  }
  const float* sample(size_t input, int64_t i) const {
    return inputs[input].data() + i * elements(input);
  }
};

// All samples of a data set, or the first `limit` (0: all). Errors: those of reading; kInvalidInput
// naming the first sample that has no label, a negative one, or another shape than the first.
Result<LabelledSamples> ReadSamples(const Dataset& data, int64_t limit, const OnProgress& progress);

// Where labelled samples are: images, MNIST's and CIFAR's files, arrays (data/inputs.h).
struct SampleFiles {
  std::string data, labels;       // to train on
  std::string test, test_labels;  // to measure on; "": none
};
// A folder that holds MNIST's or CIFAR-10's files by their usual names becomes those; an idx file
// of images brings the idx file of labels beside it. What is given stays.
Result<SampleFiles> FindSamples(SampleFiles given);

// The order in which epoch `epoch` (from 0 on) takes `count` samples.
std::vector<int64_t> EpochOrder(int64_t count, uint64_t seed, int64_t epoch);
// A number that says nothing of its neighbours (splitmix64; Steele, Lea, Flood, "Fast Splittable
// Pseudorandom Number Generators", 2014): the state of a generator for these.
uint64_t SeedOf(uint64_t seed, uint64_t a, uint64_t b);

}  // namespace evoq
