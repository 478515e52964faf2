#include "quant/quant.h"

namespace evoq {

extern const QuantScheme kSchemeInt8Dynamic = {
    .name = "int8-dynamic",
    .doc =
        "Weights int8 per output channel, activations quantized at each run by their own range. "
        "Needs no data.",
    .precision = Precision::kInt8,
    .needs_calibration = false,
    .values = DType::kFloat32,
    .widens = true,
    .run = [](Graph& graph, const Ranges&,
              const QuantizeOptions& options) { return QuantizeDynamic(graph, options); },
};

}  // namespace evoq
