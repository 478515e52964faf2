#include "profile/interval.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace evoq {
namespace {

constexpr double kZ = 1.959964;  // of the normal distribution, 95% two-sided
constexpr int kResamples = 2000;
constexpr double kLeastDb = -1000;

}  // namespace

Interval ShareInterval(int64_t count, int64_t total) {
  const double n = static_cast<double>(total), p = static_cast<double>(count) / n;
  const double center = (p + kZ * kZ / (2 * n)) / (1 + kZ * kZ / n);
  const double half = kZ / (1 + kZ * kZ / n) * std::sqrt(p * (1 - p) / n + kZ * kZ / (4 * n * n));
  return {p, std::max(0.0, center - half), std::min(1.0, center + half)};
}

Interval PairedDrop(int64_t lost, int64_t won, int64_t total) {
  const double n = static_cast<double>(total) + 2, b = static_cast<double>(lost) + 0.5,
               c = static_cast<double>(won) + 0.5;
  const double center = (b - c) / n, half = kZ * std::sqrt(b + c - (b - c) * (b - c) / n) / n;
  return {static_cast<double>(lost - won) / static_cast<double>(total),
          std::max(-1.0, center - half), std::min(1.0, center + half)};
}

Interval SignalToNoise(std::span<const double> signal, std::span<const double> noise) {
  // Of a signal of nothing, or noise without bounds (NaN where the signal is none), as little as
  // can be.
  const auto decibel = [](double s, double n) {
    if (n == 0) return std::numeric_limits<double>::infinity();
    const double db = 10 * std::log10(s / n);
    return std::isnan(db) ? kLeastDb : std::max(db, kLeastDb);
  };
  double all_signal = 0, all_noise = 0;
  for (size_t i = 0; i < signal.size(); ++i) all_signal += signal[i], all_noise += noise[i];
  std::mt19937_64 random(1);
  std::vector<double> resampled(kResamples);
  for (double& value : resampled) {
    double s = 0, n = 0;
    for (size_t i = 0; i < signal.size(); ++i) {
      const size_t at = static_cast<size_t>((random() >> 32) * signal.size() >> 32);
      s += signal[at];
      n += noise[at];
    }
    value = decibel(s, n);
  }
  std::sort(resampled.begin(), resampled.end());
  return {decibel(all_signal, all_noise), resampled[static_cast<size_t>(0.025 * kResamples)],
          resampled[static_cast<size_t>(0.975 * kResamples) - 1]};
}

double HalfMeanInterval(std::span<const double> figures) {
  // The 97.5% points of Student's distribution with 1, 2, ... degrees of freedom.
  constexpr double kStudent[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365};
  if (figures.size() < 2) return std::numeric_limits<double>::infinity();
  const double n = static_cast<double>(figures.size());
  const double mean = std::accumulate(figures.begin(), figures.end(), 0.0) / n;
  double squares = 0;
  for (double f : figures) squares += (f - mean) * (f - mean);
  return kStudent[std::min(figures.size() - 1, std::size(kStudent)) - 1] *
         std::sqrt(squares / (n * (n - 1)));
}

bool SurelyNotZero(std::span<const double> figures) {
  constexpr double kErrors = 4;
  const double n = static_cast<double>(figures.size());
  double sum = 0, squares = 0;
  for (double f : figures) sum += f, squares += f * f;
  const double mean = sum / n;
  return figures.size() > 1 &&
         mean * mean > kErrors * kErrors * std::max(0.0, squares / n - mean * mean) / (n - 1);
}

}  // namespace evoq
