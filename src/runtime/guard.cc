#include "runtime/guard.h"

#include "base/check.h"
#include "ops/index_range.h"
#include "ops/op.h"

namespace evoq {
namespace {

template <typename T>
std::optional<int64_t> FirstOutside(const T* indices, const Guard& guard) {
  for (int64_t i = 0; i < guard.count; ++i) {
    if (indices[i] < guard.low || indices[i] >= guard.end) return indices[i];
  }
  return std::nullopt;
}

}  // namespace

Status Guard::Check(const void* const* in) const {
  const auto outside = wide ? FirstOutside(static_cast<const int64_t*>(in[input]), *this)
                            : FirstOutside(static_cast<const int32_t*>(in[input]), *this);
  if (!outside) return {};
  return InvalidInput("{}: input {} (indices): index {} is outside [{}, {})", label, input,
                      *outside, low, end);
}

std::optional<Guard> GuardOf(const Node& node, std::span<const TensorType> inputs) {
  const auto range = IndexRangeOf(node, inputs);
  if (!range) return std::nullopt;
  const TensorType& type = inputs[range->input];
  const auto count = type.shape.elements();
  EVOQ_CHECK(count, "{}", NodeLabel(node));  // inferred before
  return Guard{range->input,   *count, range->low, range->end, type.dtype == DType::kInt64,
               NodeLabel(node)};
}

}  // namespace evoq
