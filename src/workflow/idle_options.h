// Options of a quantization that change nothing of it.
#pragma once

#include <string>
#include <vector>

#include "workflow/quantize.h"

namespace evoq {

// A warning for each option that was given and that the job's scheme and observer have no use for,
// with why. `already`: layers that compute with integers in the model as it is; options for layers
// change none of them.
std::vector<std::string> IdleWarnings(const QuantizeJob& job, int already);

}  // namespace evoq
