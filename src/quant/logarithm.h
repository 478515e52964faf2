// Products whose results go into a logarithm, as banks of mel filters do.
#pragma once

#include <optional>

#include "base/reason.h"
#include "graph/graph.h"

namespace evoq {

// Why a product stays in floating point where its data would have 8 bits or fewer: the logarithm of
// its result is taken, also of sums, powers and bounds of it, or of one more product of its powers.
// The steps of integers are as large for small values as for large ones, which a logarithm makes
// large errors of.
std::optional<Reason> LogarithmReason(const Graph& graph, const Node& node);

}  // namespace evoq
