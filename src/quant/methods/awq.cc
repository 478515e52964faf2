// AWQ: J. Lin, J. Tang, H. Tang, S. Yang, W.-M. Chen, W.-C. Wang, G. Xiao, X. Dang, C. Gan, S. Han,
// "AWQ: Activation-aware Weight Quantization for LLM Compression and Acceleration", 2023. Channel c
// of a value that layers read is divided by s[c] where it is made, and the weights that read it are
// multiplied: the larger a channel's values, the finer its weights are rounded. With x[c] and w[c]
// the root mean squares of the channel's values and of the weights that read it,
//   s[c] = x[c]^a   or   s[c] = x[c]^a / w[c]^(1 - a),
// times what makes the largest and the smallest s each other's inverse; of these and of none those
// are taken whose rounded weights give all layers that read the value the least squared error.
#include <algorithm>
#include <cmath>

#include "ops/op.h"
#include "quant/channel_statistics.h"
#include "quant/gram.h"
#include "quant/method.h"
#include "quant/observe.h"
#include "quant/rounding_method.h"
#include "quant/scalable_values.h"

namespace evoq {
namespace {

constexpr int kExponents = 20;         // candidates a = 1/20 .. 1
constexpr int64_t kMostColumns = 512;  // of a weight whose error is measured, evenly spread
constexpr double kLargest = 1e4;       // a channel's scale lies between it and its inverse

// A value, the scales that it may have, and what each costs.
struct Candidates {
  ScalableValue at;
  std::vector<std::vector<double>> scales;  // the first: 1 everywhere
  std::vector<double> errors;               // of its readers, as far as they were seen
};

std::vector<double> WeightSizes(const Graph& graph, const ScalableValue& at, size_t channels) {
  std::vector<double> sizes(channels), counts(channels);
  for (NodeId reader : at.readers) {
    const Tensor& weight = *graph.ConstantInput(graph.node(reader), 1);
    const WeightIndex index(graph.node(reader), weight.sizes());
    const auto w = weight.values<float>();
    for (int64_t i = 0; i < weight.elements(); ++i) {
      const auto c = static_cast<size_t>(index.InputOf(i));
      sizes[c] += static_cast<double>(w[i]) * w[i];
      ++counts[c];
    }
  }
  for (size_t c = 0; c < channels; ++c) sizes[c] = std::sqrt(sizes[c] / std::max(counts[c], 1.0));
  return sizes;
}

std::vector<double> ScalesFor(std::span<const double> x, std::span<const double> w, double a,
                              bool by_weights) {
  std::vector<double> s(x.size(), 1.0);
  double least = INFINITY, most = 0;
  for (size_t c = 0; c < s.size(); ++c) {
    if (x[c] == 0 || w[c] == 0) continue;
    s[c] = std::pow(x[c], a) / (by_weights ? std::pow(w[c], 1 - a) : 1);
    least = std::min(least, s[c]);
    most = std::max(most, s[c]);
  }
  const double unit = most > 0 ? std::sqrt(least) * std::sqrt(most) : 1;
  for (size_t c = 0; c < s.size(); ++c) {
    if (x[c] != 0 && w[c] != 0) s[c] = std::clamp(s[c] / unit, 1 / kLargest, kLargest);
  }
  return s;
}

Candidates CandidatesFor(const Graph& graph, ScalableValue at, const ChannelStatistics& seen) {
  std::vector<double> x;
  for (size_t c = 0; c < seen.channels(); ++c) x.push_back(std::sqrt(seen.MeanSquare(c)));
  const std::vector<double> w = WeightSizes(graph, at, x.size());
  Candidates all{.at = std::move(at), .scales = {std::vector<double>(x.size(), 1.0)}};
  for (const bool by_weights : {false, true}) {
    for (int i = 1; i <= kExponents; ++i)
      all.scales.push_back(ScalesFor(x, w, static_cast<double>(i) / kExponents, by_weights));
  }
  all.errors.assign(all.scales.size(), 0);
  return all;
}

// Adds what the layer's results lose by each candidate: tr(E^T H E) of E = w - stored / s, which is
// the error of the scaled weight under H[i, j] / (s[i] s[j]).
void AddErrors(const WeightRounding& rounding, const LayerMatrices& m, const Gram& gram,
               int64_t taps, RoundingTools tools, Candidates& candidates) {
  LayerMatrices some = m;
  some.columns = std::min(m.columns, kMostColumns);
  const WeightGrid whole(rounding, m), grid(rounding, some);
  std::vector<float> scaled(static_cast<size_t>(m.depth * some.columns));
  std::vector<double> h(gram.groups[0].size());
  for (int64_t g = 0; g < m.groups; ++g) {
    const std::vector<float> w = whole.Matrix(g);
    for (size_t i = 0; i < candidates.scales.size(); ++i) {
      const double* s = &candidates.scales[i][g * (m.depth / taps)];
      for (int64_t k = 0; k < m.depth; ++k) {
        const double factor = s[k / taps];
        for (int64_t n = 0; n < some.columns; ++n)
          scaled[k * some.columns + n] =
              static_cast<float>(w[k * m.columns + n * m.columns / some.columns] * factor);
        for (int64_t j = 0; j < m.depth; ++j)
          h[k * m.depth + j] = gram.groups[g][k * m.depth + j] / (factor * s[j / taps]);
      }
      const double error = ResultError(grid, scaled, h, Nearest(grid, g, scaled, {}), tools);
      candidates.errors[i] += error * static_cast<double>(m.columns) / some.columns;
    }
  }
}

std::string Refuses(const QuantScheme& scheme, const QuantizeOptions& options) {
  if (std::string why = RoundsNoWeights(scheme, options); !why.empty()) return why;
  if (!options.per_channel) return "weights with one scale (--per-tensor) would pay for it";
  return scheme.weights_only || scheme.low_bits != nullptr
             ? ""
             : "it looks at the error of weights alone, and layers round what they read with one "
               "scale: smoothquant looks at both";
}

Status Run(MethodRun& run) {
  const std::vector<ScalableValue> values = ScalableValues(run.graph, /*factors=*/true);
  std::vector<std::string> names;
  for (const ScalableValue& at : values) names.push_back(run.graph.value(at.value).name);
  if (names.empty()) {
    run.warnings.push_back("awq: no value lies between what can be divided and layers");
    return {};
  }
  std::vector<ChannelStatistics> seen(values.size());
  EVOQ_TRY(
      ObserveValues(run.graph, names, run.data, [&](size_t which, const Tensor& value) -> Status {
        seen[which].Add(value, values[which].axis);
        return {};
      }));
  std::vector<Candidates> candidates;
  std::map<std::string, std::pair<size_t, NodeId>> readers;  // node -> its value, and its id
  for (size_t i = 0; i < values.size(); ++i) {
    for (NodeId reader : values[i].readers) readers[run.graph.node(reader).name] = {i, reader};
    candidates.push_back(CandidatesFor(run.graph, values[i], seen[i]));
  }
  EVOQ_ASSIGN(const Isa isa, SelectIsa());
  Workspace workspace(run.options.threads);
  EVOQ_TRY(ObserveLayers(run,
                         [&](const WeightRounding& rounding, const LayerMatrices& matrices,
                             const Gram& gram) -> Status {
                           const auto reader = readers.find(rounding.node);
                           if (reader == readers.end()) return {};
                           const auto [value, id] = reader->second;
                           const WeightIndex index(run.graph.node(id), rounding.values.sizes());
                           AddErrors(rounding, matrices, gram, index.taps(), {isa, workspace},
                                     candidates[value]);
                           return {};
                         }));
  for (const Candidates& c : candidates) {
    const auto best = std::ranges::min_element(c.errors) - c.errors.begin();
    if (best == 0) continue;
    DivideChannels(run.graph, c.at, c.scales[best]);
    run.recalibrate = true;
  }
  return {};
}

}  // namespace

extern const QuantMethod kMethodAwq = {
    .name = "awq",
    .doc =
        "Channels of large values behind a normalization or a layer are divided there and "
        "multiplied in the weights that read them, which rounds these finer; scales are searched "
        "for each value by the error of the layers that read it. For weights only.",
    .paper = "Lin et al. 2023, arXiv:2306.00978",
    .stage = MethodStage::kFloat,
    .needs_samples = true,
    .refuses = Refuses,
    .run = Run,
};

}  // namespace evoq
