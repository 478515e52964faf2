// A Transpose beside a conversion moves the narrower side. Moving and element-wise conversion
// commute exactly.
#include "passes/match.h"

namespace evoq {
namespace {

// Whether the conversion reads and writes one value each, with one scale for all elements.
bool IsElementwise(const Graph& graph, NodeId conversion) {
  const Node& node = graph.node(conversion);
  if (node.inputs.size() != 1) return false;
  const TensorType &from = graph.value(node.input(0)).type, &to = graph.value(node.outputs[0]).type;
  return from.quantized() != to.quantized() && (from.quantized() ? from : to).quant->per_tensor();
}

// second(first(x)) -> first'(second(x)), where both have one reader at most between them.
void Swap(Graph& graph, NodeId first, NodeId second) {
  const ValueId x = graph.node(first).input(0), y = graph.node(second).outputs[0];
  TensorType type = graph.value(IsOp(graph, second, "Transpose") ? x : y).type;
  type.shape = graph.value(IsOp(graph, second, "Transpose") ? y : x).type.shape;
  const ValueId between = graph.AddValue(graph.value(y).name + "_narrow", type);
  graph.SetInput(second, 0, x);
  graph.SetOutput(second, 0, between);
  graph.SetInput(first, 0, between);
  graph.SetOutput(first, 0, y);
}

Result<int> Run(Graph& graph) {
  int changes = 0;
  for (NodeId id : NodesOf(graph)) {
    if (IsOp(graph, id, "Transpose")) {
      const NodeId dequantize = ProducedBy(graph, graph.node(id).input(0), "DequantizeLinear");
      if (!dequantize.valid() || OnlyReader(graph, dequantize) != id ||
          !IsElementwise(graph, dequantize))
        continue;
      Swap(graph, dequantize, id);
      ++changes;
    } else if (IsOp(graph, id, "QuantizeLinear") && graph.node(id).inputs.size() == 1) {
      const NodeId transpose = ProducedBy(graph, graph.node(id).input(0), "Transpose");
      if (!transpose.valid() || OnlyReader(graph, transpose) != id || !IsElementwise(graph, id))
        continue;
      Swap(graph, transpose, id);
      ++changes;
    }
  }
  return changes;
}

}  // namespace

extern const PassDef kNarrowTranspose = {
    .name = "narrow-transpose",
    .doc =
        "A Transpose before QuantizeLinear or after DequantizeLinear moves the integers instead of "
        "the floats.",
    .stage = Stage::kLower,
    .level = 1,
    .run = Run,
};

}  // namespace evoq
