#include "kernels/kernel.h"

namespace evoq {

#define EVOQ_KERNEL(symbol) extern const KernelDef symbol;
#include "kernels/kernels.inc"
#undef EVOQ_KERNEL

std::span<const KernelDef* const> AllKernels() {
  static const KernelDef* const kAll[] = {
#define EVOQ_KERNEL(symbol) &symbol,
#include "kernels/kernels.inc"
#undef EVOQ_KERNEL
      nullptr};
  return {kAll, std::size(kAll) - 1};
}

const KernelDef* FindKernel(std::string_view name) {
  for (const KernelDef* kernel : AllKernels()) {
    if (name == kernel->name) return kernel;
  }
  return nullptr;
}

}  // namespace evoq
