#include "tensor/spilled.h"

#include "base/pages.h"
#include "base/spill.h"

namespace evoq {
namespace {

constexpr size_t kLeastBytes = 64 << 10;  // less than that is not worth pages of a file

std::span<const std::byte> BytesOf(const Tensor& tensor) { return {tensor.raw(), tensor.bytes()}; }

}  // namespace

Tensor Spilled(Tensor tensor) {
  if (!SpillScope::Active() || !tensor.defined() || tensor.dtype() == DType::kString ||
      tensor.bytes() < kLeastBytes || SpillScope::Keeps(tensor.raw()))
    return tensor;
  auto kept = SpillScope::Keep(BytesOf(tensor));
  if (!kept) return tensor;
  if (tensor.layout().empty())
    return Tensor::View(tensor.type(), kept->bytes.data(), std::move(kept->owner));
  return Tensor::PackedView(tensor.type(), tensor.layout(), kept->bytes, std::move(kept->owner));
}

void ReleasePages(const Tensor& tensor) {
  if (tensor.defined() && tensor.dtype() != DType::kString) ReleasePages(BytesOf(tensor));
}

}  // namespace evoq
