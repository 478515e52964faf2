// For tests: types whose scales are multiples of steps.
#pragma once

#include <random>

#include "kernels/gemm/blocks/scale_steps.h"
#include "tensor/tensor.h"

namespace evoq {

// int4[k, n] in blocks of kStepBlock, whose steps and multiples are random.
inline TensorType TypeWithSteps(int64_t k, int64_t n, std::mt19937& random) {
  QuantParams quant;
  quant.axis = 0;
  quant.block = kStepBlock;
  const int64_t blocks = (k + kStepBlock - 1) / kStepBlock;
  quant.scales.resize(static_cast<size_t>(blocks * n));
  quant.zero_points.assign(quant.scales.size(), 0);
  for (int64_t i = 0; i < n; ++i) {
    float step = 0;
    for (int64_t b = 0; b < blocks; ++b) {
      if (b % kStepBlocks == 0) step = static_cast<float>(4 + random() % 4) * 0x1p-12f;
      quant.scales[b * n + i] = step * static_cast<float>(1 + random() % kMostMultiple);
    }
  }
  return TensorType(DType::kInt4, Shape{k, n}, std::move(quant));
}

}  // namespace evoq
