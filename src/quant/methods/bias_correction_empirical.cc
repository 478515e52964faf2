// Empirical bias correction: Nagel et al. 2019, section 4.2 and appendix D: the quantized model
// runs beside the float one, layer by layer, each with the layers before it corrected.
#include <algorithm>
#include <cmath>

#include "kernels/activation.h"
#include "ops/op.h"
#include "quant/channel_statistics.h"
#include "quant/method.h"
#include "quant/observe.h"
#include "quant/params.h"
#include "reference/reference.h"

namespace evoq {
namespace {

constexpr char kSum[] = ".sum";

// An integer layer whose sums over channels of constant weights can be corrected.
bool IsCorrectable(const Graph& graph, const Node& node) {
  if (!IsLinear(node) || LinearFormOf(node)->outputs_by_group) return false;
  const Tensor* weight = graph.ConstantInput(node, 1);
  return weight != nullptr && weight->dtype() == DType::kInt8 && weight->type().quantized() &&
         graph.value(node.input(0)).type.quantized();
}

// Adds a copy of the node without residual and activation that computes in float32 what the node
// sums up: NAME.sum. Returns the value's name.
Result<std::string> AddSum(Graph& graph, NodeId id) {
  Node copy = graph.node(id);
  if (copy.inputs.size() > 3) copy.inputs.resize(3);
  EraseActivation(copy.attrs);
  const Shape shape = graph.value(copy.outputs[0]).type.shape;
  const ValueId sum = graph.AddValue(copy.name + kSum, {DType::kFloat32, shape});
  copy.name += kSum;
  copy.outputs = {sum};
  graph.AddNode(std::move(copy));
  EVOQ_TRY(graph.Sort());
  return graph.value(sum).name;
}

// The means of each output channel of these layers.
Result<std::vector<std::vector<double>>> MeansOf(const Graph& graph,
                                                 std::span<const std::string> layers,
                                                 const MethodData& data) {
  Graph with_sums = graph;
  std::vector<std::string> names;
  std::vector<int> axes;
  for (const std::string& layer : layers) {
    const NodeId id = with_sums.FindNode(layer);
    EVOQ_ASSIGN(std::string name, AddSum(with_sums, id));
    names.push_back(std::move(name));
    axes.push_back(
        ChannelAxis(graph.node(id), graph.value(graph.node(id).outputs[0]).type.shape.rank()));
  }
  std::vector<ChannelStatistics> seen(layers.size());
  EVOQ_TRY(ObserveValues(with_sums, names, data, [&](size_t which, const Tensor& value) -> Status {
    seen[which].Add(value, axes[which]);
    return {};
  }));
  std::vector<std::vector<double>> means(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    for (size_t c = 0; c < seen[i].channels(); ++c) means[i].push_back(seen[i].Mean(c));
  }
  return means;
}

// Adds the terms to the layer's bias, which is int32 at the scale of the sums, or float32.
void Correct(Graph& graph, NodeId id, std::span<const double> terms) {
  const Node& node = graph.node(id);
  Tensor real = Tensor::Allocate({DType::kFloat32, Shape{static_cast<int64_t>(terms.size())}});
  for (size_t m = 0; m < terms.size(); ++m)
    real.mutable_data<float>()[m] = static_cast<float>(terms[m]);
  const ValueId old = node.input(2);
  const std::string name = old.valid() ? graph.value(old).name : node.name + ".bias.int32";
  if (old.valid() && graph.value(old).type.dtype == DType::kFloat32) {
    for (size_t m = 0; m < terms.size(); ++m)
      real.mutable_data<float>()[m] += graph.value(old).constant.values<float>()[m];
    graph.SetInput(id, 2, graph.AddConstant(name, std::move(real)));
    return;
  }
  Tensor bias = QuantizeBias(real, graph.value(node.input(0)).type.quant->scales[0],
                             *graph.value(node.input(1)).type.quant);
  if (old.valid()) {
    constexpr int64_t kMost = 1 << 30;  // that sums have room for beside them (quant/plan.cc)
    int32_t* sums = bias.mutable_data<int32_t>();
    for (int64_t m = 0; m < bias.elements(); ++m)
      sums[m] = static_cast<int32_t>(std::clamp<int64_t>(
          int64_t{sums[m]} + graph.value(old).constant.values<int32_t>()[m], -kMost, kMost));
  }
  graph.SetInput(id, 2, graph.AddConstant(name, std::move(bias)));
}

std::string Refuses(const QuantScheme& scheme, const QuantizeOptions&) {
  return scheme.values == DType::kUint8 ? "" : "it corrects the biases of static int8";
}

Status Run(MethodRun& run) {
  std::vector<std::string> layers;
  for (NodeId id : run.graph.order()) {
    const Node& node = run.graph.node(id);
    const NodeId before = run.float_graph->FindNode(node.name);
    if (IsCorrectable(run.graph, node) && before.valid() &&
        run.float_graph->node(before).op == node.op &&
        run.graph.value(node.outputs[0]).type.shape.ranked())
      layers.push_back(node.name);
  }
  EVOQ_ASSIGN(const auto wanted, MeansOf(*run.float_graph, layers, run.data));
  for (size_t i = 0; i < layers.size(); ++i) {
    EVOQ_ASSIGN(const auto found, MeansOf(run.graph, std::span(&layers[i], 1), run.data));
    if (found[0].size() != wanted[i].size()) continue;
    std::vector<double> terms(wanted[i].size());
    for (size_t m = 0; m < terms.size(); ++m) terms[m] = wanted[i][m] - found[0][m];
    Correct(run.graph, run.graph.FindNode(layers[i]), terms);
  }
  run.graph = run.graph.Compacted();
  EVOQ_TRY(InferTypes(run.graph));
  return run.graph.Verify();
}

}  // namespace

extern const QuantMethod kMethodBiasCorrectionEmpirical = {
    .name = "bias-correction-empirical",
    .doc =
        "The quantized model runs beside the float one, layer by layer: what the mean of each "
        "output channel differs goes into the bias, with the layers before corrected.",
    .paper = "Nagel et al. 2019, arXiv:1906.04721, appendix D",
    .stage = MethodStage::kCorrection,
    .needs_samples = true,
    .refuses = Refuses,
    .run = Run,
};

}  // namespace evoq
