// KernelDef::in_place of kernels that compute element i of the output from element i of their
// inputs.
#pragma once

#include "kernels/kernel.h"

namespace evoq {

// The inputs that have the output's shape and width: those that are not broadcast.
inline uint32_t SameSizeInputs(const KernelCall& call) {
  uint32_t mask = 0;
  const TensorType& y = call.outputs[0];
  for (size_t i = 0; i < call.inputs.size() && i < 32; ++i) {
    const TensorType& x = call.inputs[i];
    if (call.has_input(i) && x.shape == y.shape && DTypeBits(x.dtype) == DTypeBits(y.dtype))
      mask |= 1u << i;
  }
  return mask;
}

}  // namespace evoq
