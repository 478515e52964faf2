// NF4: quantiles of the normal distribution, times the largest magnitude of the block or a little
// less.
#include "quant/low_bits.h"
#include "quant/quant.h"
#include "tensor/normal_float.h"

namespace evoq {

extern const LowBits kNf4Bits = {
    .name = "nf4",
    .dtype = kNormalFloat4,
    .integers = false,
    .loops = Nf4LoopsFor,
};

extern const QuantScheme kSchemeNf4Weights = {
    .name = "nf4-weights",
    .doc =
        "Weights only: those of MatMul NF4 in blocks along K (--block), the others int8; "
        "arithmetic in float32. Needs no data.",
    .precision = Precision::kInt8,
    .needs_calibration = false,
    .values = DType::kFloat32,
    .weights_only = true,
    .widens = true,
    .low_bits = &kNf4Bits,
    .run =
        [](Graph& graph, const Ranges&, const QuantizeOptions& options) {
          return QuantizeWeights(graph, options, {.low_bits = &kNf4Bits});
        },
};

}  // namespace evoq
