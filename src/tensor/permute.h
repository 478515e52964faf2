// What a permutation of axes makes of a type.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/type.h"

namespace evoq {

// The type of a Transpose of `type`, whose rank `perm` has: axis k is axis perm[k] of `type`.
// Quantization parameters follow their axis, those of blocks each their block.
TensorType PermutedAxes(const TensorType& type, std::span<const int64_t> perm);

}  // namespace evoq
