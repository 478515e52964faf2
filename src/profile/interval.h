// A measured value and how sure it is.
#pragma once

#include <cstdint>
#include <span>

namespace evoq {

// low and high bound the value with 95% confidence.
struct Interval {
  double value = 0, low = 0, high = 0;
};

// The share of `count` in `total` > 0 (Wilson, "Probable inference, the law of succession, and
// statistical inference", 1927).
Interval ShareInterval(int64_t count, int64_t total);

// (lost - won) / total: what one of two classifiers answers right less often than the other on the
// same samples. `lost`: only the other is right; `won`: only this one is (Agresti and Min, "Simple
// improved confidence intervals for comparing matched proportions", 2005).
Interval PairedDrop(int64_t lost, int64_t won, int64_t total);

// 10 log10(sum signal / sum noise), in dB: percentile interval of 2,000 bootstrap samples of the
// pairs, the same ones in every call. Without noise the value is infinite; never below -1000.
Interval SignalToNoise(std::span<const double> signal, std::span<const double> noise);

// Half of the 95% interval of the mean of two to eight independent figures (Student, "The probable
// error of a mean", 1908); of more, a little too wide; of fewer nothing is known: infinite.
double HalfMeanInterval(std::span<const double> figures);

// Whether the mean of independent figures is surely not 0: it is more than four of its standard
// errors away. False for fewer than two.
bool SurelyNotZero(std::span<const double> figures);

}  // namespace evoq
