#include "quant/observers/least_error.h"

namespace evoq {

// AIMET's scheme tf_enhanced ("SQNR"): saturation noise counts gamma = 3 times.
extern const ObserverDef kSqnrObserver = {
    .name = "sqnr",
    .doc =
        "As mse, but what is cut off weighs three times what rounding loses (AIMET's "
        "tf_enhanced).",
    .histogram = HistogramKind::kSigned,
    .choose = [](const Observed& observed, const CalibrationOptions&) {
      return LeastErrorRange(observed, 3);
    }};

}  // namespace evoq
