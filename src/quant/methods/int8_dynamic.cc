#include "quant/quant.h"

namespace evoq {

extern const QuantMethod kMethodInt8Dynamic = {
    "int8-dynamic",
    "Weights int8 per output channel, activations quantized at each run by their own range. Needs "
    "no data.",
    /*needs_calibration=*/false, /*values=*/DType::kFloat32,
    [](Graph& graph, const Ranges&, const QuantizeOptions& options) {
      return QuantizeDynamic(graph, options);
    }};

}  // namespace evoq
