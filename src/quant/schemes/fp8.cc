// MXFP8 (OCP Microscaling Formats, 1.0): float8e4m3fn or float8e5m2 with scales that are powers of
// two.
#include "quant/low_bits.h"
#include "quant/quant.h"

namespace evoq {

extern const LowBits kFp8Bits = {
    .name = "fp8",
    .dtype = DType::kFloat8E4M3FN,
    .integers = false,
    .loops = Fp8LoopsFor,
};
extern const LowBits kFp8E5m2Bits = {
    .name = "fp8-e5m2",
    .dtype = DType::kFloat8E5M2,
    .integers = false,
    .loops = Fp8E5m2LoopsFor,
};

extern const QuantScheme kSchemeFp8Weights = {
    .name = "fp8-weights",
    .doc =
        "Weights only: those of MatMul float8e4m3fn with scales that are powers of two, in blocks "
        "along K (--block 32 is MXFP8), the others int8; arithmetic in float32. Needs no data.",
    .precision = Precision::kInt8,
    .needs_calibration = false,
    .values = DType::kFloat32,
    .weights_only = true,
    .widens = true,
    .low_bits = &kFp8Bits,
    .for_auto = false,  // int8-weights
    .run =
        [](Graph& graph, const Ranges&, const QuantizeOptions& options) {
          return QuantizeWeights(graph, options, {.low_bits = &kFp8Bits});
        },
};

extern const QuantScheme kSchemeFp8E5m2Weights = {
    .name = "fp8-e5m2-weights",
    .doc =
        "Weights only: those of MatMul float8e5m2 with scales that are powers of two, in blocks "
        "along K (--block 32 is MXFP8), the others int8; arithmetic in float32. Needs no data.",
    .precision = Precision::kInt8,
    .needs_calibration = false,
    .values = DType::kFloat32,
    .weights_only = true,
    .widens = true,
    .low_bits = &kFp8E5m2Bits,
    .for_auto = false,  // int8-weights
    .run =
        [](Graph& graph, const Ranges&, const QuantizeOptions& options) {
          return QuantizeWeights(graph, options, {.low_bits = &kFp8E5m2Bits});
        },
};

}  // namespace evoq
