#include "quant/observer.h"

namespace evoq {

extern const ObserverDef kMovingAverageObserver = {
    "moving-average", Observer::kMovingAverage,
    "The extremes of each sample, averaged exponentially with weight 0.01, in the order of the "
    "samples.",
    HistogramKind::kNone,
    [](const Observed& observed, const CalibrationOptions&) { return observed.average; }};

}  // namespace evoq
