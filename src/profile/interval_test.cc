#include "profile/interval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace evoq {
namespace {

TEST(Interval, WilsonsShare) {
  const Interval i = ShareInterval(8, 10);  // Wilson 1927 in most textbooks: 0.490 to 0.943
  EXPECT_EQ(i.value, 0.8);
  EXPECT_NEAR(i.low, 0.4902, 1e-4);
  EXPECT_NEAR(i.high, 0.9433, 1e-4);
  EXPECT_EQ(ShareInterval(0, 20).low, 0);
  EXPECT_GT(ShareInterval(0, 20).high, 0.1);
  EXPECT_EQ(ShareInterval(20, 20).high, 1);
  EXPECT_NEAR(ShareInterval(81, 263).low, 0.2553, 5e-5);  // Newcombe 1998, table I
  EXPECT_NEAR(ShareInterval(81, 263).high, 0.3662, 5e-5);
}

TEST(Interval, PairedDropCountsDiscordantPairs) {
  const Interval i = PairedDrop(5, 3, 100);
  EXPECT_DOUBLE_EQ(i.value, 0.02);
  EXPECT_NEAR(i.low, -0.0380, 1e-4);  // (2 / 102) -+ 1.96 sqrt(9 - 4 / 102) / 102
  EXPECT_NEAR(i.high, 0.0772, 1e-4);
  const Interval other_way = PairedDrop(3, 5, 100);
  EXPECT_DOUBLE_EQ(other_way.low, -i.high);
  const Interval none = PairedDrop(0, 0, 500);
  EXPECT_EQ(none.value, 0);
  EXPECT_LT(none.high, 0.005);
}

TEST(Interval, SignalToNoiseOfSums) {
  const std::vector<double> signal = {100, 300, 600}, noise = {1, 3, 6};
  const Interval same = SignalToNoise(signal, noise);  // the ratio is 100 in every sample
  EXPECT_NEAR(same.value, 20, 1e-12);
  EXPECT_NEAR(same.low, 20, 1e-12);
  EXPECT_NEAR(same.high, 20, 1e-12);
  const std::vector<double> uneven = {5, 0.1, 0.1};
  const Interval wide = SignalToNoise(signal, uneven);
  EXPECT_LT(wide.low, wide.value);
  EXPECT_GT(wide.high, wide.value);
  EXPECT_TRUE(std::isinf(SignalToNoise(signal, std::vector<double>(3)).value));
}

TEST(Interval, MeansFarFromZeroAreSurelyNotZero) {
  EXPECT_TRUE(SurelyNotZero(std::vector<double>{1, 1.1, 0.9, 1}));
  EXPECT_TRUE(SurelyNotZero(std::vector<double>{-1, -1.1, -0.9, -1}));
  EXPECT_TRUE(SurelyNotZero(std::vector<double>{1, 1}));
  // Mean 1, standard error sqrt(3 / 4 / 3) = 0.5: two errors away.
  EXPECT_FALSE(SurelyNotZero(std::vector<double>{0.25, 0.25, 1, 2.5}));
  EXPECT_FALSE(SurelyNotZero(std::vector<double>{0, 0}));
  EXPECT_FALSE(SurelyNotZero(std::vector<double>{1}));
  EXPECT_FALSE(SurelyNotZero(std::vector<double>()));
}

}  // namespace
}  // namespace evoq
