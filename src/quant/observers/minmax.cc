#include "quant/observer.h"

namespace evoq {

extern const ObserverDef kMinMaxObserver = {
    .name = "minmax",
    .doc = "The smallest and the largest value seen: nothing is ever cut off.",
    .histogram = HistogramKind::kNone,
    .choose = [](const Observed& observed, const CalibrationOptions&) { return observed.range; }};

}  // namespace evoq
