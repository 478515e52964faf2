#include "train/optimizer.h"

namespace evoq {

#define EVOQ_ROW_TYPE OptimizerDef
#define EVOQ_ROW_FILE "train/optimizers.inc"
#include "base/rows.inl.h"

std::span<const OptimizerDef* const> AllOptimizers() { return kAllRows; }

}  // namespace evoq
