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

  // Calls row(first output element, a's element, b's element, n) for the elements [begin, end), in order, in pieces of at
  // most kPiece so that a second pass over a piece finds it in the cache.
  template <typename Row>
  void ForRows(int64_t begin, int64_t end, const Row& row) const {
    constexpr int64_t kPiece = 4096;
    std::array<int64_t, kMaxOuter> at{};
    int64_t a = 0, b = 0, offset = begin % inner;
    for (int64_t i = outer_rank - 1, rest = begin / inner; i >= 0; --i) {
      at[i] = rest % outer[i];
      rest /= outer[i];
      a += at[i] * a_stride[i];
      b += at[i] * b_stride[i];
    }
    while (begin < end) {
      const int64_t n = std::min({inner - offset, end - begin, kPiece});
      row(begin, a + offset * a_step, b + offset * b_step, n);
      begin += n;
      offset += n;
      if (offset < inner) continue;
      offset = 0;
      for (int i = outer_rank - 1; i >= 0; --i) {
        a += a_stride[i];
        b += b_stride[i];
        if (++at[i] < outer[i]) break;
        a -= outer[i] * a_stride[i];
        b -= outer[i] * b_stride[i];
        at[i] = 0;
      }
    }
  }
};

// Nothing when the shapes do not broadcast to `y` or need more than 6 dimensions around a row.
std::optional<BroadcastPlan> PlanBroadcast(const Shape& a, const Shape& b, const Shape& y);

}  // namespace evoq
