// PairLayout (gemm_float_tile.h) in plain C++. Included inside instruction-set files only.
#pragma once

#include <cstring>

#include "kernels/gemm/gemm_float_tile.h"

namespace evoq {
namespace {

void PairRows(const uint16_t* even, const uint16_t* odd, int count, float* y) {
  uint32_t pairs[16] = {};
  for (int n = 0; n < count; ++n) {
    pairs[n] = (even == nullptr ? 0u : even[n]) |
               (odd == nullptr ? 0u : static_cast<uint32_t>(odd[n]) << 16);
  }
  std::memcpy(y, pairs, sizeof(pairs));
}

void CopyRuns(const uint16_t* x, int64_t step, int64_t runs, int64_t n, uint16_t* y) {
  for (int64_t r = 0; r < runs; ++r, x += step, y += n)
    std::memcpy(y, x, static_cast<size_t>(n) * sizeof(uint16_t));
}

}  // namespace
}  // namespace evoq
