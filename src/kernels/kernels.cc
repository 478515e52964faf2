#include <fmt/format.h>

#include "base/rows.h"
#include "kernels/kernel.h"

namespace evoq {

#define EVOQ_ROW_TYPE KernelDef
#define EVOQ_ROW_FILE "kernels/kernels.inc"
#include "base/rows.inl.h"

std::span<const KernelDef* const> AllKernels() { return kAllRows; }

std::string KernelPlan::ToString() const {
  std::string text = code;
  if (tile_rows > 0)
    text += fmt::format("{}{}x{}", text.empty() ? "" : " ", tile_rows, tile_columns);
  if (!method.empty()) text += (text.empty() ? "" : " ") + method;
  return text;
}

const KernelDef* FindKernel(std::string_view name) { return FindRow(AllKernels(), name); }

}  // namespace evoq
