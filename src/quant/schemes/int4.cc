// int4: the numbers -8 to 7.
#include "quant/low_bits.inl.h"
#include "quant/quant.h"

namespace evoq {
namespace {

struct Int4 {
  static constexpr DType kType = DType::kInt4;
  static constexpr int kBits = 4;
  // Of the scale that reaches both ends: a smaller one clips them for finer steps in between, a
  // larger one may fit the rest better, since the ends reach differently far.
  static constexpr float kShares[] = {1, 1.05f, 0.95f, 0.9f, 0.85f, 0.8f, 0.75f, 0.7f};
  static constexpr int kTries = std::size(kShares);

  static float Scale(int i, float low, float high) {
    return HalfScale(kShares[i] * std::max(high / 7.0f, low / -8.0f));
  }
  static float Storable(float scale) { return HalfScale(scale); }
  static float Zero(int) { return 0; }
  static float Nearest(float v, float) { return RoundEven(std::clamp(v, -8.0f, 7.0f)); }
  static uint8_t Bits(float number, float) {
    return static_cast<uint8_t>(static_cast<int>(number)) & 15;
  }
};

}  // namespace

extern const LowBits kInt4Bits = LowBitsOf<Int4>("int4", true);

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
        "As int4-weights, and MatMul rounds its data to int8 at each run, by blocks as its "
        "weights, and multiplies integers. Needs no data.",
    .precision = Precision::kInt8,
    .needs_calibration = false,
    .values = DType::kFloat32,
    .widens = true,
    .low_bits = &kInt4Bits,
    .run =
        [](Graph& graph, const Ranges&, const QuantizeOptions& options) {
          return QuantizeWeights(graph, options, {.low_bits = &kInt4Bits, .rounding = true});
        },
};

}  // namespace evoq
