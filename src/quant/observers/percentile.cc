#include <algorithm>
#include <cmath>

#include "quant/observer.h"

namespace evoq {
namespace {

// The edges of the bins that keep `percentile` percent of the elements, half of the rest cut off on
// each side.
Range Choose(const Observed& observed, const CalibrationOptions& options) {
  const Histogram& h = observed.histogram;
  if (h.counts.empty()) return observed.range;
  const double cut = static_cast<double>(h.total()) * (100 - options.percentile) / 200;
  size_t first = 0, last = h.counts.size() - 1;
  for (double below = h.counts[first]; below <= cut && first < last; below += h.counts[++first]) {
  }
  for (double above = h.counts[last]; above <= cut && last > first; above += h.counts[--last]) {
  }
  return {static_cast<float>(h.low + first * h.width()),
          static_cast<float>(h.low + (last + 1) * h.width())};
}

}  // namespace

extern const ObserverDef kPercentileObserver = {
    .name = "percentile",
    .doc = "The range that holds the given percentage of the elements, cut equally at both ends.",
    .histogram = HistogramKind::kSigned,
    .takes_percentile = true,
    .choose = Choose};

}  // namespace evoq
