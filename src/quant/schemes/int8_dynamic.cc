#include "quant/quant.h"

namespace evoq {

extern const QuantScheme kSchemeInt8Dynamic = {
    .name = "int8-dynamic",
    .doc =
        "Weights int8 per output channel, activations quantized at each run by their own range; in "
        "language models with caches those of MatMul in blocks of 128 of a row. Needs no data.",
    .precision = Precision::kInt8,
    .needs_calibration = false,
    .values = DType::kFloat32,
    .widens = true,
    .run =
        [](Graph& graph, const Ranges&, const QuantizeOptions& options) {
          // .onnx files have no data in blocks beside int8 weights.
          if (HasCaches(graph) && !options.equal_blocks)
            return QuantizeWeights(graph, options, {.rounding = true, .rounds_beside_int8 = true});
          return QuantizeDynamic(graph, options);
        },
};

}  // namespace evoq
