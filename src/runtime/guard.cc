#include "runtime/guard.h"

#include "base/check.h"
#include "ops/op.h"
#include "ops/util.h"

namespace evoq {
namespace {

template <typename T>
std::optional<int64_t> FirstOutside(const T* indices, int64_t count, int64_t size) {
  for (int64_t i = 0; i < count; ++i) {
    if (indices[i] < -size || indices[i] >= size) return indices[i];
  }
  return std::nullopt;
}

}  // namespace

Status Guard::Check(const void* const* in) const {
  const auto outside = wide ? FirstOutside(static_cast<const int64_t*>(in[input]), count, size)
                            : FirstOutside(static_cast<const int32_t*>(in[input]), count, size);
  if (!outside) return {};
  return InvalidInput("{}: input {} (indices): index {} is outside [-{}, {})", label, input,
                      *outside, size, size);
}

std::optional<Guard> GuardOf(const Node& node, std::span<const TensorType> inputs) {
  if (!Gathers(node)) return std::nullopt;
  const Shape& shape = inputs[0].shape;
  const auto axis = NormalizeAxis(node.attrs.Int("axis", 0), shape.rank());
  const auto count = inputs[1].shape.elements();
  EVOQ_CHECK(axis && count, "{}", NodeLabel(node));  // inferred before
  return Guard{1, *count, shape[*axis].value, inputs[1].dtype == DType::kInt64, NodeLabel(node)};
}

}  // namespace evoq
