// Rows of a matrix that lie anywhere, one behind the other.
#pragma once

#include <algorithm>

#include "base/math.h"
#include "kernels/move/move.h"
#include "products/workspace.h"

namespace evoq {

// Row i of x [m, k] goes to to + i * stride, with zeros behind its k elements. Then finish(row,
// count) for `count` rows that were copied, from `row` on.
template <typename T, typename Finish>
void CopyRows(const Strided<T>& x, int64_t m, int64_t k, int64_t stride, Isa isa, ThreadPool& pool,
              T* to, const Finish& finish) {
  constexpr int64_t kRows = 64;
  const MoveTable& move = MoveTableFor(isa);
  pool.ParallelFor(CeilDiv(m, kRows), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * kRows; i < std::min(end * kRows, m); i += kRows) {
      const int64_t count = std::min(kRows, m - i);
      T* const y = to + i * stride;
      if (x.column_stride != 1) {
        move.transpose(x.data + i, y, k, count, x.column_stride, stride, sizeof(T));
      } else {
        for (int64_t r = 0; r < count; ++r)
          std::copy_n(x.data + (i + r) * x.row_stride, k, y + r * stride);
      }
      for (int64_t r = 0; r < count; ++r) std::fill(y + r * stride + k, y + (r + 1) * stride, T{0});
      finish(y, count);
    }
  });
}

}  // namespace evoq
