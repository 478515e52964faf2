#include "kernels/layout.h"

#include "base/rows.h"
#include "kernels/gemm/weights/formats.h"

namespace evoq {

#define EVOQ_ROW_TYPE LayoutDef
#define EVOQ_ROW_FILE "kernels/layouts.inc"
#include "base/rows.inl.h"

std::span<const LayoutDef* const> AllLayouts() {
  static const std::vector<const LayoutDef*> kLayouts = [] {
    std::vector<const LayoutDef*> all(std::begin(kAllRows), std::end(kAllRows));
    for (const LayoutDef& layout : WeightLayouts()) all.push_back(&layout);
    return all;
  }();
  return kLayouts;
}

const LayoutDef* FindLayout(std::string_view name) { return FindRow(AllLayouts(), name); }

Result<Tensor> ToPlain(const Tensor& tensor) {
  if (tensor.layout().empty()) return tensor;
  const LayoutDef* layout = FindLayout(tensor.layout());
  if (layout == nullptr) return InvalidInput("unknown tensor layout '{}'", tensor.layout());
  return layout->unpack(tensor);
}

}  // namespace evoq
