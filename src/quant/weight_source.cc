#include "quant/weight_source.h"

#include "passes/match.h"

namespace evoq {

WeightSource SourceOf(const Graph& graph, ValueId weight) {
  WeightSource source{weight};
  if (const NodeId id = ProducedBy(graph, weight, "Transpose"); id.valid()) {
    if (PermutationOf(graph, graph.node(id)) != Permutation{1, 0}) return {};
    source = {graph.node(id).input(0), true};
  }
  if (const NodeId id = ProducedBy(graph, source.constant, "Cast"); id.valid())
    source.constant = graph.node(id).input(0);
  return graph.value(source.constant).is_constant() ? source : WeightSource();
}

bool IsNarrow(const Tensor& weight) {
  return IsFloat(weight.dtype()) && DTypeBits(weight.dtype()) == 16 && weight.layout().empty();
}

}  // namespace evoq
