#include "passes/qdq_bias.h"

#include <cmath>

namespace evoq {
namespace {

// Scales that differ by less are the same number, rounded on different ways.
constexpr double kSameScale = 1e-5;

bool HasScale(const TensorType& type, const QuantParams& x, const QuantParams& w,
              int64_t channels) {
  if (type.dtype != DType::kInt32 || !type.quantized()) return false;
  const QuantParams& b = *type.quant;
  for (int64_t c = 0; c < channels; ++c) {
    const double expected = static_cast<double>(x.scales[0]) * w.scales[w.per_tensor() ? 0 : c];
    const size_t i = b.per_tensor() ? 0 : c;
    if (b.zero_points[i] != 0 || std::abs(b.scales[i] - expected) > kSameScale * expected)
      return false;
  }
  return true;
}

}  // namespace

std::optional<Tensor> IntegerBias(const Tensor& bias, const QuantParams& x, const QuantParams& w,
                                  int64_t channels) {
  if (!bias.layout().empty() || bias.elements() != channels) return std::nullopt;
  if (bias.type().quantized() && !bias.type().quant->per_tensor() &&
      static_cast<int64_t>(bias.type().quant->scales.size()) != channels)
    return std::nullopt;
  const TensorType plain(DType::kInt32, Shape{channels});
  if (HasScale(bias.type(), x, w, channels)) return bias.WithType(plain);
  const auto ints = bias.type().quantized()
                        ? ToInt64s(bias.WithType(TensorType(bias.dtype(), bias.shape())))
                        : Result<std::vector<int64_t>>(std::vector<int64_t>());
  if (!ints || (!bias.type().quantized() && bias.dtype() != DType::kFloat32)) return std::nullopt;
  Tensor rounded = Tensor::Allocate(plain);
  for (int64_t c = 0; c < channels; ++c) {
    double real;
    if (bias.type().quantized()) {
      const QuantParams& b = *bias.type().quant;
      const size_t i = b.per_tensor() ? 0 : c;
      real = static_cast<double>((*ints)[c] - b.zero_points[i]) * b.scales[i];
    } else {
      real = bias.values<float>()[c];
    }
    const double q = std::nearbyint(
        real / (static_cast<double>(x.scales[0]) * w.scales[w.per_tensor() ? 0 : c]));
    if (!(std::abs(q) <= INT32_MAX)) return std::nullopt;
    rounded.mutable_data<int32_t>()[c] = static_cast<int32_t>(q);
  }
  return rounded;
}

std::optional<Tensor> WeightsForBias(const Tensor& weights, const Tensor& bias,
                                     const QuantParams& x) {
  const QuantParams& w = *weights.type().quant;
  const auto real = ToFloat32(bias);
  if (w.per_tensor() || !real || real->elements() != static_cast<int64_t>(w.scales.size()))
    return std::nullopt;
  QuantParams raised = w;
  for (size_t c = 0; c < raised.scales.size(); ++c) {
    const double least =
        std::abs(static_cast<double>(real->data<float>()[c])) / (1 << 30) / x.scales[0];
    if (w.scales[c] < least) raised.scales[c] = static_cast<float>(least);
  }
  if (raised == w) return std::nullopt;
  const auto values = ToFloat32(weights);
  auto rounded = values
                     ? QuantizeTensor(*values, TensorType(weights.dtype(), weights.shape(), raised))
                     : values;
  return rounded ? std::optional(*rounded) : std::nullopt;
}

}  // namespace evoq
