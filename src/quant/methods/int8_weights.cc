#include "quant/quant.h"

namespace evoq {

extern const QuantMethod kMethodInt8Weights = {
    "int8-weights",
    "Weights only: int8 per output channel in the file, arithmetic in float32. Needs no data.",
    /*needs_calibration=*/false, /*values=*/DType::kFloat32,
    [](Graph& graph, const Ranges&, const QuantizeOptions& options) {
      return QuantizeWeights(graph, options);
    }};

}  // namespace evoq
