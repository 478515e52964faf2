// The two cleanings that both stages need.
#pragma once

#include "passes/match.h"

namespace evoq {

// Two of Reshape, Flatten, Squeeze and Unsqueeze in a row become one Reshape. Returns how many.
int JoinReshapes(Graph& graph);

// Two Transposes in a row become one or none; one that moves no byte becomes a Reshape. Returns how
// many.
int JoinTransposes(Graph& graph);

}  // namespace evoq
