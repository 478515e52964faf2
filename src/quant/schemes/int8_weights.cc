#include "quant/quant.h"

namespace evoq {

extern const QuantScheme kSchemeInt8Weights = {
    .name = "int8-weights",
    .doc =
        "Weights only: int8 per output channel in the file, arithmetic in float32. Needs no data.",
    .precision = Precision::kInt8,
    .needs_calibration = false,
    .values = DType::kFloat32,
    .weights_only = true,
    .widens = true,
    .run = [](Graph& graph, const Ranges&,
              const QuantizeOptions& options) { return QuantizeWeights(graph, options); },
};

}  // namespace evoq
