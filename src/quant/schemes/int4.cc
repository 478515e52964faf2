// int4: the numbers -8 to 7.
#include "quant/low_bits.h"
#include "quant/quant.h"

namespace evoq {

extern const LowBits kInt4Bits = {
    .name = "int4",
    .dtype = DType::kInt4,
    .integers = true,
    .loops = Int4LoopsFor,
};

namespace {

// Beside rounded data, whose products sum integers over blocks that share a step.
const LowBits kInt4StepBits = {
    .name = "int4",
    .dtype = DType::kInt4,
    .integers = true,
    .steps = true,
    .loops = Int4LoopsFor,
};

}  // namespace

extern const QuantScheme kSchemeInt4Weights = {
    .name = "int4-weights",
    .doc =
        "Weights only: those of MatMul int4 in blocks along K (--block), the others int8; "
        "arithmetic in float32. Needs no data.",
    .precision = Precision::kInt8,
    .needs_calibration = false,
    .values = DType::kFloat32,
    .weights_only = true,
    .widens = true,
    .low_bits = &kInt4Bits,
    .run =
        [](Graph& graph, const Ranges&, const QuantizeOptions& options) {
          return QuantizeWeights(graph, options, {.low_bits = &kInt4Bits});
        },
};

extern const QuantScheme kSchemeInt4Dynamic = {
    .name = "int4-dynamic",
    .doc =
        "As int4-weights, and MatMul rounds its data to int8 at each run, in blocks of 128 (in "
        ".onnx files in those of its weights), and multiplies integers. Needs no data.",
    .precision = Precision::kInt8,
    .needs_calibration = false,
    .values = DType::kFloat32,
    .widens = true,
    .low_bits = &kInt4StepBits,
    .run =
        [](Graph& graph, const Ranges&, const QuantizeOptions& options) {
          const LowBits& bits = options.equal_blocks ? kInt4Bits : kInt4StepBits;
          return QuantizeWeights(graph, options, {.low_bits = &bits, .rounding = true});
        },
};

}  // namespace evoq
