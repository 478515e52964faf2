// What training makes small: one row (LossDef), named by one line in train/losses.inc.
#pragma once

#include <span>

#include "base/result.h"

namespace evoq {

// What a sample is: a class, or real numbers; or a mix of two (mixup).
struct SampleTarget {
  int64_t label = 0;
  int64_t other = 0;
  // In place of classes, the numbers that the scores are to be; both null, or with a share neither.
  const float* values = nullptr;
  const float* other_values = nullptr;
  float share = 0;      // of `other`, in [0, 1/2]
  float smoothing = 0;  // what all classes have alike (Szegedy et al., "Rethinking the Inception
                        // Architecture for Computer Vision", 2016)
  // The probability of class j of `classes`, or what score j is to be.
  double of(int64_t j, int64_t classes) const {
    if (values != nullptr)
      return share == 0 ? values[j]
                        : (1.0 - share) * values[j] + static_cast<double>(share) * other_values[j];
    const double own = share == 0 ? (j == label ? 1.0 : 0.0)
                                  : (j == label ? 1.0 - share : 0.0) + (j == other ? share : 0.0);
    return smoothing / static_cast<double>(classes) + own * (1.0 - smoothing);
  }
};

struct LossDef {
  const char* name;
  const char* doc;  // one sentence
  // The operator that, where it comes last, is left to the loss, which takes what comes before it;
  // "": none.
  const char* last;
  // Whether its target may be real numbers.
  bool real;
  // The loss of one sample. Writes to `gradient` [classes] its derivatives by the scores, times
  // `factor`.
  double (*sample)(std::span<const float> scores, const SampleTarget& target, float factor,
                   float* gradient);
};

std::span<const LossDef* const> AllLosses();

}  // namespace evoq
