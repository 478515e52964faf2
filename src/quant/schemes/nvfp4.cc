// NVFP4 (Alvarez et al. 2025, "Introducing NVFP4"): float4e2m1 in blocks of 16, whose scales have
// the four significant bits of float8e4m3fn. Its scale for the whole tensor is a power of two here,
// which the blocks' scales hold.
#include "quant/low_bits.h"
#include "quant/quant.h"

namespace evoq {
namespace {

QuantizeOptions InBlocks(QuantizeOptions options) {
  options.block = 16;
  return options;
}

}  // namespace

extern const LowBits kNvfp4Bits = {
    .name = "nvfp4",
    .dtype = DType::kFloat4E2M1,
    .integers = true,
    .loops = Nvfp4LoopsFor,
};

extern const QuantScheme kSchemeNvfp4Weights = {
    .name = "nvfp4-weights",
    .doc =
        "Weights only: those of MatMul float4e2m1 in blocks of 16 along K, whatever --block says, "
        "with scales of four significant bits, the others int8; arithmetic in float32. Needs no "
        "data.",
    .precision = Precision::kInt8,
    .needs_calibration = false,
    .values = DType::kFloat32,
    .weights_only = true,
    .widens = true,
    .low_bits = &kNvfp4Bits,
    .for_auto = false,  // nf4-weights
    .run =
        [](Graph& graph, const Ranges&, const QuantizeOptions& options) {
          return QuantizeWeights(graph, InBlocks(options), {.low_bits = &kNvfp4Bits});
        },
};

extern const QuantScheme kSchemeNvfp4Dynamic = {
    .name = "nvfp4-dynamic",
    .doc =
        "As nvfp4-weights, and MatMul rounds its data to int8 at each run, in blocks of 128, "
        "and multiplies integers. Needs no data.",
    .precision = Precision::kInt8,
    .needs_calibration = false,
    .values = DType::kFloat32,
    .widens = true,
    .low_bits = &kNvfp4Bits,
    .for_auto = false,  // int4-dynamic
    .run =
        [](Graph& graph, const Ranges&, const QuantizeOptions& options) {
          return QuantizeWeights(graph, InBlocks(options),
                                 {.low_bits = &kNvfp4Bits, .rounding = true});
        },
};

}  // namespace evoq
