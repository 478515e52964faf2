#include "passes/match.h"

namespace evoq {
namespace {

// The exponent where all its elements are the same number.
std::optional<double> ExponentOf(const Graph& graph, ValueId value) {
  if (const auto uniform = UniformOf(graph, value)) return *uniform;
  if (const Tensor& held = graph.value(value).constant;
      held.defined() && held.dtype() == DType::kBfloat16 && held.elements() == 1)
    return Bfloat16ToFloat(held.data<uint16_t>()[0]);
  const auto integers = IntsOf(graph, value);
  if (!integers || integers->empty()) return std::nullopt;
  for (int64_t v : *integers) {
    if (v != integers->front()) return std::nullopt;
  }
  return static_cast<double>(integers->front());
}

bool Rewrite(Graph& graph, NodeId id) {
  if (!IsOp(graph, id, "Pow")) return false;
  const Node pow = graph.node(id);
  const ValueId x = pow.input(0);
  const TensorType &type = graph.value(x).type, &y = graph.value(pow.outputs[0]).type;
  const bool real = type.dtype == DType::kFloat32 || type.dtype == DType::kBfloat16;
  if (!real || type.quantized() || y.quantized() || HasActivation(pow) ||
      !SameShape(type.shape, y.shape))
    return false;
  const auto exponent = ExponentOf(graph, pow.input(1));
  if (exponent == 2.0) {
    ReplaceNode(graph, id, "Mul", "", {x, x});
  } else if (exponent == 3.0 && type.dtype == DType::kFloat32) {  // bfloat16 rounds once
    const ValueId square = graph.Apply("Mul", pow.name + "_square", {x, x});
    ReplaceNode(graph, id, "Mul", "", {square, x});
  } else if (exponent == 0.5) {
    ReplaceNode(graph, id, "Sqrt", "", {x});
  } else if (exponent == 1.0) {
    ReplaceNode(graph, id, "Identity", "", {x});
  } else if (exponent == -1.0) {
    ReplaceNode(graph, id, "Reciprocal", "", {x});
  } else {
    return false;
  }
  return true;
}

Result<int> Run(Graph& graph) { return CountChanges(graph, Rewrite); }

}  // namespace

extern const PassDef kLowerPow = {
    .name = "lower-pow",
    .doc = "Pow with a constant exponent of 2, 3, 0.5, 1 or -1 becomes Mul, Sqrt or Reciprocal.",
    .stage = Stage::kLower,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
