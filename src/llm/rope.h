// Scalings of rotary position embeddings, by the names that files have for them.
#pragma once

#include <nlohmann/json.hpp>

#include "llm/language_model.h"

namespace evoq {

// Sizes that scalings depend on.
struct RopeSizes {
  int64_t rotated = 0;   // values of a head that turn
  int64_t context = 0;   // the most positions, as the file says
  int64_t original = 0;  // those of the training before, where they stand beside the settings; 0:
                         // the settings say, or the context is
};

// Peng et al., "YaRN" (2023): frequencies that turn more than `fast` times in the original context
// stay, those that turn less than `slow` times are divided by the factor, those between are mixed.
struct Yarn {
  double factor = 1, original = 0, fast = 32, slow = 1;
  bool whole = true;  // where the mixing begins and ends is rounded to whole frequencies
};
// Fills in rope.slow, of rope.theta. Errors: kInvalidInput for numbers out of range.
Status Slow(const Yarn& yarn, int64_t rotated, Rope& rope);
// What YaRN multiplies the cosines and sines by, times what `scale` does to it.
double YarnMagnitude(double factor, double scale = 1);

// The angles that settings (rope_parameters, rope_scaling) ask for, whose theta is rope's where
// they name none. Errors: kUnsupported for a type that evoq lacks, kInvalidInput for settings that
// are wrong.
Status ReadRope(const nlohmann::json& settings, const RopeSizes& sizes, Rope& rope);

}  // namespace evoq
