#include "tensor/shape.h"

#include "base/math.h"
#include "base/text.h"

namespace evoq {

bool Shape::is_static() const {
  if (!ranked_) return false;
  for (const Dim& d : dims_) {
    if (!d.known()) return false;
  }
  return true;
}

std::vector<int64_t> Shape::sizes() const {
  std::vector<int64_t> sizes;
  sizes.reserve(dims_.size());
  for (const Dim& d : dims_) sizes.push_back(d.value);
  return sizes;
}

std::optional<int64_t> Shape::elements() const {
  if (!is_static()) return std::nullopt;
  return CheckedProduct(sizes());
}

std::string Shape::ToString() const {
  if (!ranked_) return "[...]";
  std::vector<std::string> parts;
  for (const Dim& d : dims_) {
    parts.push_back(d.known() ? std::to_string(d.value) : d.symbol.empty() ? "?" : d.symbol);
  }
  return Bracketed(std::span<const std::string>(parts));
}

Result<int> NormalizeAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank)
    return InvalidInput("axis {} is outside [-{}, {})", axis, rank, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::vector<int64_t> RowMajorStrides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= sizes[i];
  }
  return strides;
}

}  // namespace evoq
