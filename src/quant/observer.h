// How a range is chosen from what a value was seen to be: one row (ObserverDef) in its own file,
// named by one line in quant/observers.inc.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "quant/quant.h"

namespace evoq {

// Counts of a value's elements in equal bins of [low, high]; an element on an inner border counts
// in the upper bin.
struct Histogram {
  double low = 0, high = 0;
  std::vector<int64_t> counts;

  double width() const { return (high - low) / static_cast<double>(counts.size()); }
  double centre(size_t bin) const { return low + (static_cast<double>(bin) + 0.5) * width(); }
  int64_t total() const;
};

// What the calibration data showed of one value.
struct Observed {
  Range range;    // smallest and largest element of all samples
  Range average;  // per-sample extremes, averaged: a <- 0.99 a + 0.01 new, starting with the first
                  // sample's
  Range mean;     // their means
  Histogram
      histogram;  // counts empty unless the observer asks for it, or when range.min == range.max
};

enum class HistogramKind {
  kNone,
  kSigned,     // over [range.min, range.max]
  kMagnitude,  // of |x| over [0, max(|range.min|, |range.max|)]
};

struct ObserverDef {
  const char* name;  // "minmax": what --observer names
  const char* doc;   // one sentence for the documentation
  HistogramKind histogram = HistogramKind::kNone;
  bool takes_percentile = false;  // CalibrationOptions::percentile
  Range (*choose)(const Observed& observed, const CalibrationOptions& options);
};

std::span<const ObserverDef* const> AllObservers();
const ObserverDef* FindObserver(std::string_view name);  // nullptr when there is none
// The one that the options name.
const ObserverDef& ObserverOf(const CalibrationOptions& options);

}  // namespace evoq
