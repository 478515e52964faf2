// What is kept of the last minutes.
#include "serve/statistics.h"

#include <gtest/gtest.h>

namespace evoq::serve {
namespace {

using Clock = Statistics::Clock;

Clock::time_point At(double slices) {
  return Clock::time_point(std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(slices * kSliceSeconds)));
}

InferenceTimes Took(double seconds) {
  InferenceTimes times;
  times.infer_ns = static_cast<int64_t>(seconds * 1e9);
  return times;
}

TEST(Statistics, HistoryHasTheSlicesThatAreOver) {
  Statistics statistics;
  statistics.Succeeded(1, Took(0.010), At(1000.1));
  statistics.Succeeded(1, Took(0.010), At(1000.9));
  statistics.Failed(Why::kOverloaded, 0, At(1002.5));
  statistics.Succeeded(1, Took(0.010), At(1003.5));  // of a slice that is not over
  const auto slices = statistics.History(At(1003.6));
  ASSERT_EQ(slices.size(), static_cast<size_t>(kSlices));
  for (const HistorySlice& slice : slices) {
    EXPECT_EQ(slice.success, slice.number == 1000 ? 2u : 0u) << slice.number;
    EXPECT_EQ(slice.failure, slice.number == 1002 ? 1u : 0u) << slice.number;
  }
  EXPECT_EQ(slices.back().number, 1002);
}

TEST(Statistics, HistoryForgets) {
  Statistics statistics;
  statistics.Succeeded(1, Took(0.010), At(1000.5));
  const auto last = statistics.History(At(1000.0 + kSlices));
  EXPECT_EQ(last.front().number, 1000);
  EXPECT_EQ(last.front().success, 1u);
  const auto later = statistics.History(At(1001.0 + kSlices));
  EXPECT_EQ(later.front().success, 0u);
  // Where the slice lay, one that nobody asked in has its place now.
  EXPECT_EQ(statistics.History(At(1002.0 + kSlices)).back().success, 0u);
  // The place of a slice that is long over is taken by another, also where nothing came between.
  statistics.Succeeded(1, Took(0.010), At(1000.5 + 10 * (kSlices + 1)));
  const auto much_later = statistics.History(At(1001.5 + 10 * (kSlices + 1)));
  EXPECT_EQ(much_later.back().success, 1u);
  // A young clock has no slices before it began.
  EXPECT_EQ(Statistics().History(At(3.5)).size(), static_cast<size_t>(kSlices));
}

TEST(Statistics, QuantilesAreKnownToNinePercent) {
  Statistics statistics;
  for (int i = 1; i <= 1000; ++i) statistics.Succeeded(1, Took(1e-3 * i), At(7.5));
  const HistorySlice slice = statistics.History(At(8)).back();
  for (double share : {0.01, 0.1, 0.5, 0.9, 0.99})
    EXPECT_NEAR(slice.Quantile(share) / share, 1, 0.0906) << share;
  EXPECT_EQ(HistorySlice().Quantile(0.5), 0);
  Statistics extreme;
  extreme.Succeeded(1, Took(0), At(7.5));
  extreme.Succeeded(1, Took(1000), At(7.5));
  EXPECT_NEAR(extreme.History(At(8)).back().Quantile(0.5), 61e-6, 10e-6);
  EXPECT_NEAR(extreme.History(At(8)).back().Quantile(1), 32, 4);
}

}  // namespace
}  // namespace evoq::serve
