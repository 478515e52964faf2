// Tensors to run a model on when only its speed matters.
#pragma once

#include <vector>

#include "runtime/runnable.h"

namespace evoq {

// Fixed pseudo-random content: floats in [-1, 1], bytes over their range, zeros in every other
// type.
void FillForSpeed(Tensor& tensor, uint32_t seed);

// The sample of what runs, else inputs with fixed pseudo-random content (floats in [-1, 1], bytes
// over their range), and outputs: memory of their own, or that of inputs (repeats_in_place()).
struct RunBuffers {
  std::vector<Tensor> inputs, outputs;
};
RunBuffers MakeBuffers(const Runnable& runnable, uint32_t seed = 1);

}  // namespace evoq
