// Inputs of a program whose memory an output may have, as a cache that a run extends.
#pragma once

#include <cstdint>
#include <vector>

#include "program/model.h"

namespace evoq {

// For each of the graph's outputs: the input that its step may overwrite, or -1. Such a step's
// kernel writes in place (KernelDef::in_place), nothing reads the input after it, and both have as
// many bytes.
std::vector<int32_t> SharedInputs(const Program& program);

}  // namespace evoq
