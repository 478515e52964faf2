// Patterns of options that are meant for nodes and name none.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "quant/quant.h"

namespace evoq {

// The names of the graph's nodes, also of those in subgraphs.
std::vector<std::string> NodeNames(const Graph& graph);

// A warning for each pattern of the option that is none of these names, with the nearest of them
// where it is written out.
std::vector<std::string> UnmatchedWarnings(std::string_view option,
                                           std::span<const std::string> patterns,
                                           std::span<const std::string> names);
// Of all options of a quantization that select layers: --exclude, --weight-bits,
// --activation-bits. `more`: names beside those of the graph.
std::vector<std::string> UnmatchedWarnings(const QuantizeOptions& options,
                                           std::vector<std::string> names, const Reasons& more);

}  // namespace evoq
