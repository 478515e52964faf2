// What inference and evaluation of the losses share.
#pragma once

#include "ops/util.h"

namespace evoq {

enum class LossReduction { kNone, kSum, kMean };

Result<LossReduction> LossReductionOf(const Node& node);

}  // namespace evoq
