#include "kernels/layout.h"

#include "base/rows.h"

namespace evoq {

#define EVOQ_ROW_TYPE LayoutDef
#define EVOQ_ROW_FILE "kernels/layouts.inc"
#include "base/rows.inl.h"

std::span<const LayoutDef* const> AllLayouts() { return kAllRows; }

const LayoutDef* FindLayout(std::string_view name) { return FindRow(AllLayouts(), name); }

Result<Tensor> ToPlain(const Tensor& tensor) {
  if (tensor.layout().empty()) return tensor;
  const LayoutDef* layout = FindLayout(tensor.layout());
  if (layout == nullptr) return InvalidInput("unknown tensor layout '{}'", tensor.layout());
  return layout->unpack(tensor);
}

}  // namespace evoq
