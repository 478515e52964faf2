// SmoothQuant: G. Xiao, J. Lin, M. Seznec, H. Wu, J. Demouth, S. Han, "SmoothQuant: Accurate and
// Efficient Post-Training Quantization for Large Language Models", 2022. Channel j of what a
// normalization or a layer gives is divided by
//   s[j] = max|x[j]|^alpha / max|w[j]|^(1 - alpha)
// in the scale of the normalization (or the weights of the layer), and the weights that read it are
// multiplied. alpha is searched for each value: the least expected error of the products, or none.
#include <algorithm>
#include <cmath>

#include "ops/op.h"
#include "quant/channel_statistics.h"
#include "quant/method.h"
#include "quant/observe.h"
#include "quant/scalable_values.h"

namespace evoq {
namespace {

constexpr int kAlphas = 20;  // candidates 1/20 .. 1

// The weights that read each channel, by row and channel: |w| of row m is at [m * channels + c].
struct Rows {
  size_t channels = 0, rows = 0;
  std::vector<double> largest;  // of each row and channel, over the taps
  std::vector<double> squares;  // their sums
};

Rows RowsOf(const Graph& graph, NodeId id, size_t channels) {
  const Node& node = graph.node(id);
  const Tensor& weight = *graph.ConstantInput(node, 1);
  const WeightIndex view(node, weight.sizes());
  Rows rows{.channels = channels, .rows = static_cast<size_t>(view.outputs())};
  rows.largest.resize(rows.channels * rows.rows);
  rows.squares.resize(rows.channels * rows.rows);
  const float* w = weight.data<float>();
  for (int64_t i = 0; i < weight.elements(); ++i) {
    const size_t at = view.OutputOf(i) * channels + view.InputOf(i);
    rows.largest[at] = std::max<double>(rows.largest[at], std::fabs(w[i]));
    rows.squares[at] += static_cast<double>(w[i]) * w[i];
  }
  return rows;
}

// The expected squared error of the products when channels are divided by s, with independent
// roundings: of the data, one step for all channels, and of the weights, a step for each row or
// one.
double ExpectedError(const ChannelStatistics& x, std::span<const Rows> readers,
                     std::span<const double> s, bool per_channel) {
  double largest = 0;
  for (size_t c = 0; c < s.size(); ++c) largest = std::max(largest, x.Largest(c) / s[c]);
  const double data_step = 2 * largest / 255;
  double error = 0;
  for (const Rows& rows : readers) {
    std::vector<double> row_step(rows.rows);
    for (size_t m = 0; m < rows.rows; ++m) {
      for (size_t c = 0; c < s.size(); ++c)
        row_step[m] = std::max(row_step[m], rows.largest[m * rows.channels + c] * s[c] / 127);
    }
    if (!per_channel) std::ranges::fill(row_step, *std::ranges::max_element(row_step));
    for (size_t m = 0; m < rows.rows; ++m) {
      for (size_t c = 0; c < s.size(); ++c) {
        const double w = rows.squares[m * rows.channels + c] * s[c] * s[c];
        const bool read = rows.largest[m * rows.channels + c] > 0;
        error += data_step * data_step * w / 12;
        if (read) error += row_step[m] * row_step[m] * x.MeanSquare(c) / (s[c] * s[c]) / 12;
      }
    }
  }
  return error;
}

std::vector<double> ScalesFor(const ChannelStatistics& x, std::span<const double> weights,
                              double alpha) {
  std::vector<double> s(weights.size(), 1.0);
  for (size_t c = 0; c < s.size(); ++c) {
    if (x.Largest(c) == 0 || weights[c] == 0) continue;
    s[c] = std::clamp(std::pow(x.Largest(c), alpha) / std::pow(weights[c], 1 - alpha), 1e-5, 1e5);
  }
  return s;
}

// The scales of least expected error; empty: dividing by nothing is best.
std::vector<double> Search(const ChannelStatistics& x, std::span<const Rows> readers,
                           bool per_channel) {
  std::vector<double> weights(x.channels());
  for (const Rows& rows : readers) {
    for (size_t at = 0; at < rows.largest.size(); ++at) {
      double& most = weights[at % rows.channels];
      most = std::max(most, rows.largest[at]);
    }
  }
  const std::vector<double> ones(x.channels(), 1.0);
  double least = ExpectedError(x, readers, ones, per_channel);
  std::vector<double> best;
  for (int i = 1; i <= kAlphas; ++i) {
    std::vector<double> s = ScalesFor(x, weights, static_cast<double>(i) / kAlphas);
    const double error = ExpectedError(x, readers, s, per_channel);
    if (error < least) {
      least = error;
      best = std::move(s);
    }
  }
  return best;
}

std::string Refuses(const QuantScheme& scheme, const QuantizeOptions&) {
  return scheme.values == DType::kUint8 || std::string_view(scheme.name) == "int8-dynamic"
             ? ""
             : "its layers do not round what they read to int8";
}

Status Run(MethodRun& run) {
  const std::vector<ScalableValue> values = ScalableValues(run.graph);
  std::vector<std::string> names;
  for (const ScalableValue& at : values) names.push_back(run.graph.value(at.value).name);
  std::vector<ChannelStatistics> seen(values.size());
  EVOQ_TRY(
      ObserveValues(run.graph, names, run.data, [&](size_t which, const Tensor& value) -> Status {
        seen[which].Add(value, values[which].axis);
        return {};
      }));
  for (size_t i = 0; i < values.size(); ++i) {
    std::vector<Rows> readers;
    for (NodeId reader : values[i].readers)
      readers.push_back(RowsOf(run.graph, reader, seen[i].channels()));
    const std::vector<double> s = Search(seen[i], readers, run.options.per_channel);
    if (s.empty()) continue;
    DivideChannels(run.graph, values[i], s);
    run.recalibrate = true;
  }
  return {};
}

}  // namespace

extern const QuantMethod kMethodSmoothQuant = {
    .name = "smoothquant",
    .doc =
        "Channels of large values behind a normalization or a layer are divided there and "
        "multiplied in the weights that read them, by an exponent searched for each value.",
    .paper = "Xiao et al. 2022, arXiv:2211.10438",
    .stage = MethodStage::kFloat,
    .needs_samples = true,
    .refuses = Refuses,
    .run = Run,
};

}  // namespace evoq
