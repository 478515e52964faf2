#include "quant/block_rounding.h"

#include "kernels/activation.h"
#include "quant/observe.h"
#include "quant/unfuse.h"
#include "reference/reference.h"

namespace evoq {

Tensor JoinedOutputs::Of(std::span<const Tensor> results) const {
  int64_t elements = 0;
  for (const size_t o : outputs) elements += results[o].elements();
  Tensor all = Tensor::Allocate({DType::kFloat32, Shape{1, elements}});
  float* to = all.mutable_data<float>();
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (const float v : results[outputs[i]].values<float>()) *to++ = v * factors[i];
  }
  return all;
}

namespace {

Status Unfuse(Graph& graph) {
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (HasResidual(graph.node(id))) SplitResidual(graph, id);
  }
  EVOQ_TRY(graph.Sort());
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    EVOQ_ASSIGN(const ProductActivation fused, ProductActivationFromAttrs(graph.node(id).attrs));
    if (fused.activation.kind != ActivationKind::kNone) SplitActivation(graph, id);
  }
  return graph.Sort();
}

}  // namespace

Result<Graph> JoinedOutputs::GraphOf(
    const Graph& graph, const std::map<std::string, Tensor>& known,
    const std::map<std::string, std::vector<int64_t>>& sizes) const {
  Graph plain = graph;
  EVOQ_TRY(Unfuse(plain));
  std::vector<ValueId> parts;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ValueId row =
        plain.AddConstant("evoq.row", Tensor::FromValues<int64_t>(Shape{2}, {1, -1}));
    const ValueId factor = plain.AddConstant("evoq.factor", Tensor::Scalar(factors[i]));
    const ValueId output =
        plain.Apply("Reshape", "evoq.output", {graph.outputs()[outputs[i]], row});
    parts.push_back(plain.Apply("Mul", "evoq.scaled", {output, factor}));
  }
  Attrs axis;
  axis.Set("axis", int64_t{1});
  const ValueId all = parts.size() == 1 ? parts[0] : plain.Apply("Concat", "evoq.all", parts, axis);
  EVOQ_TRY(plain.Sort());
  EVOQ_TRY(InferTypes(plain));
  EVOQ_ASSIGN(Graph part, PartThatComputes(plain, {plain.value(all).name}, known));
  EVOQ_TRY(BindShapes(part, sizes));
  return part;
}

}  // namespace evoq
