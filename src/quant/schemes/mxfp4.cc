// MXFP4 (OCP Microscaling Formats, 1.0): float4e2m1 with scales that are powers of two.
#include "quant/low_bits.h"
#include "quant/quant.h"

namespace evoq {

extern const LowBits kMxfp4Bits = {
    .name = "mxfp4",
    .dtype = DType::kFloat4E2M1,
    .integers = true,
    .loops = Mxfp4LoopsFor,
};

extern const QuantScheme kSchemeMxfp4Weights = {
    .name = "mxfp4-weights",
    .doc =
        "Weights only: those of MatMul float4e2m1 with scales that are powers of two, in blocks "
        "along K (--block 32 is MXFP4), the others int8; arithmetic in float32. Needs no data.",
    .precision = Precision::kInt8,
    .needs_calibration = false,
    .values = DType::kFloat32,
    .weights_only = true,
    .widens = true,
    .low_bits = &kMxfp4Bits,
    .run =
        [](Graph& graph, const Ranges&, const QuantizeOptions& options) {
          return QuantizeWeights(graph, options, {.low_bits = &kMxfp4Bits});
        },
};

extern const QuantScheme kSchemeMxfp4Dynamic = {
    .name = "mxfp4-dynamic",
    .doc =
        "As mxfp4-weights, and MatMul rounds its data to int8 at each run, in blocks of 128, "
        "and multiplies integers. Needs no data.",
    .precision = Precision::kInt8,
    .needs_calibration = false,
    .values = DType::kFloat32,
    .widens = true,
    .low_bits = &kMxfp4Bits,
    .run =
        [](Graph& graph, const Ranges&, const QuantizeOptions& options) {
          return QuantizeWeights(graph, options, {.low_bits = &kMxfp4Bits, .rounding = true});
        },
};

}  // namespace evoq
