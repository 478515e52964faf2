#include "kernels/conv/tap_sums.h"

#include <gtest/gtest.h>

namespace evoq {
namespace {

// Neighbouring bands of a convolution with many taps share input lines, each of whose products is
// computed again: less than half as many as there are, where the sums of so many lines have room.
TEST(TapSums, BandsShareFewLines) {
  for (const int64_t size : {64, 134, 262}) {
    for (const int64_t taps : {3, 7, 9}) {
      const ConvShapeF32 shape{.channels_in = 32,
                               .channels_out = 3,
                               .in = {1, size, size},
                               .out = {1, size - taps + 1, size - taps + 1},
                               .kernel = {1, taps, taps}};
      for (const int64_t band_bytes : {int64_t{64} << 10, int64_t{256} << 10}) {
        const TapSums sums(shape, false, band_bytes, 1);
        if (4 * size * sums.columns() * 4 * taps > 4 << 20) continue;
        EXPECT_LT(2 * sums.bands() * sums.rows(), 3 * size * size + 2 * sums.rows())
            << size << " " << taps << " " << band_bytes;
      }
    }
  }
}

// What has no room for several lines has bands all the same.
TEST(TapSums, LargeLinesHaveBands) {
  const ConvShapeF32 shape{.channels_in = 8,
                           .channels_out = 4,
                           .in = {1, 20, 1 << 16},
                           .out = {1, 18, (1 << 16) - 2},
                           .kernel = {1, 3, 3}};
  const TapSums sums(shape, false, 256 << 10, 1);
  EXPECT_EQ(sums.bands(), 18);
  EXPECT_EQ(sums.rows(), int64_t{3} << 16);
}

}  // namespace
}  // namespace evoq
