#include "passes/match.h"

namespace evoq {
namespace {

bool IsConvolution(const Node& node) {
  const LinearForm* form = LinearFormOf(node);
  return form != nullptr && form->grouped && !form->outputs_by_group;
}

// For each output channel of a convolution whose groups have one input channel and more than one
// output channel, its input channel; empty for others.
std::vector<int64_t> SourcesOf(const Graph& graph, const Node& node) {
  const Tensor* w = graph.ConstantInput(node, 1);
  const int64_t group = node.attrs.Int("group", 1);
  if (w == nullptr || !w->layout().empty() || node.attrs.Int("channels_last") == 1) return {};
  const int rank = w->shape().rank();
  if ((rank != 3 && rank != 4) || group < 2 || w->sizes()[1] != 1) return {};
  const int64_t outputs = w->sizes()[0];
  if (outputs <= group || outputs % group != 0) return {};
  std::vector<int64_t> sources(outputs);
  for (int64_t m = 0; m < outputs; ++m) sources[m] = m / (outputs / group);
  return sources;
}

Result<int> Run(Graph& graph) {
  return CountChanges(graph, [](Graph& graph, NodeId id) {
    if (!IsConvolution(graph.node(id))) return 0;
    const std::vector<int64_t> sources = SourcesOf(graph, graph.node(id));
    if (sources.empty()) return 0;
    const ValueId x = graph.node(id).input(0);
    const std::string name = graph.value(x).name + ".repeated";
    Attrs axis;
    axis.Set("axis", 1);
    TensorType type = graph.value(x).type;  // with its scale
    type.shape = Shape::UnknownRank();
    const ValueId repeated =
        graph.Apply("Gather", name, {x, AddInts(graph, name + "_from", sources)}, axis, type);
    graph.SetInput(id, 0, repeated);
    graph.attrs(id).Set("group", static_cast<int64_t>(sources.size()));
    return 1;
  });
}

}  // namespace

extern const PassDef kRepeatChannels = {
    .name = "repeat-channels",
    .doc =
        "A convolution with several output channels for each of its input channels becomes a "
        "depthwise one of repeated channels.",
    .stage = Stage::kLower,
    .level = 2,
    .run = Run,
};

}  // namespace evoq
