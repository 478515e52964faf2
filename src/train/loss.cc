#include "train/loss.h"

namespace evoq {

#define EVOQ_ROW_TYPE LossDef
#define EVOQ_ROW_FILE "train/losses.inc"
#include "base/rows.inl.h"

std::span<const LossDef* const> AllLosses() { return kAllRows; }

}  // namespace evoq
