#include "quant/observer.h"

namespace evoq {

extern const ObserverDef kMinMaxObserver = {
    "minmax", Observer::kMinMax,
    "The smallest and the largest value seen: nothing is ever cut off.", HistogramKind::kNone,
    [](const Observed& observed, const CalibrationOptions&) { return observed.range; }};

}  // namespace evoq
