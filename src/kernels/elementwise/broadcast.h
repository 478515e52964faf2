// ONNX broadcasting of two inputs, reduced to rows along which each input either advances by one element or stands still.
#pragma once

#include <array>
#include <optional>

#include "kernels/call_util.h"

namespace evoq {

struct BroadcastPlan {
  static constexpr int kMaxOuter = 6;
  int64_t elements = 0;
  int64_t inner = 1;          // elements of a row
  int64_t a_step = 1, b_step = 1;  // along a row: 0 or 1
  int outer_rank = 0;         // of the dimensions around a row
  std::array<int64_t, kMaxOuter> outer{}, a_stride{}, b_stride{};

  // Calls group(first output element, a's element, b's element, n, count, a's step, b's step) for the elements [begin, end),
  // in order: `count` rows of n elements, each that step behind the one before.
  template <typename Group>
  void ForGroups(int64_t begin, int64_t end, const Group& group) const {
    std::array<int64_t, kMaxOuter> at{};
    int64_t a = 0, b = 0, offset = begin % inner;
    for (int64_t i = outer_rank - 1, rest = begin / inner; i >= 0; --i) {
      at[i] = rest % outer[i];
      rest /= outer[i];
      a += at[i] * a_stride[i];
      b += at[i] * b_stride[i];
    }
    const int last = outer_rank - 1;
    const int64_t a_row = last < 0 ? 0 : a_stride[last], b_row = last < 0 ? 0 : b_stride[last];
    while (begin < end) {
      const int64_t n = std::min(inner - offset, end - begin);
      const int64_t count = last < 0 || n < inner ? 1 : std::min(outer[last] - at[last], (end - begin) / inner);
      group(begin, a + offset * a_step, b + offset * b_step, n, count, a_row, b_row);
      begin += n * count;
      offset += n;
      if (offset < inner) continue;
      offset = 0;
      for (int i = last; i >= 0; --i) {
        const int64_t steps = i == last ? count : 1;
        a += steps * a_stride[i];
        b += steps * b_stride[i];
        at[i] += steps;
        if (at[i] < outer[i]) break;
        a -= outer[i] * a_stride[i];
        b -= outer[i] * b_stride[i];
        at[i] = 0;
      }
    }
  }

  // Calls row(first output element, a's element, b's element, n) for the elements [begin, end), in order, in pieces of at
  // most kPiece so that a second pass over a piece finds it in the cache.
  template <typename Row>
  void ForRows(int64_t begin, int64_t end, const Row& row) const {
    constexpr int64_t kPiece = 4096;
    ForGroups(begin, end, [&](int64_t at, int64_t a, int64_t b, int64_t n, int64_t count, int64_t a_row, int64_t b_row) {
      for (int64_t r = 0; r < count; ++r, at += n, a += a_row, b += b_row) {
        for (int64_t i = 0; i < n; i += kPiece) row(at + i, a + i * a_step, b + i * b_step, std::min(kPiece, n - i));
      }
    });
  }
};

// Nothing when the shapes do not broadcast to `y` or need more than 6 dimensions around a row.
std::optional<BroadcastPlan> PlanBroadcast(const Shape& a, const Shape& b, const Shape& y);

}  // namespace evoq
