// Which channels calibration keeps statistics of.
#pragma once

#include "graph/graph.h"

namespace evoq {

// The axis over which the linear operators that read the value sum, or -1 when none does.
int ChannelAxis(const Graph& graph, ValueId v);

}  // namespace evoq
