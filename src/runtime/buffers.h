// Tensors to run an executor on when only its speed matters.
#pragma once

#include <vector>

#include "runtime/executor.h"

namespace evoq {

// Fixed pseudo-random content: floats in [-1, 1], bytes over their range, zeros in every other type.
void FillForSpeed(Tensor& tensor, uint32_t seed);

// Inputs with fixed pseudo-random content (floats in [-1, 1], bytes over their range) and outputs for an executor.
struct RunBuffers {
  std::vector<Tensor> inputs, outputs;
};
RunBuffers MakeBuffers(const Executor& executor, uint32_t seed = 1);

}  // namespace evoq
