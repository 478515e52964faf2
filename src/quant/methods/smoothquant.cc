// SmoothQuant: G. Xiao, J. Lin, M. Seznec, H. Wu, J. Demouth, S. Han, "SmoothQuant: Accurate and
// Efficient Post-Training Quantization for Large Language Models", 2022. Channel j of what a
// normalization or a layer gives is divided by
//   s[j] = max|x[j]|^alpha / max|w[j]|^(1 - alpha)
// in the scale of the normalization (or the weights of the layer), and the weights that read it are
// multiplied. alpha is searched for each value: the least expected error of the products, or none.
#include <algorithm>
#include <cmath>

#include "ops/op.h"
#include "quant/channel_links.h"
#include "quant/channel_statistics.h"
#include "quant/method.h"
#include "quant/observe.h"

namespace evoq {
namespace {

constexpr int kAlphas = 20;  // candidates 1/20 .. 1

// A value whose channels can be divided, and the layers that read it.
struct Smoothed {
  ValueId value;
  NodeId maker;  // a normalization over the last axis, or a layer
  bool normalization = false;
  int axis = -1;  // of the channels
  std::vector<NodeId> readers;
};

// A normalization over its last axis with a constant scale, and a bias that is constant or none.
bool IsScaledNormalization(const Graph& graph, const Node& node) {
  const OpDef* op = FindOp(node);
  if (op == nullptr || op->axes != AxisUse::kTrailing || !node.domain.empty()) return false;
  const Shape& shape = graph.value(node.outputs[0]).type.shape;
  const Tensor* scale = graph.ConstantInput(node, 1);
  const Tensor* bias = graph.ConstantInput(node, 2);
  return shape.ranked() && scale != nullptr && scale->dtype() == DType::kFloat32 &&
         scale->shape().rank() == 1 && (!node.input(2).valid() || bias != nullptr) &&
         (bias == nullptr ||
          (bias->dtype() == DType::kFloat32 && bias->elements() == scale->elements()));
}

std::vector<Smoothed> ValuesToSmooth(const Graph& graph) {
  std::vector<Smoothed> found;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.outputs.empty() || !IsScaledNormalization(graph, node)) continue;
    const int rank = graph.value(node.outputs[0]).type.shape.rank();
    std::vector<NodeId> readers = ChannelReaders(graph, node.outputs[0], rank - 1, rank,
                                                 graph.ConstantInput(node, 1)->elements());
    if (!readers.empty())
      found.push_back({node.outputs[0], id, true, rank - 1, std::move(readers)});
  }
  for (ChannelLink& link : ChannelLinks(graph)) {
    if (link.activation.kind == ActivationKind::kClip) continue;
    const int rank = graph.value(link.value).type.shape.rank();
    const int axis = ChannelAxis(graph.node(link.producer), rank);
    found.push_back({link.value, link.producer, false, axis, std::move(link.readers)});
  }
  return found;
}

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

// Input i of the normalization, a constant, divided by s.
void DivideParameter(Graph& graph, NodeId id, size_t i, std::span<const double> s) {
  const ValueId old = graph.node(id).input(i);
  if (!old.valid()) return;
  Tensor divided = graph.value(old).constant.Clone();
  for (size_t c = 0; c < s.size(); ++c) {
    float& v = divided.mutable_data<float>()[c];
    v = static_cast<float>(v / s[c]);
  }
  graph.SetInput(id, i, graph.AddConstant(graph.value(old).name + ".smoothed", std::move(divided)));
}

std::string Refuses(const QuantScheme& scheme, const QuantizeOptions&) {
  return scheme.values == DType::kUint8 || std::string_view(scheme.name) == "int8-dynamic"
             ? ""
             : "its layers do not round what they read to int8";
}

void Smooth(Graph& graph, const Smoothed& at, std::span<const double> s) {
  std::vector<double> inverse(s.size());
  std::ranges::transform(s, inverse.begin(), [](double v) { return 1 / v; });
  if (at.normalization) {
    DivideParameter(graph, at.maker, 1, s);
    DivideParameter(graph, at.maker, 2, s);
  } else {
    ScaleOutputs(graph, at.maker, inverse);
  }
  for (NodeId reader : at.readers) ScaleInputs(graph, reader, s);
}

Status Run(MethodRun& run) {
  const std::vector<Smoothed> values = ValuesToSmooth(run.graph);
  std::vector<std::string> names;
  for (const Smoothed& at : values) names.push_back(run.graph.value(at.value).name);
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
    Smooth(run.graph, values[i], s);
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
