// Labelled samples in memory, as training reads them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/on_progress.h"
#include "data/dataset.h"

namespace evoq {

struct LabelledSamples {
  std::vector<std::vector<int64_t>> sizes;  // of each input, without the batch
  std::vector<std::vector<float>> inputs;   // of each input, [samples, elements]
  std::vector<int64_t> labels;              // [samples, rows]; none where targets are given
  std::vector<float> targets;               // [samples, target_elements]: what outputs are to be
  int64_t target_elements = 0;              // of a sample; 0: it has labels
  int64_t rows = 1;                         // labels of a sample: one, or the next of each token
  DType tokens = DType::kUndefined;         // of inputs that are integers; kUndefined: real numbers
  bool real() const { return target_elements > 0; }
  int64_t count() const {
    return real() ? static_cast<int64_t>(targets.size()) / target_elements
                  : static_cast<int64_t>(labels.size()) / rows;
  }
  const float* target(int64_t i) const { return targets.data() + i * target_elements; }
  std::span<const int64_t> labels_of(int64_t i) const {
    return {labels.data() + i * rows, static_cast<size_t>(rows)};
  }
  int64_t elements(size_t input) const {
    return static_cast<int64_t>(inputs[input].size()) / std::max<int64_t>(count(), 1);
  }
  const float* sample(size_t input, int64_t i) const {
    return inputs[input].data() + i * elements(input);
  }
};

// All samples of a data set, or the first `limit` (0: all), with their labels or, where `targets`
// is not null, with the inputs of its samples as what the model's output is to be. Errors: those of
// reading; kInvalidInput naming the first sample that has no label, a negative one, another shape
// than the first or a number that is not finite, and for another number of targets than samples.
Result<LabelledSamples> ReadSamples(const Dataset& data, const Dataset* targets, int64_t limit,
                                    const OnProgress& progress);

// Numbers of float32 as int64 or int32.
Tensor AsTokens(const Tensor& numbers, DType dtype);
// The inputs of samples [begin, end), as a model takes them.
std::vector<Tensor> InputsOf(const LabelledSamples& samples, int64_t begin, int64_t end);

// A stream of tokens, cut into windows of `context` one after the other: a sample is a window, its
// labels the tokens that come next. What is left at the end is no sample. Errors: kInvalidInput
// for fewer than context + 1 tokens, and for one that float32 does not hold (from 2^24 on).
Result<LabelledSamples> WindowsOf(std::span<const int64_t> tokens, int64_t context, DType dtype);

// Where labelled samples are: images, MNIST's and CIFAR's files, arrays (data/inputs.h).
struct SampleFiles {
  std::string data, labels;       // to train on
  std::string test, test_labels;  // to measure on; "": none
  // In place of labels: what the output is to be, as a data set (data/inputs.h).
  std::string targets, test_targets;
};
// A folder that holds MNIST's or CIFAR-10's files by their usual names becomes those; an idx file
// of images brings the idx file of labels beside it, unless targets are given. What is given stays.
Result<SampleFiles> FindSamples(SampleFiles given);

// The order in which epoch `epoch` (from 0 on) takes `count` samples.
std::vector<int64_t> EpochOrder(int64_t count, uint64_t seed, int64_t epoch);

}  // namespace evoq
