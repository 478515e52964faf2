#include "kernels/layout.h"

namespace evoq {

#define EVOQ_LAYOUT(symbol) extern const LayoutDef symbol;
#include "kernels/layouts.inc"
#undef EVOQ_LAYOUT

std::span<const LayoutDef* const> AllLayouts() {
  static const LayoutDef* const kAll[] = {
#define EVOQ_LAYOUT(symbol) &symbol,
#include "kernels/layouts.inc"
#undef EVOQ_LAYOUT
      nullptr};
  return {kAll, std::size(kAll) - 1};
}

const LayoutDef* FindLayout(std::string_view name) {
  for (const LayoutDef* layout : AllLayouts()) {
    if (name == layout->name) return layout;
  }
  return nullptr;
}

Result<Tensor> ToPlain(const Tensor& tensor) {
  if (tensor.layout().empty()) return tensor;
  const LayoutDef* layout = FindLayout(tensor.layout());
  if (layout == nullptr) return InvalidInput("unknown tensor layout '{}'", tensor.layout());
  return layout->unpack(tensor);
}

}  // namespace evoq
