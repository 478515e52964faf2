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
  std::vector<int64_t> labels;              // [samples, rows]
  int64_t rows = 1;                         // labels of a sample: one, or the next of each token
  DType tokens = DType::kUndefined;         // of inputs that are integers; kUndefined: real numbers
  int64_t count() const { return static_cast<int64_t>(labels.size()) / rows; }
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

// All samples of a data set, or the first `limit` (0: all). Errors: those of reading; kInvalidInput
// naming the first sample that has no label, a negative one, or another shape than the first.
Result<LabelledSamples> ReadSamples(const Dataset& data, int64_t limit, const OnProgress& progress);

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
};
// A folder that holds MNIST's or CIFAR-10's files by their usual names becomes those; an idx file
// of images brings the idx file of labels beside it. What is given stays.
Result<SampleFiles> FindSamples(SampleFiles given);

// The order in which epoch `epoch` (from 0 on) takes `count` samples.
std::vector<int64_t> EpochOrder(int64_t count, uint64_t seed, int64_t epoch);

}  // namespace evoq
