// Constants that are larger than the memory when they are together.
#pragma once

#include "tensor/tensor.h"

namespace evoq {

// The tensor with its bytes in the file of the thread's SpillScope (base/spill.h), not writable;
// itself where there is none, where it is small, and where the file takes nothing.
Tensor Spilled(Tensor tensor);

// ReleasePages of its bytes (base/pages.h).
void ReleasePages(const Tensor& tensor);

}  // namespace evoq
