// The gradients behind quant/block_rounding.h.
#pragma once

#include "quant/block_rounding.h"

namespace evoq {

// As of LearnRoundingFn: batches of samples, Adam on the numbers of quant/soft_rounding.h.
Result<std::vector<std::vector<bool>>> LearnRounding(const BlockRounding& block);

}  // namespace evoq
