#include "quant/layer_bits.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "kernels/requant.h"
#include "ops/roles.h"
#include "passes/qdq_bias.h"
#include "quant/params.h"

namespace evoq {
namespace {

// Weights by channel.
std::vector<std::vector<float>> ByChannel(const Tensor& weight, int axis) {
  const std::vector<int64_t> sizes = weight.sizes();
  const int64_t channels = axis < 0 ? 1 : sizes[static_cast<size_t>(axis)];
  int64_t inner = 1;
  for (size_t d = static_cast<size_t>(axis + 1); d < sizes.size(); ++d) inner *= sizes[d];
  std::vector<std::vector<float>> by_channel(static_cast<size_t>(channels));
  const auto w = weight.values<float>();
  for (size_t i = 0; i < w.size(); ++i)
    by_channel[i / static_cast<size_t>(inner) % by_channel.size()].push_back(w[i]);
  return by_channel;
}

float MeanMagnitude(std::span<const float> w, float least) {
  double sum = 0;
  for (const float x : w) sum += std::fabs(static_cast<double>(x));
  const double mean = w.empty() ? 0 : sum / static_cast<double>(w.size());
  return mean == 0 && least == 0 ? 1.0f : ShortScale(std::max<double>(mean, least));
}

// `kinds`: "8, 4 or 2".
Result<std::vector<LayerBits>> ParseLayerBits(const char* option, std::string_view kinds,
                                              const std::vector<std::string>& given) {
  std::vector<LayerBits> rules;
  for (const std::string& text : given) {
    const size_t equals = text.rfind('=');
    const std::string layers = equals == std::string::npos ? "*" : text.substr(0, equals);
    const std::string bits = equals == std::string::npos ? text : text.substr(equals + 1);
    if (bits.size() != 1 || bits[0] < '1' || bits[0] > '8' ||
        kinds.find(bits[0]) == std::string_view::npos || layers.empty())
      return Fail(ErrorCode::kUsage, "{} {}: expected {}, or PATTERN=BITS", option, text, kinds);
    rules.push_back({layers, bits[0] - '0'});
  }
  return rules;
}

}  // namespace

Result<std::vector<LayerBits>> ParseWeightBits(const std::vector<std::string>& given) {
  return ParseLayerBits("--weight-bits", "8, 4, 2 or 1", given);
}

Result<std::vector<LayerBits>> ParseActivationBits(const std::vector<std::string>& given) {
  return ParseLayerBits("--activation-bits", "8, 4 or 2", given);
}

Result<Tensor> SignsOf(const Tensor& weight, const TensorType& type) {
  Tensor signs = Tensor::Allocate(TensorType(DType::kFloat32, weight.shape()));
  const auto w = weight.values<float>();
  for (size_t i = 0; i < w.size(); ++i) signs.mutable_data<float>()[i] = w[i] < 0 ? -1.0f : 1.0f;
  const TensorType units(type.dtype, weight.shape(), QuantParams::PerTensor(1, 0));
  EVOQ_ASSIGN(const Tensor q, QuantizeTensor(signs, units));
  return q.WithType(type);
}

bool HasSigns(std::span<const LayerBits> rules) {
  return std::ranges::any_of(rules, [](const LayerBits& rule) { return rule.bits == 1; });
}

int BitsOf(std::span<const LayerBits> rules, const std::string& layer) {
  int bits = 8;
  for (const LayerBits& rule : rules) {
    if (GlobMatch(rule.layers, layer)) bits = rule.bits;
  }
  return bits;
}

Tensor QuantizeWeightToBits(const Tensor& weight, int axis, int bits,
                            std::span<const float> least_scale) {
  const std::vector<std::vector<float>> by_channel = ByChannel(weight, axis);
  const float most =
      least_scale.empty() ? 0 : *std::max_element(least_scale.begin(), least_scale.end());
  QuantParams params;
  params.axis = axis;
  params.zero_points.assign(by_channel.size(), 0);
  for (size_t c = 0; c < by_channel.size(); ++c) {
    const float least =
        axis < 0 || least_scale.empty() ? most : least_scale[c % least_scale.size()];
    params.scales.push_back(bits == 1 ? MeanMagnitude(by_channel[c], least)
                                      : LeastErrorScale(by_channel[c], bits, least));
  }
  const TensorType type(WeightTypeOf(std::max(bits, 2)), weight.shape(), std::move(params));
  return (bits == 1 ? SignsOf(weight, type) : QuantizeTensor(weight, type)).value();
}

float LeastErrorScale(std::span<const float> w, int bits, float least,
                      std::span<const float> importance) {
  constexpr int kCandidates = 17;
  constexpr double kStep = 0.05;
  const int32_t low = -(1 << (bits - 1)), high = -low - 1;
  float largest = 0;
  for (const float x : w) largest = std::max(largest, std::fabs(x));
  if (largest == 0) return least > 0 ? ShortScale(least) : 1.0f;
  float best = 0;
  double best_error = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kCandidates; ++i) {
    const float scale = ShortScale(std::max<double>((1 - i * kStep) * largest / high, least));
    double error = 0;
    for (size_t k = 0; k < w.size(); ++k) {
      const double q = QuantizeValue(w[k], scale, 0, low, high), off = q * scale - w[k];
      error += (importance.empty() ? 1 : importance[k]) * off * off;
    }
    if (error < best_error) best = scale, best_error = error;
  }
  return best;
}

float LeastOfFewBits(float least) { return least * static_cast<float>(kMostFinerFactor); }

Tensor AsMultiples(const Tensor& narrow, const WeightRounding& r) {
  auto finer = FinerWeights(narrow);
  return finer ? std::move(*finer) : QuantizeWeight(r.values, r.axis, r.least_scale);
}

Tensor RoundToFewBits(const WeightRounding& r) {
  std::vector<float> least = r.least_scale;  // of the multiples, whose steps are finer
  for (float& scale : least) scale = LeastOfFewBits(scale);
  return AsMultiples(QuantizeWeightToBits(r.values, r.axis, r.bits, least), r);
}

void MarkWeightBits(Graph& graph, std::span<const LayerBits> rules) {
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const Tensor* const w = IsLinear(node) ? graph.ConstantInput(node, 1) : nullptr;
    if (w == nullptr || !w->type().quantized() || !graph.value(node.inputs[0]).type.quantized())
      continue;
    if (const int bits = BitsOf(rules, node.name); bits < 8)
      graph.attrs(id).Set(kWeightBits, std::max(bits, 2));
  }
}

}  // namespace evoq
