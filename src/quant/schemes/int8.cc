#include "quant/quant.h"

namespace evoq {

extern const QuantScheme kSchemeInt8 = {
    .name = "int8",
    .doc =
        "Static int8: weights per output channel, activations with scales from calibration, "
        "integer arithmetic.",
    .precision = Precision::kInt8,
    .needs_calibration = true,
    .values = DType::kUint8,
    .prepare = SplitForStatic,
    .run = [](Graph& graph, const Ranges& ranges,
              const QuantizeOptions& options) { return QuantizeStatic(graph, ranges, options); },
};

}  // namespace evoq
