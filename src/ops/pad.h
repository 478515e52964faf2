// What inference and evaluation of Pad share.
#pragma once

#include <vector>

#include "ops/util.h"

namespace evoq {

enum class PadMode { kConstant, kEdge, kReflect, kWrap };

Result<PadMode> PadModeOf(const Node& node);

// Counts before and after every axis of a tensor of this rank.
struct Pads {
  std::vector<int64_t> before, after;
};

Result<Pads> MakePads(const std::vector<int64_t>& pads, const std::vector<int64_t>* axes, int rank);

}  // namespace evoq
