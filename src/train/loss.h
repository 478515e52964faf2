// What training makes small: one row (LossDef), named by one line in train/losses.inc.
#pragma once

#include <span>

#include "base/result.h"

namespace evoq {

// What a sample is: a class, or a mix of two (mixup).
struct SampleTarget {
  int64_t label = 0;
  int64_t other = 0;
  float share = 0;      // of `other`, in [0, 1/2]
  float smoothing = 0;  // what all classes have alike (Szegedy et al., "Rethinking the Inception
                        // Architecture for Computer Vision", 2016)
  // The probability of class j of `classes`.
  double of(int64_t j, int64_t classes) const {
    const double own = share == 0 ? (j == label ? 1.0 : 0.0)
                                  : (j == label ? 1.0 - share : 0.0) + (j == other ? share : 0.0);
    return smoothing / static_cast<double>(classes) + own * (1.0 - smoothing);
  }
};

struct LossDef {
  const char* name;
  const char* doc;  // one sentence
  // Whether it takes the scores before a last Softmax.
  bool logits;
  // The loss of one sample. Writes to `gradient` [classes] its derivatives by the scores, times
  // `factor`.
  double (*sample)(std::span<const float> scores, const SampleTarget& target, float factor,
                   float* gradient);
};

std::span<const LossDef* const> AllLosses();

}  // namespace evoq
