#include "profile/interval.h"

#include <gtest/gtest.h>

#include <algorithm>
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

TEST(Interval, SharesAgainstWilsonsFormulaByHand) {
  // p = 0.3, n = 10, z = 1.959964, z^2 = 3.841459: center (0.3 + 0.192073) / 1.384146 = 0.355507;
  // half 1.959964 / 1.384146 * sqrt(0.021 + 0.009604) = 0.247718.
  const Interval i = ShareInterval(3, 10);
  EXPECT_NEAR(i.low, 0.107791, 1e-5);
  EXPECT_NEAR(i.high, 0.603222, 1e-5);
  EXPECT_EQ(i.value, 0.3);
}

TEST(Interval, ValuesLieWithinTheirIntervals) {
  for (int64_t n : {1, 2, 10, 500}) {
    for (int64_t k = 0; k <= n; k += std::max<int64_t>(1, n / 10)) {
      const Interval share = ShareInterval(k, n);
      EXPECT_LE(share.low, share.value + 1e-12) << k << " of " << n;
      EXPECT_GE(share.high, share.value - 1e-12) << k << " of " << n;
      const Interval drop = PairedDrop(k, (n - k) / 2, n);
      EXPECT_LE(drop.low, drop.value) << k << " of " << n;
      EXPECT_GE(drop.high, drop.value) << k << " of " << n;
      EXPECT_GE(drop.low, -1);
      EXPECT_LE(drop.high, 1);
    }
  }
}

TEST(Interval, SignalToNoiseBootstrapByHand) {
  // Of four samples, k noisy ones are drawn with probability C(4,k) 3^(4-k) / 256: all four in 0.4%
  // of the resamples, three in 4.7%, none in 31.6%. The 2.5% point is that of three, 4 * 100 over 3
  // * 100 + 1, the 97.5% point that of none, 400 over 4.
  const std::vector<double> signal(4, 100), noise = {100, 1, 1, 1};
  const Interval i = SignalToNoise(signal, noise);
  EXPECT_NEAR(i.value, 10 * std::log10(400.0 / 103), 1e-9);
  EXPECT_NEAR(i.low, 10 * std::log10(400.0 / 301), 1e-9);
  EXPECT_NEAR(i.high, 20, 1e-9);
}

TEST(Interval, SignalToNoiseOfWhatIsNoNumber) {
  const std::vector<double> signal = {100, 100}, nothing = {0, 0};
  const double inf = INFINITY;
  EXPECT_EQ(SignalToNoise(signal, std::vector<double>{inf, inf}).value, -1000)
      << "the model gives NaN";
  EXPECT_EQ(SignalToNoise(signal, std::vector<double>{NAN, NAN}).value, -1000);
  EXPECT_EQ(SignalToNoise(nothing, std::vector<double>{1, 1}).value, -1000)
      << "noise where nothing should be";
  EXPECT_TRUE(std::isinf(SignalToNoise(nothing, nothing).value));
  EXPECT_GT(SignalToNoise(nothing, nothing).value, 0);
}

// The integral of the density of Student's distribution with so many degrees of freedom from 0 to
// `t`, by Simpson's rule.
double StudentBetween0And(double t, int freedom) {
  const double v = freedom;
  const double scale =
      std::exp(std::lgamma((v + 1) / 2) - std::lgamma(v / 2)) / std::sqrt(v * 3.14159265358979);
  const auto density = [&](double x) { return scale * std::pow(1 + x * x / v, -(v + 1) / 2); };
  constexpr int kParts = 2000;
  double sum = density(0) + density(t);
  for (int i = 1; i < kParts; ++i) sum += (i % 2 == 1 ? 4 : 2) * density(t * i / kParts);
  return sum * t / kParts / 3;
}

TEST(Interval, HalfOfTheMeansIntervalByStudentsDensity) {
  for (int n = 2; n <= 8; ++n) {
    // One figure of n is 1, the others 0: the variance is (n - 1) / n^2 * n / (n - 1) = 1 / n, the
    // mean's standard error 1 / n.
    std::vector<double> figures(static_cast<size_t>(n));
    figures[0] = 1;
    EXPECT_NEAR(StudentBetween0And(HalfMeanInterval(figures) * n, n - 1), 0.475, 2e-5) << n;
  }
  // Of more than eight, the factor of eight.
  std::vector<double> twenty(20);
  twenty[0] = 1;
  EXPECT_NEAR(HalfMeanInterval(twenty) * 20, 2.365, 1e-9);
  EXPECT_EQ(HalfMeanInterval(std::vector<double>{3}), INFINITY)
      << "one tells nothing of the spread";
  EXPECT_EQ(HalfMeanInterval(std::vector<double>{}), INFINITY);
}

TEST(Interval, HalfOfTheMeansIntervalByStudentsTable) {
  // 1, 2, 3, 4: standard deviation 1.290994, of the mean 0.645497; 97.5% point with 3 degrees of
  // freedom 3.182446.
  EXPECT_NEAR(HalfMeanInterval(std::vector<double>{1, 2, 3, 4}), 2.0543, 2e-3);
  // n figures of alternately 0 and 2 (an odd one more of 0): scipy.stats.t.ppf(0.975, n - 1) *
  // std(ddof=1) / sqrt(n).
  const std::pair<int, double> table[] = {{2, 12.7062}, {3, 2.86844}, {4, 1.83739}, {5, 1.36017},
                                          {6, 1.14960}, {7, 0.98870}, {8, 0.89374}};
  for (const auto& [n, half] : table) {
    std::vector<double> figures;
    for (int i = 0; i < n; ++i) figures.push_back(i % 2 == 1 ? 2 : 0);
    EXPECT_NEAR(HalfMeanInterval(figures), half, 1e-3 * half) << n;
  }
  EXPECT_EQ(HalfMeanInterval(std::vector<double>{5, 5, 5}), 0);
}

TEST(Interval, SurelyNotZeroMeansFourStandardErrors) {
  // Mean m, deviations of +-1 of four figures: standard error sqrt(4 / 4 / 3) = 0.57735, four of
  // them 2.3094.
  const auto figures = [](double m) { return std::vector<double>{m + 1, m - 1, m + 1, m - 1}; };
  EXPECT_FALSE(SurelyNotZero(figures(2.30)));
  EXPECT_TRUE(SurelyNotZero(figures(2.32)));
  EXPECT_FALSE(SurelyNotZero(figures(-2.30)));
  EXPECT_TRUE(SurelyNotZero(figures(-2.32)));
}

}  // namespace
}  // namespace evoq
