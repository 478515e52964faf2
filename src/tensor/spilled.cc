#include "tensor/spilled.h"

#include "base/pages.h"
#include "base/spill.h"

namespace evoq {
namespace {

constexpr size_t kLeastBytes = 64 << 10;  // less than that is not worth pages of a file

std::span<const std::byte> BytesOf(const Tensor& tensor) { return {tensor.raw(), tensor.bytes()}; }

}  // namespace

bool TakesPages(const Tensor& tensor) {
  return tensor.defined() && tensor.dtype() != DType::kString && tensor.bytes() >= kLeastBytes;
}

Tensor AsKept(const Tensor& tensor, KeptBytes kept) {
  if (tensor.layout().empty())
    return Tensor::View(tensor.type(), kept.bytes.data(), std::move(kept.owner));
  return Tensor::PackedView(tensor.type(), tensor.layout(), kept.bytes, std::move(kept.owner));
}

Tensor Spilled(Tensor tensor) {
  SpillScope* const scope = ThreadScope<SpillScope>::Active();
  if (scope == nullptr || !TakesPages(tensor) || LiesInMappedPart(tensor.raw())) return tensor;
  auto kept = scope->Keep(BytesOf(tensor));
  return kept ? AsKept(tensor, std::move(*kept)) : tensor;
}

void ReleasePages(const Tensor& tensor) {
  if (tensor.defined() && tensor.dtype() != DType::kString) ReleasePages(BytesOf(tensor));
}

}  // namespace evoq
