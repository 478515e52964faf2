// --pattern channel of PruneGraph.
#pragma once

#include "prune/prune.h"

namespace evoq {

// Errors: those of NamedChannels and RemoveAndReport; kUnsupported where no channel can go.
Result<PruneReport> PruneChannels(Graph& graph, const PruneOptions& options, const PruneRows& rows);

}  // namespace evoq
