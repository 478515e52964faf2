#include "quant/params.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/math.h"
#include "base/thread_pool.h"
#include "kernels/requant.h"
#include "ops/roles.h"

namespace evoq {
namespace {

constexpr float kLeastScale = 0x1p-60f;
constexpr double kMaxBias = 0x1p30;
constexpr int kScaleBits = 12;

// At least `scale`, with at most 12 significant bits.
float ShortScale(double scale) {
  int exponent;
  const double fraction = std::frexp(scale, &exponent);
  return std::max(static_cast<float>(std::ldexp(std::ceil(std::ldexp(fraction, kScaleBits)),
                                                exponent - kScaleBits)),
                  kLeastScale);
}

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

QuantParams ActivationParams(Range range, DType dtype, bool symmetric) {
  const double min = std::min(range.min, 0.0f), max = std::max(range.max, 0.0f);
  const auto low = static_cast<int32_t>(IntegerMin(dtype)),
             high = static_cast<int32_t>(IntegerMax(dtype));
  const int32_t middle = IsSigned(dtype) ? 0 : (high + 1) / 2;
  if (min == 0 && max == 0) return QuantParams::PerTensor(1, symmetric ? middle : low);
  if (symmetric)
    return QuantParams::PerTensor(
        ShortScale(std::max(-min, max) / (high - (IsSigned(dtype) ? 0 : middle))), middle);
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

namespace {

// Of a block of a column, for values in [-8, 7] times it.
float Int4Scale(float low, float high) {
  const float scale = std::max(high / 7.0f, low / -8.0f);
  if (scale == 0) return 1;
  constexpr float kLeast = 0x1p-24f, kMost = 65504.0f;  // of float16
  return scale > kMost ? scale : std::max(HalfToFloat(FloatToHalf(scale)), kLeast);
}

// Rows [begin, end) of w, one block; `to` has the bytes of the whole matrix, zeros. Two elements
// share a byte: begin * columns is even.
void Int4Block(std::span<const float> w, int64_t begin, int64_t end, int64_t columns, float* scales,
               std::byte* to) {
  std::vector<float> low(static_cast<size_t>(columns)), high(low);
  for (int64_t k = begin; k < end; ++k) {
    const float* row = w.data() + k * columns;
    for (int64_t n = 0; n < columns; ++n) {
      low[n] = std::min(low[n], row[n]);
      high[n] = std::max(high[n], row[n]);
    }
  }
  for (int64_t n = 0; n < columns; ++n) scales[n] = Int4Scale(low[n], high[n]);
  std::vector<uint8_t> q(static_cast<size_t>(columns));
  for (int64_t k = begin; k < end; ++k) {
    const float* row = w.data() + k * columns;
    for (int64_t n = 0; n < columns; ++n) {
      const float v = std::clamp(row[n] / scales[n], -8.0f, 7.0f);
      // Rounded by adding what has no bits below 1.
      q[n] = static_cast<uint8_t>(std::bit_cast<int32_t>(v + 0x1.8p23f) & 15);
    }
    const int64_t first = k * columns;
    int64_t n = 0;
    if (first % 2 != 0 && columns > 0) to[first / 2] |= static_cast<std::byte>(q[n++] << 4);
    for (; n + 1 < columns; n += 2)
      to[(first + n) / 2] = static_cast<std::byte>(q[n] | q[n + 1] << 4);
    if (n < columns) to[(first + n) / 2] |= static_cast<std::byte>(q[n]);
  }
}

}  // namespace

Tensor QuantizeWeightInt4(const Tensor& weight, int64_t block, int threads) {
  const int64_t depth = weight.sizes()[0], columns = weight.sizes()[1];
  const bool whole = block == 0;
  const int64_t step = whole ? std::max<int64_t>(depth, 1) : block, blocks = CeilDiv(depth, step);
  QuantParams params;
  params.axis = whole ? 1 : 0;
  params.block = whole ? 0 : block;
  params.scales.assign(static_cast<size_t>(std::max<int64_t>(blocks, 1) * columns), 1);
  params.zero_points.assign(params.scales.size(), 0);
  Tensor q = Tensor::Allocate(TensorType(DType::kInt4, weight.shape()));
  const auto w = weight.values<float>();
  std::byte* to = q.mutable_raw();
  float* scales = params.scales.data();
  ThreadPool pool(step * columns % 2 == 0 ? threads : 1);
  pool.ParallelFor(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      Int4Block(w, b * step, std::min(depth, (b + 1) * step), columns, scales + b * columns, to);
  });
  return q.WithType(TensorType(DType::kInt4, weight.shape(), std::move(params)));
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
