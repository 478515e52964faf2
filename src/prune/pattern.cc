#include "prune/pattern.h"

namespace evoq {

#define EVOQ_ROW_TYPE PrunePattern
#define EVOQ_ROW_FILE "prune/patterns.inc"
#include "base/rows.inl.h"

std::span<const PrunePattern* const> AllPrunePatterns() { return kAllRows; }

}  // namespace evoq
