// Columns of convolutions beside a loop over every element.
#include "train/gradients/columns.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace evoq {
namespace {

// Calls body(index in col, index in x, or -1 for what lies outside).
template <typename Body>
void ForElements(const ConvExtents& s, const Body& body) {
  int64_t row = 0;
  for (int64_t c = 0; c < s.in_channels; ++c) {
    for (int64_t k = 0; k < s.taps(); ++k, ++row) {
      const int64_t tap[3] = {k / (s.kernel[1] * s.kernel[2]), k / s.kernel[2] % s.kernel[1],
                              k % s.kernel[2]};
      for (int64_t o = 0; o < s.out_size(); ++o) {
        const int64_t at[3] = {o / (s.out[1] * s.out[2]), o / s.out[2] % s.out[1], o % s.out[2]};
        int64_t from = c;
        bool inside = true;
        for (int d = 0; d < 3; ++d) {
          const int64_t i = at[d] * s.stride[d] + tap[d] * s.dilation[d] - s.pad[d];
          inside = inside && i >= 0 && i < s.in[d];
          from = from * s.in[d] + i;
        }
        body(row * s.out_size() + o, inside ? from : -1);
      }
    }
  }
}

ConvExtents Extents(std::mt19937& random) {
  const auto pick = [&](int64_t most) { return static_cast<int64_t>(random() % most) + 1; };
  ConvExtents s;
  s.in_channels = pick(3);
  const bool volume = random() % 5 == 0, same = random() % 4 != 0;
  for (int d = volume ? 0 : 1; d < 3; ++d) {
    s.in[d] = pick(9);
    s.kernel[d] = pick(5);
    s.dilation[d] = pick(2);
    s.stride[d] = same ? 1 : pick(3);
    const int64_t reach = (s.kernel[d] - 1) * s.dilation[d];
    s.pad[d] = random() % static_cast<uint32_t>(reach + 2);
    // Unequal pads at the other end give `same` sizes too.
    s.out[d] = same ? s.in[d]
                    : std::max<int64_t>(0, (s.in[d] + 2 * s.pad[d] - reach - 1)) / s.stride[d] + 1;
  }
  return s;
}

TEST(Columns, AreWhatEachTapReads) {
  std::mt19937 random(1);
  int moves = 0;
  for (int i = 0; i < 400; ++i) {
    const ConvExtents s = Extents(random);
    moves += IsMove(s);
    const auto x_size = static_cast<size_t>(s.in_channels * s.in_size()),
               size = static_cast<size_t>(s.in_channels * s.taps() * s.out_size());
    std::vector<float> x(x_size), col(size, 7), wanted(size), dx(x_size), sums(x_size);
    for (float& v : x) v = static_cast<float>(random() % 100);
    for (size_t k = 0; k < x_size; ++k) dx[k] = sums[k] = static_cast<float>(random() % 100);
    ForElements(s, [&](int64_t to, int64_t from) {
      wanted[static_cast<size_t>(to)] = from < 0 ? 0 : x[static_cast<size_t>(from)];
    });
    ToColumns(s, x.data(), col.data());
    ASSERT_EQ(col, wanted) << i;
    for (float& v : col) v = static_cast<float>(random() % 100);
    ForElements(s, [&](int64_t to, int64_t from) {
      if (from >= 0) sums[static_cast<size_t>(from)] += col[static_cast<size_t>(to)];
    });
    AddColumns(s, col.data(), dx.data());
    ASSERT_EQ(dx, sums) << i;
  }
  EXPECT_GT(moves, 100);
  EXPECT_LT(moves, 300);
}

}  // namespace
}  // namespace evoq
