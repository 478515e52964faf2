// Cross-layer equalization: M. Nagel, M. van Baalen, T. Blankevoort, M. Welling, "Data-Free
// Quantization Through Weight Equalization and Bias Correction", 2019, section 4.1.
#include <algorithm>
#include <cmath>

#include "ops/op.h"
#include "quant/channel_links.h"
#include "quant/method.h"

namespace evoq {
namespace {

constexpr int kMostRounds = 50;
constexpr double kSettled = 1e-3;         // the largest |log| of a factor that ends the rounds
constexpr double kLargestScale = 0x1p20;  // a channel that nothing reads asks for more

using Scales = std::map<ValueId, std::vector<double>>;  // a value's channels are divided by them

// Whether the value never came to the bound of its Clip, which is a Relu then.
bool NeverClipped(const ChannelLink& link, const Graph& graph, const Ranges& ranges) {
  const auto range = ranges.find(graph.value(link.value).name);
  return range != ranges.end() && range->second.max < link.activation.beta &&
         !range->second.channel_max.empty() &&
         *std::ranges::max_element(range->second.channel_max) < link.activation.beta;
}

class CrossLayerEqualizer {
 public:
  CrossLayerEqualizer(const Graph& graph, std::span<const ChannelLink> links)
      : graph_(graph), links_(links) {
    for (const ChannelLink& link : links)
      scales_[link.value].assign(static_cast<size_t>(link.channels), 1.0);
  }

  // For each pair of layers s = sqrt(r1 / r2), r1 and r2 being the largest weights that make and
  // that read a channel; over and over until no channel changes, for layers are in two pairs.
  Scales Run() {
    for (int round = 0; round < kMostRounds; ++round) {
      double change = 0;
      for (const ChannelLink& link : links_) change = std::max(change, Equalize(link));
      if (change < kSettled) break;
    }
    return std::move(scales_);
  }

 private:
  double Equalize(const ChannelLink& link) {
    std::vector<double>& s = scales_.at(link.value);
    std::vector<double> made(s.size()), read(s.size());
    ForEachWeight(link.producer, [&](const WeightIndex& view, int64_t i, double w) {
      double& most = made[view.OutputOf(i)];
      most = std::max(most, w);
    });
    for (NodeId reader : link.readers) {
      ForEachWeight(reader, [&](const WeightIndex& view, int64_t i, double w) {
        double& most = read[view.InputOf(i)];
        most = std::max(most, w);
      });
    }
    double change = 0;
    for (size_t c = 0; c < s.size(); ++c) {
      if (made[c] == 0 || read[c] == 0) continue;
      const double wanted =
          std::clamp(s[c] * std::sqrt(made[c] / read[c]), 1 / kLargestScale, kLargestScale);
      change = std::max(change, std::fabs(std::log(wanted / s[c])));
      s[c] = wanted;
    }
    return change;
  }

  // Magnitudes of the node's weights with the scales of now.
  template <typename Use>
  void ForEachWeight(NodeId id, const Use& use) const {
    const Node& node = graph_.node(id);
    const Tensor& weight = *graph_.ConstantInput(node, 1);
    const WeightIndex view(node, weight.sizes());
    const auto in = scales_.find(node.input(0)), out = scales_.find(node.outputs[0]);
    const float* w = weight.data<float>();
    for (int64_t i = 0; i < weight.elements(); ++i) {
      double size = std::fabs(w[i]);
      if (in != scales_.end()) size *= in->second[view.InputOf(i)];
      if (out != scales_.end()) size /= out->second[view.OutputOf(i)];
      use(view, i, size);
    }
  }

  const Graph& graph_;
  std::span<const ChannelLink> links_;
  Scales scales_;
};

// What is known of the range until it is observed anew.
void ScaleRange(Range& range, std::span<const double> s) {
  float most = 0;
  if (range.channel_max.size() == s.size() && range.channel_means.size() == s.size()) {
    for (size_t c = 0; c < s.size(); ++c) {
      range.channel_max[c] = static_cast<float>(range.channel_max[c] / s[c]);
      range.channel_means[c] = static_cast<float>(range.channel_means[c] / s[c]);
      most = std::max(most, range.channel_max[c]);
    }
  } else {
    const double factor = 1 / *std::ranges::min_element(s);
    most = static_cast<float>(std::max(std::fabs(range.min), std::fabs(range.max)) * factor);
  }
  range.min = range.min < 0 ? -most : 0;
  range.max = most;
  range.min_error = range.max_error = -1;
}

std::string Refuses(const QuantScheme& scheme, const QuantizeOptions&) {
  return scheme.precision == Precision::kFloat32 || scheme.precision == Precision::kBf16
             ? "its weights are not integers"
             : "";
}

Status Run(MethodRun& run) {
  std::vector<ChannelLink> links = ChannelLinks(run.graph);
  std::erase_if(links, [&](const ChannelLink& link) {
    if (link.activation.kind != ActivationKind::kClip) return false;
    if (!NeverClipped(link, run.graph, run.ranges)) return true;
    ActivationToAttrs({ActivationKind::kRelu}, run.graph.attrs(link.producer));
    return false;
  });
  const Scales scales = CrossLayerEqualizer(run.graph, links).Run();
  for (const ChannelLink& link : links) {
    const std::vector<double>& s = scales.at(link.value);
    std::vector<double> inverse(s.size());
    std::ranges::transform(s, inverse.begin(), [](double v) { return 1 / v; });
    ScaleOutputs(run.graph, link.producer, inverse);
    for (NodeId reader : link.readers) ScaleInputs(run.graph, reader, s);
    const auto range = run.ranges.find(run.graph.value(link.value).name);
    if (range != run.ranges.end()) ScaleRange(range->second, s);
  }
  run.recalibrate = !links.empty();
  if (links.empty())
    run.warnings.push_back(
        "cle: no two layers follow each other with nothing between them, or a Relu or LeakyRelu "
        "(relu6-to-relu makes Relu of Clip): nothing is equalized");
  return {};
}

}  // namespace

extern const QuantMethod kMethodCle = {
    .name = "cle",
    .doc =
        "Cross-layer equalization: channels between two layers are scaled until the weights that "
        "make them and those that read them have the same range; for one scale per tensor.",
    .paper = "Nagel et al. 2019, arXiv:1906.04721",
    .stage = MethodStage::kFloat,
    .refuses = Refuses,
    .run = Run,
};

}  // namespace evoq
