// Copies between strided and row-major memory, shared by the operators that only move values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace evoq {

// dst[i0, i1, ...] (row-major over `sizes`) = src[i0 * strides[0] + i1 * strides[1] + ...],
// elements of `width` bytes (1, 2, 4 or 8). Strides count elements and may be 0 or negative; `src`
// points at element (0, 0, ...).
void CopyFromStrided(const std::byte* src, std::vector<int64_t> strides, std::vector<int64_t> sizes,
                     int64_t width, std::byte* dst);

}  // namespace evoq
