// What training makes small: one row (LossDef), named by one line in train/losses.inc.
#pragma once

#include <span>

#include "base/result.h"

namespace evoq {

struct LossDef {
  const char* name;
  const char* doc;  // one sentence
  // Whether it takes the scores before a last Softmax.
  bool logits;
  // The loss of one sample whose class is `label`. Writes to `gradient` [classes] its derivatives
  // by the scores, times `factor`. The target of class j is 1 - smoothing + smoothing / classes
  // for the label, smoothing / classes for the others (Szegedy et al., "Rethinking the Inception
  // Architecture for Computer Vision", 2016).
  double (*sample)(std::span<const float> scores, int64_t label, float smoothing, float factor,
                   float* gradient);
};

std::span<const LossDef* const> AllLosses();

}  // namespace evoq
