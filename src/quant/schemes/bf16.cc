#include "quant/bf16.h"

namespace evoq {

extern const QuantScheme kSchemeBf16 = {
    .name = "bf16",
    .doc =
        "Weights and activations in bfloat16, sums in float32: half the bytes; faster where the "
        "processor multiplies bfloat16. Needs no data.",
    .precision = Precision::kBf16,
    .needs_calibration = false,
    .values = DType::kBfloat16,
    .processor_decides = true,
    .run = [](Graph& graph, const Ranges&,
              const QuantizeOptions& options) { return ConvertToBf16(graph, options); },
};

}  // namespace evoq
