#include "llm/stored_tensor.h"

#include <algorithm>
#include <cstring>

#include "base/budget_scope.h"
#include "base/text.h"
#include "llm/block_format.h"

namespace evoq {

std::string StoredTensor::ToString() const {
  const std::string type = joined != nullptr   ? joined->format
                           : blocks != nullptr ? blocks->name
                                               : DTypeName(dtype);
  return type + Bracketed(std::span<const int64_t>(sizes));
}

Result<Tensor> PlainTensor(const StoredTensor& stored, const std::vector<int64_t>& sizes) {
  if (stored.blocks != nullptr || stored.joined != nullptr)
    return Unsupported("{} as plain elements", stored.ToString());
  TensorType type(stored.dtype, Shape(sizes));
  const auto alignment = static_cast<uintptr_t>(DTypeBits(stored.dtype) / 8);
  if (alignment <= 1 || reinterpret_cast<uintptr_t>(stored.bytes.data()) % alignment == 0)
    return Tensor::View(std::move(type), stored.bytes.data(), stored.owner);
  EVOQ_TRY(SpendMemory(static_cast<int64_t>(stored.bytes.size()), "a tensor that is not aligned"));
  Tensor copy = Tensor::Allocate(std::move(type));
  std::memcpy(copy.mutable_raw(), stored.bytes.data(), stored.bytes.size());
  return copy;
}

Status CheckStretches(std::vector<Stretch> stretches, uint64_t size, bool no_gaps) {
  std::ranges::sort(stretches, {}, [](const Stretch& s) { return std::pair(s.begin, s.end); });
  const Stretch* before = nullptr;
  for (const Stretch& s : stretches) {
    const uint64_t begin = before == nullptr ? 0 : before->end;
    if (s.begin < begin)
      return InvalidInput("tensors {} and {} overlap at byte {} of the data", before->tensor,
                          s.tensor, s.begin);
    if (no_gaps && s.begin > begin)
      return InvalidInput("bytes {} to {} of the data, before tensor {}, belong to no tensor",
                          begin, s.begin, s.tensor);
    before = &s;
  }
  const uint64_t end = before == nullptr ? 0 : before->end;
  if (no_gaps && end != size)
    return InvalidInput("the data has {} bytes, expected {} by its tensors", size, end);
  return {};
}

}  // namespace evoq
