#include "base/rows.h"
#include "kernels/kernel.h"

namespace evoq {

#define EVOQ_ROW_TYPE KernelDef
#define EVOQ_ROW_FILE "kernels/kernels.inc"
#include "base/rows.inl.h"

std::span<const KernelDef* const> AllKernels() { return kAllRows; }

const KernelDef* FindKernel(std::string_view name) { return FindRow(AllKernels(), name); }

}  // namespace evoq
