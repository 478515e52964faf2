#include "quant/observer.h"

namespace evoq {

extern const ObserverDef kMovingAverageObserver = {
    .name = "moving-average",
    .doc =
        "The extremes of each sample, averaged exponentially with weight 0.01, in the order of the "
        "samples.",
    .histogram = HistogramKind::kNone,
    .choose = [](const Observed& observed, const CalibrationOptions&) { return observed.average; }};

}  // namespace evoq
