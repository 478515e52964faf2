#include "prune/score.h"

namespace evoq {

#define EVOQ_ROW_TYPE PruneScore
#define EVOQ_ROW_FILE "prune/scores.inc"
#include "base/rows.inl.h"

std::span<const PruneScore* const> AllPruneScores() { return kAllRows; }

}  // namespace evoq
