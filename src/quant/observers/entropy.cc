// Range by the least Kullback-Leibler divergence (S. Migacz, "8-bit Inference with TensorRT", GTC
// 2017).
#include <algorithm>
#include <cmath>

#include "quant/observer.h"

namespace evoq {
namespace {

// What is summed of the bins before each one, and of all.
class Sums {
 public:
  explicit Sums(std::span<const int64_t> counts) {
    bins_.push_back({});
    for (const int64_t count : counts) {
      Bins next = bins_.back();
      next.values += static_cast<double>(count);
      next.filled += count > 0;
      next.surprise += Surprise(static_cast<double>(count));
      bins_.push_back(next);
    }
  }

  struct Bins {
    double values = 0, filled = 0;
    double surprise = 0;  // sum of count * log(count)
  };
  static double Surprise(double count) { return count > 0 ? count * std::log(count) : 0; }

  size_t size() const { return bins_.size() - 1; }
  double total() const { return bins_.back().values; }
  Bins Of(size_t begin, size_t end) const {
    const Bins &from = bins_[begin], &to = bins_[end];
    return {to.values - from.values, to.filled - from.filled, to.surprise - from.surprise};
  }

 private:
  std::vector<Bins> bins_;
};

// The divergence of Q from P for a threshold after `keep` bins, sum of p log(p / q) - p + q. P: the
// first `keep` counts, what lies above added to the last one. Q: the counts without that addition,
// merged into `levels` equal groups and spread evenly over the group's non-empty bins; a bin of P
// that Q lacks makes the divergence infinite, which smoothing by kFloor bounds. Both are shares of
// all values, so that Q lacks what is cut off. Made a distribution of its own, as in the source, Q
// is close to P where nearly all is cut off: of values in a band away from 0, whose first bin alone
// would be kept. Where little is cut off both are the same.
double Divergence(const Sums& sums, size_t keep, size_t levels) {
  constexpr double kFloor = 1e-9;
  const double total = sums.total(), above = sums.Of(keep, sums.size()).values;
  double divergence = 0;
  for (size_t level = 0; level < levels; ++level) {
    const size_t begin = level * keep / levels, end = (level + 1) * keep / levels;
    Sums::Bins group = sums.Of(begin, end);
    const double kept = group.values;
    if (end == keep && end > begin && above > 0) {
      const Sums::Bins last = sums.Of(keep - 1, keep);
      group.values += above;
      group.filled += last.filled == 0;
      group.surprise += Sums::Surprise(last.values + above) - last.surprise;
    }
    if (group.filled == 0) continue;
    const double q = std::max(kept / group.filled / total, kFloor);
    divergence += (group.surprise - group.values * std::log(total * q)) / total;
  }
  return divergence - above / total;
}

Range Choose(const Observed& observed, const CalibrationOptions&) {
  const Histogram& h = observed.histogram;
  // A value of one sign has the whole 8 bits on its side of zero.
  const bool one_sided = observed.range.min >= 0 || observed.range.max <= 0;
  const size_t levels = one_sided ? 255 : 128;
  if (h.counts.size() <= levels) return observed.range;
  // Zeros say nothing about the range: a Relu makes so many that they would hide the rest.
  std::vector<int64_t> counts = h.counts;
  counts[0] = counts[1];
  const Sums sums(counts);
  if (sums.total() == 0) return observed.range;
  constexpr double kSame = 1e-13;  // less differs by rounding alone
  size_t best = counts.size();
  double least = INFINITY;
  for (size_t keep = levels; keep <= counts.size(); ++keep) {
    const double divergence = Divergence(sums, keep, levels);
    if (divergence <= least + kSame) {
      least = std::min(least, divergence);
      best = keep;
    }
  }
  const auto threshold = static_cast<float>(static_cast<double>(best) * h.width());
  return {std::max(observed.range.min, -threshold), std::min(observed.range.max, threshold)};
}

}  // namespace

extern const ObserverDef kEntropyObserver = {
    .name = "entropy",
    .doc =
        "The magnitude whose 8-bit histogram loses least information (Kullback-Leibler divergence) "
        "against the full one.",
    .histogram = HistogramKind::kMagnitude,
    .choose = Choose};

}  // namespace evoq
