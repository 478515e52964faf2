// Range by the least Kullback-Leibler divergence (S. Migacz, "8-bit Inference with TensorRT", GTC
// 2017).
#include <algorithm>
#include <cmath>

#include "quant/observer.h"

namespace evoq {
namespace {

// KL(P || Q) for a threshold after `keep` bins. P: the first `keep` counts, what lies above added
// to the last one. Q: the counts without that addition, merged into `levels` equal groups and
// spread evenly over the group's non-empty bins. Both are normalized; a bin of P that Q lacks makes
// the divergence infinite, which smoothing by kFloor bounds.
double Divergence(std::span<const int64_t> counts, size_t keep, size_t levels, double total) {
  constexpr double kFloor = 1e-9;
  double above = 0;
  for (size_t i = keep; i < counts.size(); ++i) above += static_cast<double>(counts[i]);
  const double kept = total - above;
  if (kept <= 0) return INFINITY;
  double divergence = 0;
  for (size_t level = 0; level < levels; ++level) {
    const size_t begin = level * keep / levels, end = (level + 1) * keep / levels;
    double sum = 0;
    int filled = 0;
    for (size_t i = begin; i < end; ++i) {
      sum += static_cast<double>(counts[i]);
      filled += counts[i] > 0 || (i + 1 == keep && above > 0);
    }
    if (filled == 0) continue;
    const double q = std::max(sum / filled / kept, kFloor);
    for (size_t i = begin; i < end; ++i) {
      const double p = (static_cast<double>(counts[i]) + (i + 1 == keep ? above : 0)) / total;
      if (p > 0) divergence += p * std::log(p / q);
    }
  }
  return divergence;
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
  double total = 0;
  for (int64_t c : counts) total += static_cast<double>(c);
  if (total == 0) return observed.range;
  size_t best = counts.size();
  double least = INFINITY;
  for (size_t keep = levels; keep <= counts.size(); ++keep) {
    const double divergence = Divergence(counts, keep, levels, total);
    if (divergence <= least) {
      least = divergence;
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
