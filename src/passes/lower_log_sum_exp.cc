#include <limits>

#include "passes/match.h"

namespace evoq {
namespace {

bool Rewrite(Graph& graph, NodeId id) {
  if (!IsOp(graph, id, "ReduceLogSumExp")) return false;
  const Node node = graph.node(id);
  const ValueId x = node.input(0);
  const TensorType& type = graph.value(x).type;
  if (!IsPlainFloat(graph, x) || !IsPlainFloat(graph, node.outputs[0]) || !type.shape.ranked())
    return false;
  const bool keep = node.attrs.Int("keepdims", 1) != 0;
  std::vector<int64_t> axes;
  if (node.input(1).valid()) {
    const auto given = IntsOf(graph, node.input(1));
    if (!given) return false;
    axes = *given;
  }
  if (axes.empty() && node.attrs.Int("noop_with_empty_axes") != 0) return false;
  if (axes.empty()) {
    for (int i = 0; i < type.shape.rank(); ++i) axes.push_back(i);
  }
  if (axes.empty()) return false;  // of a scalar
  const ValueId over = AddInts(graph, node.name + "_axes", axes);
  const Attrs kept = Attrs::Of("keepdims", int64_t{1});
  const auto apply = [&](const char* op, const char* suffix, std::vector<ValueId> inputs,
                         const Attrs& attrs = {}) {
    return graph.Apply(op, node.name + suffix, std::move(inputs), attrs);
  };
  const auto number = [&](const char* suffix, float value) {
    return AddFloat(graph, node.name + suffix, value);
  };
  // From the largest element, or from 0 where that is no number or infinite.
  const ValueId largest = apply("ReduceMax", "_largest", {x, over}, kept),
                finite = apply("Less", "_finite",
                               {apply("Abs", "_size", {largest}),
                                number("_infinity", std::numeric_limits<float>::infinity())}),
                from = apply("Where", "_from", {finite, largest, number("_zero", 0.0f)}),
                exponents = apply("Exp", "_exp", {apply("Sub", "_below", {x, from})}),
                log = apply("Log", "_log", {apply("ReduceSum", "_sum", {exponents, over}, kept)});
  if (keep) {
    ReplaceNode(graph, id, "Add", "", {log, from});
  } else {
    ReplaceNode(graph, id, "Squeeze", "", {apply("Add", "_kept", {log, from}), over});
  }
  return true;
}

Result<int> Run(Graph& graph) { return CountChanges(graph, Rewrite); }

}  // namespace

extern const PassDef kLowerLogSumExp;
const PassDef kLowerLogSumExp = {
    .name = "lower-log-sum-exp",
    .doc = "ReduceLogSumExp becomes ReduceMax, Exp, ReduceSum and Log.",
    .stage = Stage::kLower,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
