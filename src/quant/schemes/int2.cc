// int2: four numbers one apart, of which zero is the second or the third.
#include "quant/low_bits.h"
#include "quant/quant.h"

namespace evoq {

extern const LowBits kInt2Bits = {
    .name = "int2",
    .dtype = DType::kUint2,
    .integers = true,
    .loops = Int2LoopsFor,
};

extern const QuantScheme kSchemeInt2Weights = {
    .name = "int2-weights",
    .doc =
        "Weights only: those of MatMul uint2 with zero points in blocks along K (--block), the "
        "others int8; arithmetic in float32. Needs no data.",
    .precision = Precision::kInt8,
    .needs_calibration = false,
    .values = DType::kFloat32,
    .weights_only = true,
    .widens = true,
    .low_bits = &kInt2Bits,
    .run =
        [](Graph& graph, const Ranges&, const QuantizeOptions& options) {
          return QuantizeWeights(graph, options, {.low_bits = &kInt2Bits});
        },
};

extern const QuantScheme kSchemeInt2Dynamic = {
    .name = "int2-dynamic",
    .doc =
        "As int2-weights, and MatMul rounds its data to int8 at each run, in blocks of 128 (in "
        ".onnx files in those of its weights), and multiplies integers. Needs no data.",
    .precision = Precision::kInt8,
    .needs_calibration = false,
    .values = DType::kFloat32,
    .widens = true,
    .low_bits = &kInt2Bits,
    .run =
        [](Graph& graph, const Ranges&, const QuantizeOptions& options) {
          return QuantizeWeights(graph, options, {.low_bits = &kInt2Bits, .rounding = true});
        },
};

}  // namespace evoq
