#include "quant/quant.h"

namespace evoq {

extern const QuantMethod kMethodInt4Weights = {
    .name = "int4-weights",
    .doc =
        "Weights only: those of MatMul int4 in blocks along K (--block), the others int8; "
        "arithmetic in float32. Needs no data.",
    .precision = Precision::kInt8,
    .needs_calibration = false,
    .values = DType::kFloat32,
    .weights_only = true,
    .widens = true,
    .run =
        [](Graph& graph, const Ranges&, const QuantizeOptions& options) {
          return QuantizeWeights(graph, options, WeightsAs::kInt4);
        },
};

}  // namespace evoq
