#include "quant/observers/least_error.h"

namespace evoq {

extern const ObserverDef kMseObserver = {
    .name = "mse",
    .doc = "The range with the least mean squared error of 8-bit quantization.",
    .histogram = HistogramKind::kSigned,
    .choose = [](const Observed& observed, const CalibrationOptions&) {
      return LeastErrorRange(observed, 1);
    }};

}  // namespace evoq
