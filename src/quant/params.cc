#include "quant/params.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "kernels/requant.h"
#include "ops/roles.h"
#include "quant/layer_bits.h"
#include "quant/low_bits.h"

namespace evoq {
namespace {

constexpr float kLeastScale = 0x1p-60f;
constexpr double kMaxBias = 0x1p30;
constexpr int kScaleBits = 12;

// Channels of a tensor as (outer, size, inner) around the axis; one channel for axis -1.
struct Channels {
  int64_t size = 1, inner = 1;
  Channels(const Tensor& t, int axis) {
    const std::vector<int64_t> sizes = t.sizes();
    if (axis >= 0) size = sizes[axis];
    for (size_t i = axis + 1; i < sizes.size(); ++i) inner *= sizes[i];
  }
  int64_t Of(int64_t element) const { return element / inner % size; }
};

}  // namespace

float ShortScale(double scale) {
  int exponent;
  const double fraction = std::frexp(scale, &exponent);
  return std::max(static_cast<float>(std::ldexp(std::ceil(std::ldexp(fraction, kScaleBits)),
                                                exponent - kScaleBits)),
                  kLeastScale);
}

QuantParams ActivationParams(Range range, DType dtype, bool symmetric) {
  const LevelBounds bounds = {static_cast<int32_t>(IntegerMin(dtype)),
                              static_cast<int32_t>(IntegerMax(dtype))};
  return ActivationParams(range, bounds, IsSigned(dtype), symmetric);
}

QuantParams ActivationParams(Range range, LevelBounds bounds, bool is_signed, bool symmetric) {
  const double min = std::min(range.min, 0.0f), max = std::max(range.max, 0.0f);
  const auto [low, high] = bounds;
  const int32_t middle = is_signed ? 0 : (high + 1) / 2;
  if (min == 0 && max == 0) return QuantParams::PerTensor(1, symmetric ? middle : low);
  if (symmetric)
    return QuantParams::PerTensor(
        ShortScale(std::max(-min, max) / (high - (is_signed ? 0 : middle))), middle);
  const float scale = ShortScale((max - min) / (high - low));
  const double zero = std::nearbyint(low - min / scale);
  return QuantParams::PerTensor(scale, static_cast<int32_t>(std::clamp<double>(zero, low, high)));
}

Tensor QuantizeWeight(const Tensor& weight, int axis, std::span<const float> least_scale) {
  const Channels channels(weight, axis);
  const auto w = weight.values<float>();
  QuantParams params;
  params.axis = axis;
  params.scales.assign(channels.size, 0);
  params.zero_points.assign(channels.size, 0);
  for (size_t i = 0; i < w.size(); ++i) {
    float& largest = params.scales[channels.Of(i)];
    largest = std::max(largest, std::fabs(w[i]));
  }
  for (int64_t c = 0; c < channels.size; ++c) {
    float least = least_scale.empty() ? 0 : least_scale[c % least_scale.size()];
    if (axis < 0 && !least_scale.empty())
      least = *std::max_element(least_scale.begin(), least_scale.end());
    const double scale = std::max<double>(params.scales[c] / 127.0, least);
    params.scales[c] = scale == 0 ? 1.0f : ShortScale(scale);
  }
  Tensor q = Tensor::Allocate(TensorType(DType::kInt8, weight.shape(), params));
  auto* to = q.mutable_data<int8_t>();
  for (size_t i = 0; i < w.size(); ++i) {
    to[i] = static_cast<int8_t>(QuantizeValue(w[i], params.scales[channels.Of(i)], 0, -127, 127));
  }
  return q;
}

Tensor RoundToNearest(const WeightRounding& r, int threads) {
  if (r.low_bits != nullptr) return r.low_bits->Quantize({r.values}, r.block, threads).value();
  return r.bits < 8 ? RoundToFewBits(r) : QuantizeWeight(r.values, r.axis, r.least_scale);
}

Tensor Rounded(const QuantizeOptions& options, const WeightRounding& plain) {
  WeightRounding rounding = plain;
  if (rounding.low_bits == nullptr) rounding.bits = BitsOf(options.weight_bits, rounding.node);
  if (!options.round) return RoundToNearest(rounding, options.threads);
  Tensor q = options.round(rounding);
  const DType wanted = rounding.low_bits != nullptr ? rounding.low_bits->dtype : DType::kInt8;
  EVOQ_CHECK(q.dtype() == wanted && q.shape() == rounding.values.shape() && q.type().quantized(),
             "weight {} was rounded to {}", rounding.weight, q.type().ToString());
  return q;
}

std::vector<float> LeastWeightScales(const Tensor& bias, float scale_x) {
  std::vector<float> least;
  for (float b : bias.values<float>())
    least.push_back(static_cast<float>(std::fabs(b) / (kMaxBias * 0.999) / scale_x));
  return least;
}

Tensor QuantizeBias(const Tensor& bias, float scale_x, const QuantParams& weight) {
  Tensor q = Tensor::Allocate(TensorType(DType::kInt32, bias.shape()));
  const auto b = bias.values<float>();
  for (size_t c = 0; c < b.size(); ++c) {
    const double scale = static_cast<double>(scale_x) * weight.scales[c % weight.scales.size()];
    q.mutable_data<int32_t>()[c] =
        static_cast<int32_t>(std::clamp(std::nearbyint(b[c] / scale), -kMaxBias, kMaxBias));
  }
  return q;
}

TensorType ImpliedBiasType(const Shape& shape, float scale_x, const QuantParams& weight) {
  const int64_t channels = shape[0].value;
  QuantParams params;
  const bool one = weight.scales.size() == 1;
  params.axis = one ? -1 : 0;
  for (int64_t c = 0; c < (one ? 1 : channels); ++c) {
    params.scales.push_back(
        static_cast<float>(static_cast<double>(scale_x) * weight.scales[c % weight.scales.size()]));
    params.zero_points.push_back(0);
  }
  return {DType::kInt32, shape, std::move(params)};
}

std::vector<double> WeightErrorMeans(const Node& node, const Tensor& weight,
                                     const Tensor& quantized, std::span<const float> means) {
  // A linear weight of rank 2 or more; grouped transposed convolutions are left alone.
  const std::vector<int64_t> sizes = weight.sizes();
  if (LinearFormOf(node)->outputs_by_group || sizes.size() < 2) return {};
  const WeightIndex index(node, sizes);
  if (index.outputs() == 0 || index.inputs() * index.groups() != static_cast<int64_t>(means.size()))
    return {};
  const Channels channels(weight, quantized.type().quant->axis);
  const auto w = weight.values<float>();
  const auto q = quantized.values<int8_t>();
  std::vector<double> errors(index.outputs());
  for (size_t i = 0; i < w.size(); ++i) {
    const double error =
        static_cast<double>(q[i]) * quantized.type().quant->scales[channels.Of(i)] - w[i];
    errors[index.OutputOf(i)] += error * means[index.InputOf(i)];
  }
  return errors;
}

Result<Range> RangeOf(const Tensor& constant) {
  Range range;
  for (float x : constant.values<float>()) {
    if (!std::isfinite(x))
      return InvalidInput("a constant of {} holds a NaN or an infinity",
                          constant.type().ToString());
    range.min = std::min(range.min, x);
    range.max = std::max(range.max, x);
  }
  return range;
}

}  // namespace evoq
