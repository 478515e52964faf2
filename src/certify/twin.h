// The float model without its weights: as fast as the float model itself, and a thousandth of its
// size.
#pragma once

#include <string>

#include "graph/graph.h"

namespace evoq {

// The text of an optimized graph (docs/graph.md); constants of more than 8 elements without their
// values.
std::string TwinText(const Graph& graph);

// The graph of such a text with made-up weights, the same on every machine, of a size that keeps
// activations near 1: time does not depend on the values of weights, but on denormal numbers.
// Errors: those of ParseGraph and type inference.
Result<Graph> BuildTwin(std::string_view text);

}  // namespace evoq
