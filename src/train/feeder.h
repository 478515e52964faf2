// One sample's way into a batch: varied, and mixed with another.
#pragma once

#include <span>
#include <vector>

#include "train/augmentation.h"
#include "train/loss.h"
#include "train/samples.h"

namespace evoq {

// What it writes is decided by the seed, the epoch and the sample. `samples` outlives it.
class Feeder {
 public:
  // `mixup`: both parameters of the beta distribution, in (0, 1]; 0: nothing is mixed.
  Feeder(const LabelledSamples& samples, std::vector<Augmentation> augmentations, double mixup,
         uint64_t seed)
      : samples_(samples), augmentations_(std::move(augmentations)), mixup_(mixup), seed_(seed) {}

  // Writes sample `i` as epoch `epoch` varies it; with mixup, mixed with one of `others`.
  void operator()(int64_t i, int64_t epoch, std::span<const int64_t> others,
                  std::span<float* const> inputs, std::span<SampleTarget> targets) const;

 private:
  void Vary(int64_t i, int64_t epoch, std::span<float* const> inputs) const;
  void Mix(int64_t i, int64_t epoch, std::span<const int64_t> others,
           std::span<float* const> inputs, std::span<SampleTarget> targets) const;

  const LabelledSamples& samples_;
  std::vector<Augmentation> augmentations_;
  double mixup_;
  uint64_t seed_;
};

}  // namespace evoq
