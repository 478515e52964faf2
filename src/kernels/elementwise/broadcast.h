// ONNX broadcasting of several inputs, reduced to rows along which each input either advances by
// one element or stands still.
#pragma once

#include <array>
#include <optional>

#include "kernels/call_util.h"

namespace evoq {

// A number for each input.
template <size_t kInputs>
using PerInput = std::array<int64_t, kInputs>;

template <size_t kInputs>
struct BroadcastPlanOf {
  static constexpr int kMaxOuter = 6;
  int64_t elements = 0;
  int64_t inner = 1;       // elements of a row
  PerInput<kInputs> step;  // along a row: 0 or 1
  int outer_rank = 0;      // of the dimensions around a row
  std::array<int64_t, kMaxOuter> outer{};
  std::array<PerInput<kInputs>, kMaxOuter> stride{};  // by dimension

  BroadcastPlanOf() { step.fill(1); }

  // Calls group(first output element, the inputs' elements, n, count, distances) for the elements
  // [begin, end), in order: `count` rows of n elements, those of each input that distance apart.
  template <typename Group>
  void ForGroups(int64_t begin, int64_t end, const Group& group) const {
    std::array<int64_t, kMaxOuter> at{};
    PerInput<kInputs> from{};
    const auto move = [&](int i, int64_t steps) {
      for (size_t k = 0; k < kInputs; ++k) from[k] += steps * stride[i][k];
    };
    int64_t offset = begin % inner;
    for (int64_t i = outer_rank - 1, rest = begin / inner; i >= 0; --i) {
      at[i] = rest % outer[i];
      rest /= outer[i];
      move(static_cast<int>(i), at[i]);
    }
    const int last = outer_rank - 1;
    const PerInput<kInputs> row = last < 0 ? PerInput<kInputs>{} : stride[last];
    while (begin < end) {
      const int64_t n = std::min(inner - offset, end - begin);
      const int64_t count =
          last < 0 || n < inner ? 1 : std::min(outer[last] - at[last], (end - begin) / inner);
      PerInput<kInputs> first = from;
      for (size_t k = 0; k < kInputs; ++k) first[k] += offset * step[k];
      group(begin, first, n, count, row);
      begin += n * count;
      offset += n;
      if (offset < inner) continue;
      offset = 0;
      for (int i = last; i >= 0; --i) {
        const int64_t steps = i == last ? count : 1;
        move(i, steps);
        at[i] += steps;
        if (at[i] < outer[i]) break;
        move(i, -outer[i]);
        at[i] = 0;
      }
    }
  }

  // Calls row(first output element, the inputs' elements, n) for the elements [begin, end), in
  // order, in pieces of at most kPiece so that a second pass over a piece finds it in the cache.
  template <typename Row>
  void ForRows(int64_t begin, int64_t end, const Row& row) const {
    constexpr int64_t kPiece = 4096;
    ForGroups(begin, end,
              [&](int64_t at, PerInput<kInputs> from, int64_t n, int64_t count,
                  const PerInput<kInputs>& distance) {
                for (int64_t r = 0; r < count; ++r, at += n) {
                  for (int64_t i = 0; i < n; i += kPiece) {
                    PerInput<kInputs> piece = from;
                    for (size_t k = 0; k < kInputs; ++k) piece[k] += i * step[k];
                    row(at + i, piece, std::min(kPiece, n - i));
                  }
                  for (size_t k = 0; k < kInputs; ++k) from[k] += distance[k];
                }
              });
  }
};
using BroadcastPlan = BroadcastPlanOf<2>;

// Rows of few elements go together, as many as fit into kWrittenOut. Longer ones do so where
// nothing has to be written out for each.
inline constexpr int64_t kShortRow = 32, kMiddleRow = 256, kWrittenOut = 1024;

// An operand's rows of n elements behind each other: as they lie, or written out.
template <typename T>
class RowsBehind {
 public:
  RowsBehind(const T* x, int64_t n, int64_t step, int64_t distance, T* room)
      : x_(x), n_(n), step_(step), distance_(distance), room_(room) {}
  bool lies() const { return step_ == 1 && distance_ == n_; }
  bool repeats() const { return distance_ == 0; }

  // Rows [r, r + rows), at most as many as the first time.
  const T* At(int64_t r, int64_t rows) {
    if (lies()) return x_ + r * n_;
    if (repeats() && written_) return room_;
    written_ = true;
    for (int64_t i = 0; i < rows; ++i) {
      const T* const from = x_ + (r + i) * distance_;
      T* const to = room_ + i * n_;
      if (step_ == 0) {
        const T one = *from;
        for (int64_t j = 0; j < n_; ++j) to[j] = one;
      } else {
        for (int64_t j = 0; j < n_; ++j) to[j] = from[j];
      }
    }
    return room_;
  }

 private:
  const T* x_;
  int64_t n_, step_, distance_;
  T* room_;
  bool written_ = false;
};

// Whether rows of n elements, fewer than kMiddleRow, of two operands go together.
template <typename T>
bool GoTogether(int64_t n, const RowsBehind<T>& a, const RowsBehind<T>& b) {
  return n < kShortRow || ((a.lies() || a.repeats()) && (b.lies() || b.repeats()));
}

// Nothing when the shapes do not broadcast to `y` or need more than 6 dimensions around a row. For
// two and three inputs.
template <size_t kInputs>
std::optional<BroadcastPlanOf<kInputs>> PlanBroadcastOf(
    const std::array<const Shape*, kInputs>& inputs, const Shape& y);
inline std::optional<BroadcastPlan> PlanBroadcast(const Shape& a, const Shape& b, const Shape& y) {
  return PlanBroadcastOf<2>({&a, &b}, y);
}

}  // namespace evoq
