// What inference and evaluation of Einsum share.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "ops/util.h"

namespace evoq {

// A label per axis: a letter, or 1, 2, ... for the axes of "...", counted from the last.
using EinsumLabels = std::vector<int>;

struct EinsumEquation {
  std::vector<EinsumLabels> inputs;
  EinsumLabels output;
};

Result<EinsumEquation> ParseEinsum(const Node& node, const std::vector<int>& ranks);

// The size of each label. Axes of "..." and of size 1 broadcast.
Result<std::map<int, Dim>> EinsumSizes(const EinsumEquation& equation,
                                       std::span<const Shape> shapes);

std::vector<int> EinsumRanks(std::span<const Shape> shapes);

}  // namespace evoq
