#include "quant/observer.h"

namespace evoq {

extern const ObserverDef kAverageObserver = {
    .name = "average",
    .doc = "The means of the samples' smallest and largest values, in whatever order they come.",
    .histogram = HistogramKind::kNone,
    .choose = [](const Observed& observed, const CalibrationOptions&) { return observed.mean; }};

}  // namespace evoq
