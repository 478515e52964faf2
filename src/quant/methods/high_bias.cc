// High-bias absorption: Nagel et al. 2019, section 4.1.3.
#include <algorithm>

#include "ops/op.h"
#include "quant/channel_links.h"
#include "quant/channel_statistics.h"
#include "quant/method.h"
#include "quant/observe.h"

namespace evoq {
namespace {

// Zeros around the data would have to become -c: only layers without them take a shift in.
bool HasPadding(const Node& node) {
  const std::vector<int64_t> pads = node.attrs.Ints("pads", {});
  const std::string automatic = node.attrs.String("auto_pad", "NOTSET");
  return std::ranges::any_of(pads, [](int64_t p) { return p != 0; }) || automatic == "SAME_UPPER" ||
         automatic == "SAME_LOWER";
}

bool Absorbs(const Graph& graph, const ChannelLink& link) {
  return link.activation.kind == ActivationKind::kRelu &&
         std::ranges::none_of(link.readers,
                              [&](NodeId reader) { return HasPadding(graph.node(reader)); });
}

// W c of the shift c that the node's data lost: by output channel.
std::vector<double> Returned(const Graph& graph, NodeId id, std::span<const double> shift) {
  const Node& node = graph.node(id);
  const Tensor& weight = *graph.ConstantInput(node, 1);
  const WeightIndex view(node, weight.sizes());
  std::vector<double> terms(static_cast<size_t>(view.outputs()));
  const float* w = weight.data<float>();
  for (int64_t i = 0; i < weight.elements(); ++i)
    terms[view.OutputOf(i)] += w[i] * shift[view.InputOf(i)];
  return terms;
}

std::string Refuses(const QuantScheme& scheme, const QuantizeOptions&) {
  return scheme.values == DType::kUint8 ? "" : "it narrows ranges of static int8";
}

Status Run(MethodRun& run) {
  std::vector<ChannelLink> links = ChannelLinks(run.graph);
  std::erase_if(links, [&](const ChannelLink& link) { return !Absorbs(run.graph, link); });
  std::vector<std::string> names;
  for (const ChannelLink& link : links) names.push_back(run.graph.value(link.value).name);
  std::vector<ChannelStatistics> seen(links.size());
  EVOQ_TRY(
      ObserveValues(run.graph, names, run.data, [&](size_t which, const Tensor& value) -> Status {
        const Node& reader = run.graph.node(links[which].readers[0]);
        seen[which].Add(value, ChannelAxis(reader, value.shape().rank()));
        return {};
      }));
  for (size_t i = 0; i < links.size(); ++i) {
    std::vector<double> shift(seen[i].channels());
    for (size_t c = 0; c < shift.size(); ++c)
      shift[c] = std::max(0.0, seen[i].Mean(c) - 3 * seen[i].Deviation(c));
    if (std::ranges::all_of(shift, [](double s) { return s == 0; })) continue;
    for (NodeId reader : links[i].readers)
      AddToBias(run.graph, reader, Returned(run.graph, reader, shift));
    for (double& s : shift) s = -s;
    AddToBias(run.graph, links[i].producer, shift);
    run.recalibrate = true;
  }
  return {};
}

}  // namespace

extern const QuantMethod kMethodHighBias = {
    .name = "high-bias",
    .doc =
        "High-bias absorption: what a channel behind a Relu nearly always has, its mean less three "
        "standard deviations, goes into the biases of the layers that read it.",
    .paper = "Nagel et al. 2019, arXiv:1906.04721, section 4.1.3",
    .stage = MethodStage::kFloat,
    .needs_samples = true,
    .refuses = Refuses,
    .run = Run,
};

}  // namespace evoq
