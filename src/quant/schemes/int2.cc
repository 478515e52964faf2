// int2: four numbers one apart, of which zero is the second or the third.
#include "quant/low_bits.inl.h"
#include "quant/quant.h"

namespace evoq {
namespace {

struct Int2 {
  static constexpr DType kType = DType::kUint2;
  static constexpr int kBits = 2;
  // Of the scale that reaches both ends. Four numbers pay for clipping most of what is far out.
  static constexpr float kShares[] = {1, 0.9f, 0.8f, 0.7f, 0.6f, 0.5f, 0.4f, 0.3f};
  static constexpr int kTries = 2 * std::size(kShares);

  static float Storable(float scale) { return HalfScale(scale); }
  static float Zero(int i) { return static_cast<float>(1 + i % 2); }
  static float Scale(int i, float low, float high) {
    return HalfScale(kShares[i / 2] * std::max(high / (3 - Zero(i)), low / -Zero(i)));
  }
  static float Nearest(float v, float zero) { return RoundEven(std::clamp(v, -zero, 3 - zero)); }
  static uint8_t Bits(float number, float zero) { return static_cast<uint8_t>(number + zero); }
};

}  // namespace

extern const LowBits kInt2Bits = LowBitsOf<Int2>("int2", true);

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
        "As int2-weights, and MatMul rounds its data to int8 at each run, by blocks as its "
        "weights, and multiplies integers. Needs no data.",
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
