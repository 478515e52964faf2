#include "quant/bf16.h"

namespace evoq {

extern const QuantMethod kMethodBf16 = {
    "bf16",
    "Weights and activations in bfloat16, sums in float32: half the bytes, about twice the speed. "
    "Needs no data.",
    /*needs_calibration=*/false, /*values=*/DType::kBfloat16,
    [](Graph& graph, const Ranges&, const QuantizeOptions& options) {
      return ConvertToBf16(graph, options);
    }};

}  // namespace evoq
