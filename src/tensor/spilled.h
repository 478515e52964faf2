// Constants that are larger than the memory when they are together.
#pragma once

#include "base/mapped_part.h"
#include "tensor/tensor.h"

namespace evoq {

// The tensor with its bytes in the file of the thread's SpillScope (base/spill.h), not writable;
// itself where there is none, where it is small, and where the file takes nothing.
Tensor Spilled(Tensor tensor);

// Whether it is worth pages of a file: what is small, and strings, stay in memory.
bool TakesPages(const Tensor& tensor);

// The tensor with its bytes where they are kept.
Tensor AsKept(const Tensor& tensor, KeptBytes kept);

// ReleasePages of its bytes (base/pages.h).
void ReleasePages(const Tensor& tensor);

}  // namespace evoq
