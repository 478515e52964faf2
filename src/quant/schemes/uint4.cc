// uint4: sixteen numbers one apart, any of which is zero: asymmetric int4.
#include "quant/low_bits.h"
#include "quant/quant.h"

namespace evoq {

extern const LowBits kUint4Bits = {
    .name = "uint4",
    .dtype = DType::kUint4,
    .integers = true,
    .loops = Uint4LoopsFor,
};

extern const QuantScheme kSchemeUint4Weights = {
    .name = "uint4-weights",
    .doc =
        "Weights only: those of MatMul uint4 with zero points in blocks along K (--block), the "
        "others int8; arithmetic in float32. Needs no data.",
    .precision = Precision::kInt8,
    .needs_calibration = false,
    .values = DType::kFloat32,
    .weights_only = true,
    .widens = true,
    .low_bits = &kUint4Bits,
    .run =
        [](Graph& graph, const Ranges&, const QuantizeOptions& options) {
          return QuantizeWeights(graph, options, {.low_bits = &kUint4Bits});
        },
};

extern const QuantScheme kSchemeUint4Dynamic = {
    .name = "uint4-dynamic",
    .doc =
        "As uint4-weights, and MatMul rounds its data to int8 at each run, in blocks of 128 (in "
        ".onnx files in those of its weights), and multiplies integers. Needs no data.",
    .precision = Precision::kInt8,
    .needs_calibration = false,
    .values = DType::kFloat32,
    .widens = true,
    .low_bits = &kUint4Bits,
    .run =
        [](Graph& graph, const Ranges&, const QuantizeOptions& options) {
          return QuantizeWeights(graph, options, {.low_bits = &kUint4Bits, .rounding = true});
        },
};

}  // namespace evoq
