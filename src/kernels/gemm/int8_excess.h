// Weights of which no pair is unsafe (Int8TileDef::bounded), and what they lack.
#pragma once

#include <memory>
#include <vector>

#include "base/aligned.h"
#include "kernels/gemm/gemm_int8_tile.h"
#include "kernels/gemm/layout_k4n16.h"

namespace evoq {

struct BoundedInt8 {
  AlignedBuffer weights;  // empty: use the weights as they are
  std::vector<Int8Excess> excess;
  std::vector<uint32_t> begin;  // 17 per panel
};

// Splits packed weights into safe ones and their excess. No weights when too much of them is unsafe
// to be worth it.
BoundedInt8 BoundInt8Weights(const int8_t* packed, const K4N16& sizes, const Int8TileDef& isa);

}  // namespace evoq
