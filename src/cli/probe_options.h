// The options of verbs that look at a model's inner values: on which samples.
#pragma once

#include "cli/options.h"
#include "workflow/probe.h"

namespace evoq {

// --data, --random, --text and what belongs to them; `shapes` gets --shape, to be read by
// ParseShapes.
void AddProbeOptions(const VerbOptions& options, ProbeOptions& probe,
                     std::vector<std::string>& shapes);

}  // namespace evoq
