// How samples are varied while they are trained on: one row (AugmentationDef), named by one line in
// train/augmentations.inc.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/xorshift.h"

namespace evoq {

// Planes of one image, [channels, height, width].
struct PlaneSizes {
  int64_t channels, height, width;
};

struct AugmentationDef {
  const char* name;
  const char* doc;  // one sentence
  int amount;       // what "name" alone means
  // to = from, varied; the two do not overlap.
  void (*apply)(const PlaneSizes& sizes, int amount, XorShift& random, const float* from,
                float* to);
};

std::span<const AugmentationDef* const> AllAugmentations();

struct Augmentation {
  const AugmentationDef* row;
  int amount;
};
// "shift=2": the row and its amount, from 0 to 1024. Errors: kUsage naming what there is.
Result<std::vector<Augmentation>> ParseAugmentations(const std::vector<std::string>& options);

}  // namespace evoq
