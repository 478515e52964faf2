// Values that a kernel takes for granted and only a run shows: places that it reads or writes, and
// counts of what it reads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "graph/graph.h"

namespace evoq {

// Each element of `input` is in [low, end).
struct IndexRange {
  size_t input;
  int64_t low, end;
};

// What kernels of the node need of an input, which its definition refuses otherwise; nothing where
// they need nothing. Types are static and inferred.
std::optional<IndexRange> IndexRangeOf(const Node& node, std::span<const TensorType> inputs);

}  // namespace evoq
