// What inference and evaluation of ScatterElements and ScatterND share.
#pragma once

#include "ops/util.h"

namespace evoq {

enum class ScatterReduction { kNone, kAdd, kMul, kMax, kMin };

Result<ScatterReduction> ScatterReductionOf(const Node& node);

}  // namespace evoq
