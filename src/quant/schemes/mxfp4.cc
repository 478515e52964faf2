// MXFP4 (OCP Microscaling Formats, 1.0): float4e2m1 with scales that are powers of two.
#include "quant/low_bits.inl.h"
#include "quant/quant.h"

namespace evoq {
namespace {

struct Mxfp4 {
  static constexpr DType kType = DType::kFloat4E2M1;
  static constexpr int kBits = 4;
  // The largest number is 6: a largest magnitude of [2, 4) scales reaches it, and so may, with
  // clipping, the half of such a scale, which is the specification's choice.
  static constexpr int kTries = 2;

  static float Scale(int i, float low, float high) {
    const int exponent = static_cast<int>(std::bit_cast<uint32_t>(std::max(high, -low)) >> 23);
    return std::bit_cast<float>(static_cast<uint32_t>(std::max(exponent - 1 - i, 1)) << 23);
  }
  static float Storable(float scale) {
    return std::exp2(std::clamp(std::round(std::log2(scale)), -126.0f, 127.0f));
  }
  static float Zero(int) { return 0; }
  // Ties go to the numbers with an even last bit: 0, 1, 2, 4.
  static float Nearest(float v, float) {
    const float a = std::fabs(v);
    float n = 0;
    n = a > 0.25f ? 0.5f : n;
    n = a >= 0.75f ? 1 : n;
    n = a > 1.25f ? 1.5f : n;
    n = a >= 1.75f ? 2 : n;
    n = a > 2.5f ? 3 : n;
    n = a >= 3.5f ? 4 : n;
    n = a > 5 ? 6 : n;
    return std::copysign(n, v);
  }
  static uint8_t Bits(float number, float) {
    constexpr uint8_t kByHalves[] = {0, 1, 2, 3, 4, 0, 5, 0, 6, 0, 0, 0, 7};
    return kByHalves[static_cast<int>(2 * std::fabs(number))] | (std::signbit(number) ? 8 : 0);
  }
};

}  // namespace

extern const LowBits kMxfp4Bits = LowBitsOf<Mxfp4>("mxfp4", true);

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
        "As mxfp4-weights, and MatMul rounds its data to int8 at each run, by blocks as its "
        "weights, and multiplies integers. Needs no data.",
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
