#include "reference/strided.h"

#include <cstring>

#include "base/check.h"

namespace evoq {
namespace {

// Drops dimensions of size 1 and joins neighbours that are contiguous, so that the inner loop is as
// long as it can be.
void Simplify(std::vector<int64_t>& strides, std::vector<int64_t>& sizes) {
  std::vector<int64_t> new_strides, new_sizes;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1) continue;
    if (!new_sizes.empty() && new_strides.back() == strides[i] * sizes[i]) {
      new_sizes.back() *= sizes[i];
      new_strides.back() = strides[i];
    } else {
      new_sizes.push_back(sizes[i]);
      new_strides.push_back(strides[i]);
    }
  }
  if (new_sizes.empty()) {
    new_sizes.push_back(1);
    new_strides.push_back(1);
  }
  strides = std::move(new_strides);
  sizes = std::move(new_sizes);
}

template <typename T>
void CopyRow(const std::byte* src, int64_t stride, int64_t count, std::byte* dst) {
  const T* from = reinterpret_cast<const T*>(src);
  T* to = reinterpret_cast<T*>(dst);
  for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
}

void CopyRow(const std::byte* src, int64_t stride, int64_t count, int64_t width, std::byte* dst) {
  if (stride == 1) {
    std::memcpy(dst, src, static_cast<size_t>(count * width));
    return;
  }
  switch (width) {
    case 1: return CopyRow<uint8_t>(src, stride, count, dst);
    case 2: return CopyRow<uint16_t>(src, stride, count, dst);
    case 4: return CopyRow<uint32_t>(src, stride, count, dst);
    case 8: return CopyRow<uint64_t>(src, stride, count, dst);
    default: EVOQ_CHECK(false, "elements of {} bytes", width);
  }
}

}  // namespace

void CopyFromStrided(const std::byte* src, std::vector<int64_t> strides, std::vector<int64_t> sizes,
                     int64_t width, std::byte* dst) {
  for (int64_t size : sizes) {
    if (size == 0) return;
  }
  Simplify(strides, sizes);
  const size_t outer_rank = sizes.size() - 1;
  const int64_t row = sizes.back();
  std::vector<int64_t> index(outer_rank, 0);
  int64_t offset = 0;
  while (true) {
    CopyRow(src + offset * width, strides.back(), row, width, dst);
    dst += row * width;
    size_t axis = outer_rank;
    while (axis-- > 0) {
      offset += strides[axis];
      if (++index[axis] < sizes[axis]) break;
      offset -= strides[axis] * sizes[axis];
      index[axis] = 0;
    }
    if (axis == static_cast<size_t>(-1)) return;
  }
}

}  // namespace evoq
