// Networks that were exported while they trained.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace evoq {

// What it means for batch normalization to compute its statistics from the samples of a run
// (training_mode=1), as one sentence; nothing where none does.
std::optional<std::string> TrainingModeSentence(const Graph& graph);

}  // namespace evoq
