#include "passes/qdq_bias.h"

#include <cmath>

#include "ops/roles.h"

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

int32_t FinerFactor(int64_t low, int64_t high, DType wide) {
  int32_t factor = 1;
  while (factor < kMostFinerFactor && low * factor * 2 >= IntegerMin(wide) &&
         high * factor * 2 <= IntegerMax(wide))
    factor *= 2;
  return factor;
}

std::optional<Tensor> FinerWeights(const Tensor& weights) {
  const TensorType& type = weights.type();
  if (!type.quantized() || !IsInteger(type.dtype) || DTypeBits(type.dtype) > 8 ||
      !weights.layout().empty())
    return std::nullopt;
  const auto ints = ToInt64s(weights.WithType(TensorType(type.dtype, type.shape)));
  if (!ints) return std::nullopt;
  const DType wide = IsSigned(type.dtype) ? DType::kInt8 : DType::kUint8;
  int64_t low = 0, high = 0;
  for (const int64_t q : *ints) low = std::min(low, q), high = std::max(high, q);
  QuantParams params = *type.quant;
  for (const int32_t zero : params.zero_points)
    low = std::min<int64_t>(low, zero), high = std::max<int64_t>(high, zero);
  const int32_t factor = FinerFactor(low, high, wide);
  if (factor == 1) return std::nullopt;
  for (float& scale : params.scales) scale /= static_cast<float>(factor);
  for (int32_t& zero : params.zero_points) zero *= factor;
  const TensorType finer(wide, type.shape, std::move(params));
  if (!ValidateQuant(finer)) return std::nullopt;  // a scale next to 0
  Tensor made = Tensor::Allocate(finer);
  for (size_t i = 0; i < ints->size(); ++i)
    made.mutable_raw()[i] = static_cast<std::byte>((*ints)[i] * factor & 0xff);
  return made;
}

std::optional<Tensor> WeightsForBias(const Tensor& weights, const Tensor& bias,
                                     const QuantParams& x, int axis) {
  QuantParams raised = *weights.type().quant;
  const auto real = ToFloat32(bias);
  if (!real || (raised.per_tensor() && axis < 0)) return std::nullopt;
  const size_t channels =
      raised.per_tensor() ? static_cast<size_t>(weights.sizes()[axis]) : raised.scales.size();
  if (real->elements() != static_cast<int64_t>(channels)) return std::nullopt;
  bool fits = true;
  std::vector<float> scales(channels);
  for (size_t c = 0; c < channels; ++c) {
    const double least =
        std::abs(static_cast<double>(real->data<float>()[c])) / (1 << 30) / x.scales[0];
    scales[c] = raised.scales[raised.per_tensor() ? 0 : c];
    if (scales[c] >= least || !std::isfinite(static_cast<float>(least))) continue;
    scales[c] = static_cast<float>(least);
    fits = false;
  }
  if (fits) return std::nullopt;
  if (raised.per_tensor()) {
    raised.axis = axis;
    raised.zero_points.assign(channels, raised.zero_points[0]);
  }
  raised.scales = std::move(scales);
  const auto values = ToFloat32(weights);
  auto rounded = values
                     ? QuantizeTensor(*values, TensorType(weights.dtype(), weights.shape(), raised))
                     : values;
  return rounded ? std::optional(*rounded) : std::nullopt;
}

bool SumsFit(const Node& node, const Tensor& weights, const Tensor& bias, const TensorType& x) {
  const int64_t zero_x = x.quant->zero_points[0];
  const int64_t most_x = std::max(zero_x - IntegerMin(x.dtype), IntegerMax(x.dtype) - zero_x);
  const WeightIndex index(node, weights.sizes());
  const int64_t outputs = std::max<int64_t>(index.outputs(), 1);
  std::vector<int64_t> most(static_cast<size_t>(outputs));
  int64_t largest = 0;
  if (bias.defined() && bias.elements() == index.outputs()) {
    for (size_t c = 0; c < most.size(); ++c) {
      most[c] = std::abs(int64_t{bias.data<int32_t>()[c]});
      largest = std::max(largest, most[c]);
    }
  }
  constexpr int64_t kMostStep = 255;
  if (weights.elements() / outputs * most_x * kMostStep + largest <= INT32_MAX) return true;
  const auto ints = ToInt64s(weights.WithType(TensorType(weights.dtype(), weights.shape())));
  if (!ints) return false;
  const QuantParams& w = *weights.type().quant;
  const size_t rank = weights.sizes().size();
  int64_t inner = 1;
  for (size_t d = static_cast<size_t>(w.axis) + 1; w.axis >= 0 && d < rank; ++d)
    inner *= weights.sizes()[d];
  for (size_t i = 0; i < ints->size(); ++i) {
    const size_t s = w.per_tensor() ? 0 : static_cast<int64_t>(i) / inner % w.zero_points.size();
    int64_t& sum = most[static_cast<size_t>(index.OutputOf(static_cast<int64_t>(i)))];
    sum += std::abs((*ints)[i] - w.zero_points[s]) * most_x;
    if (sum > INT32_MAX) return false;
  }
  return true;
}

}  // namespace evoq
