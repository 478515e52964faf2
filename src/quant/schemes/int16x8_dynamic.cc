#include "quant/quant.h"

namespace evoq {

extern const QuantScheme kSchemeInt16x8Dynamic = {
    .name = "int16x8-dynamic",
    .doc =
        "Weights int8 per output channel, activations of Conv and MatMul quantized to 16 bits at "
        "each "
        "run by their own range, arithmetic in integers. Needs no data.",
    .precision = Precision::kInt8,
    .needs_calibration = false,
    .values = DType::kFloat32,
    .run =
        [](Graph& graph, const Ranges&, const QuantizeOptions& options) {
          return QuantizeDynamic(graph, options, {.data = 2});
        },
};

}  // namespace evoq
