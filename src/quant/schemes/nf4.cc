// NF4: quantiles of the normal distribution, times the largest magnitude of the block or a little
// less.
#include "quant/low_bits.inl.h"
#include "quant/quant.h"
#include "tensor/normal_float.h"

namespace evoq {
namespace {

struct Nf4 {
  static constexpr DType kType = kNormalFloat4;
  static constexpr int kBits = 4;
  static constexpr float kShares[] = {1, 0.95f, 0.9f, 0.85f, 0.8f};
  static constexpr int kTries = std::size(kShares);

  static float Scale(int i, float low, float high) {
    return HalfScale(kShares[i] * std::max(high, -low));
  }
  static float Storable(float scale) { return HalfScale(scale); }
  static float Zero(int) { return 0; }
  static float Nearest(float v, float) {
    float n = kNormalFloat4Values[0];
    for (int i = 1; i < 16; ++i)
      n = v > (kNormalFloat4Values[i - 1] + kNormalFloat4Values[i]) / 2 ? kNormalFloat4Values[i]
                                                                        : n;
    return n;
  }
  static uint8_t Bits(float number, float) {
    return static_cast<uint8_t>(std::ranges::find(kNormalFloat4Values, number) -
                                std::begin(kNormalFloat4Values));
  }
};

}  // namespace

extern const LowBits kNf4Bits = LowBitsOf<Nf4>("nf4", false);

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
