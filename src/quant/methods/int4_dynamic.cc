#include "quant/quant.h"

namespace evoq {

extern const QuantMethod kMethodInt4Dynamic = {
    .name = "int4-dynamic",
    .doc =
        "As int4-weights, and MatMul rounds its data to int8 at each run, by blocks as its "
        "weights, and multiplies integers. Needs no data.",
    .precision = Precision::kInt8,
    .needs_calibration = false,
    .values = DType::kFloat32,
    .widens = true,
    .run =
        [](Graph& graph, const Ranges&, const QuantizeOptions& options) {
          return QuantizeWeights(graph, options, WeightsAs::kInt4Rounding);
        },
};

}  // namespace evoq
