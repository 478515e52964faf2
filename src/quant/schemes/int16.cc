#include "quant/quant.h"

namespace evoq {

extern const QuantScheme kSchemeInt16 = {
    .name = "int16",
    .doc =
        "Static 16 bits: weights of Conv and MatMul int16 per output channel, their activations 16 "
        "bits with scales from calibration, arithmetic in integers.",
    .precision = Precision::kInt8,
    .needs_calibration = true,
    .observer = "minmax",  // what a clipped end gains is steps that 16 bits do not need
    .values = DType::kFloat32,
    .for_auto = false,  // int16-dynamic, whose data needs no samples
    .run =
        [](Graph& graph, const Ranges& ranges, const QuantizeOptions& options) {
          return QuantizeStaticBytes(graph, ranges, options, {.data = 2, .weights = 2});
        },
};

}  // namespace evoq
