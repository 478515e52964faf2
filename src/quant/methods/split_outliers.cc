// Outlier channel splitting: R. Zhao, Y. Hu, J. Dotzel, C. De Sa, Z. Zhang, "Improving Neural
// Network Quantization without Retraining using Outlier Channel Splitting", 2019. The channel of
// the largest values is made twice with half the weights, and read twice with the same ones:
//   w x = w (x / 2) + w (x / 2),
// over and over, so that the range of the whole value shrinks.
#include <algorithm>
#include <cmath>

#include "ops/op.h"
#include "quant/channel_links.h"
#include "quant/method.h"
#include "reference/reference.h"

namespace evoq {
namespace {

constexpr double kMostGrowth = 0.05;  // of the channels, that are added; at least 1
constexpr double kWorthwhile = 0.9;   // of the range, that is to be left at most

// Which channel each one is made of, and by what its values are multiplied.
struct Split {
  std::vector<int64_t> from;
  std::vector<double> factors;
};

// Halves the largest channel, as often as channels may be added; nothing where that is not worth
// it.
std::optional<Split> SplitOf(std::vector<double> largest) {
  Split split;
  const auto channels = static_cast<int64_t>(largest.size());
  for (int64_t c = 0; c < channels; ++c) {
    split.from.push_back(c);
    split.factors.push_back(1);
  }
  const double before = *std::ranges::max_element(largest);
  double least = before;
  Split best;
  const auto added = std::max<int64_t>(1, std::llround(kMostGrowth * channels));
  for (int64_t i = 0; i < added; ++i) {
    const auto c = std::ranges::max_element(largest) - largest.begin();
    largest[c] /= 2;
    split.factors[c] /= 2;
    largest.push_back(largest[c]);
    split.from.push_back(split.from[c]);
    split.factors.push_back(split.factors[c]);
    const double now = *std::ranges::max_element(largest);
    if (now < least) {
      least = now;
      best = split;
    }
  }
  return least <= kWorthwhile * before ? std::optional(best) : std::nullopt;
}

// Index `axis` of the result is that of `from`; each multiplied by its factor.
Tensor Picked(const Tensor& tensor, size_t axis, const Split& split, bool multiplied) {
  std::vector<int64_t> sizes = tensor.sizes();
  const int64_t old = sizes[axis];
  sizes[axis] = static_cast<int64_t>(split.from.size());
  int64_t inner = 1, outer = 1;
  for (size_t i = 0; i < axis; ++i) outer *= sizes[i];
  for (size_t i = axis + 1; i < sizes.size(); ++i) inner *= sizes[i];
  Tensor picked = Tensor::Allocate({DType::kFloat32, Shape(sizes)});
  float* out = picked.mutable_data<float>();
  for (int64_t o = 0; o < outer; ++o) {
    for (size_t c = 0; c < split.from.size(); ++c) {
      const float* in = tensor.data<float>() + (o * old + split.from[c]) * inner;
      const double factor = multiplied ? split.factors[c] : 1;
      for (int64_t i = 0; i < inner; ++i) *out++ = static_cast<float>(in[i] * factor);
    }
  }
  return picked;
}

void Replace(Graph& graph, NodeId id, size_t input, size_t axis, const Split& split,
             bool multiplied) {
  const ValueId old = graph.node(id).input(input);
  if (!old.valid()) return;
  Tensor picked = Picked(graph.value(old).constant, axis, split, multiplied);
  graph.SetInput(id, input, graph.AddConstant(graph.value(old).name + ".split", std::move(picked)));
}

// The axis of the node's weight that numbers input channels.
size_t InputAxis(const Node& node, int rank) {
  const LinearForm& form = *LinearFormOf(node);
  const int axis =
      WeightAxis(node, rank) == (form.out_axis + rank) % rank ? form.in_axis : form.out_axis;
  return static_cast<size_t>((axis + rank) % rank);
}

bool IsUngrouped(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  return WeightIndex(node, graph.ConstantInput(node, 1)->sizes()).groups() == 1;
}

bool CanSplit(const Graph& graph, const ChannelLink& link) {
  return link.activation.kind != ActivationKind::kClip && IsUngrouped(graph, link.producer) &&
         std::ranges::all_of(link.readers, [&](NodeId id) { return IsUngrouped(graph, id); });
}

void Apply(Graph& graph, const ChannelLink& link, const Split& split) {
  const int weight_rank = graph.ConstantInput(graph.node(link.producer), 1)->shape().rank();
  const auto out = static_cast<size_t>(WeightAxis(graph.node(link.producer), weight_rank));
  Replace(graph, link.producer, 1, out, split, true);
  Replace(graph, link.producer, 2, 0, split, true);
  for (NodeId reader : link.readers) {
    const int rank = graph.ConstantInput(graph.node(reader), 1)->shape().rank();
    Replace(graph, reader, 1, InputAxis(graph.node(reader), rank), split, false);
  }
  const Shape shape = graph.value(link.value).type.shape;
  const int axis = ChannelAxis(graph.node(link.producer), shape.rank());
  std::vector<Dim> dims;
  for (int i = 0; i < shape.rank(); ++i)
    dims.push_back(i == axis ? Dim(static_cast<int64_t>(split.from.size())) : shape[i]);
  graph.SetType(link.value, {DType::kFloat32, Shape(std::move(dims))});
}

std::string Refuses(const QuantScheme& scheme, const QuantizeOptions&) {
  return scheme.values == DType::kUint8 ? "" : "it narrows ranges of static int8";
}

Status Run(MethodRun& run) {
  for (const ChannelLink& link : ChannelLinks(run.graph)) {
    const auto range = run.ranges.find(run.graph.value(link.value).name);
    if (!CanSplit(run.graph, link) || range == run.ranges.end() ||
        static_cast<int64_t>(range->second.channel_max.size()) != link.channels)
      continue;
    const auto& largest = range->second.channel_max;
    const auto split = SplitOf(std::vector<double>(largest.begin(), largest.end()));
    if (!split) continue;
    Apply(run.graph, link, *split);
    run.recalibrate = true;
  }
  return InferTypes(run.graph);
}

}  // namespace

extern const QuantMethod kMethodSplitOutliers = {
    .name = "split-outliers",
    .doc =
        "Outlier channel splitting: channels of the largest values, up to 5% of them, are made "
        "twice with half the weights, which halves the range; weights and work grow as much.",
    .paper = "Zhao et al. 2019, arXiv:1901.09504",
    .stage = MethodStage::kFloat,
    .needs_samples = true,
    .refuses = Refuses,
    .run = Run,
};

}  // namespace evoq
