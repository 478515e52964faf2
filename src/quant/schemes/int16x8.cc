#include "quant/quant.h"

namespace evoq {

extern const QuantScheme kSchemeInt16x8 = {
    .name = "int16x8",
    .doc =
        "Static 16 bits: weights int8 per output channel, activations of Conv and MatMul 16 bits "
        "with scales from calibration, arithmetic in integers.",
    .precision = Precision::kInt8,
    .needs_calibration = true,
    .observer = "minmax",  // what a clipped end gains is steps that 16 bits do not need
    .values = DType::kFloat32,
    .for_auto = false,  // int16x8-dynamic, whose data needs no samples
    .run =
        [](Graph& graph, const Ranges& ranges, const QuantizeOptions& options) {
          return QuantizeStaticBytes(graph, ranges, options, {.data = 2});
        },
};

}  // namespace evoq
