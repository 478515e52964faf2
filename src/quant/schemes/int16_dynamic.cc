#include "quant/quant.h"

namespace evoq {

extern const QuantScheme kSchemeInt16Dynamic = {
    .name = "int16-dynamic",
    .doc =
        "Weights of Conv and MatMul int16 per output channel, their activations quantized to 16 "
        "bits "
        "at each run by their own range, arithmetic in integers. Needs no data.",
    .precision = Precision::kInt8,
    .needs_calibration = false,
    .values = DType::kFloat32,
    .for_auto = false,  // float32
    .run =
        [](Graph& graph, const Ranges&, const QuantizeOptions& options) {
          return QuantizeDynamic(graph, options, {.data = 2, .weights = 2});
        },
};

}  // namespace evoq
