// Products of rows that are rounded to int8 by blocks, as kernels/gemm/blocks/block_data.h defines
// them.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/gemm/blocks/block_data.h"
#include "kernels/gemm/blocks/weights.h"

namespace evoq {

// Rows in blocks: numbers [rows][K] and scales [rows][ceil(K / block)].
struct RoundedRows {
  std::vector<int8_t> q;
  std::vector<float> scales;
};

inline RoundedRows RoundRows(const float* x, int64_t rows, int64_t depth, int64_t block) {
  RoundedRows r;
  r.q.resize(static_cast<size_t>(rows * depth));
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t k = 0; k < depth; k += std::min(block, depth - k))
      r.scales.push_back(
          QuantizeBlock(x + m * depth + k, std::min(block, depth - k), r.q.data() + m * depth + k));
  }
  return r;
}

// By weights [K, N], whose scales and zero points `quant` has.
struct RoundedProduct {
  int64_t depth, columns, data_block;
  const BlockIntegers& weights;
  const QuantParams& quant;

  int64_t ScaleAt(int64_t k, int64_t n) const {
    if (quant.per_tensor()) return 0;
    return quant.block == 0 ? n : k / quant.block * columns + n;
  }

  // v + the product of row m and column n.
  float Sum(const RoundedRows& data, int64_t m, int64_t n, float v) const {
    const int64_t data_blocks = depth == 0 ? 0 : (depth - 1) / data_block + 1;
    for (int64_t k = 0; k < depth;) {
      const int64_t d = k / data_block, data_end = depth - k <= data_block - k % data_block
                                                       ? depth
                                                       : k + data_block - k % data_block;
      float t = 0;
      for (bool first = true; k < data_end; first = false) {
        const int64_t at = ScaleAt(k, n);
        const int64_t left = quant.block == 0 ? data_end - k : quant.block - k % quant.block;
        const int64_t end = k + std::min(left, data_end - k);
        int64_t sum = 0;
        for (; k < end; ++k)
          sum += data.q[m * depth + k] * (weights.q[k * columns + n] - quant.zero_points[at]);
        const auto real = static_cast<float>(sum);
        const float scale = quant.scales[at] * weights.unit;
        t = first ? real * scale : std::fma(real, scale, t);
      }
      v = std::fma(data.scales[m * data_blocks + d], t, v);
    }
    return v;
  }
};

}  // namespace evoq
