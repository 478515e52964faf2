#include "quant/quant.h"

namespace evoq {

extern const QuantMethod kMethodInt8 = {
    "int8",
    "Static int8: weights per output channel, activations with scales from calibration, integer "
    "arithmetic.",
    /*needs_calibration=*/true, /*values=*/DType::kUint8,
    [](Graph& graph, const Ranges& ranges, const QuantizeOptions& options) {
      return QuantizeStatic(graph, ranges, options);
    }};

}  // namespace evoq
