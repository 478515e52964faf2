#include <cmath>

#include "passes/linear.h"
#include "reference/util.h"

namespace evoq {
namespace {

// The constant behind operand i, directly or through a DequantizeLinear.
ValueId ConstantBehind(const Graph& graph, ValueId value) {
  const NodeId dequantize = ProducedBy(graph, value, "DequantizeLinear");
  if (dequantize.valid() && graph.node(dequantize).inputs.size() == 1)
    value = graph.node(dequantize).input(0);
  return graph.value(value).is_constant() ? value : ValueId{};
}

// The operand with its two axes swapped: a constant is swapped itself, under its DequantizeLinear
// if it has one.
ValueId Transposed(Graph& graph, const std::string& name, ValueId operand) {
  const Permutation swap{1, 0};
  const ValueId constant = ConstantBehind(graph, operand);
  if (constant.valid() && CanPermute(graph.value(constant).constant)) {
    const ValueId to = graph.AddConstant(graph.value(constant).name,
                                         Permuted(graph.value(constant).constant, swap));
    if (constant == operand) return to;
    return graph.Apply("DequantizeLinear", graph.value(operand).name + "_transposed", {to});
  }
  return graph.Apply("Transpose", name + "_transpose", {operand},
                     Attrs::Of("perm", std::vector<int64_t>{1, 0}),
                     Permuted(graph.value(operand).type, swap));
}

ValueId TimesScalar(Graph& graph, const std::string& name, ValueId value, float factor) {
  if (factor == 1) return value;
  if (const Tensor* tensor = FloatConstant(graph, value)) {
    Tensor scaled = tensor->Clone();
    for (int64_t i = 0; i < scaled.elements(); ++i) scaled.mutable_data<float>()[i] *= factor;
    return graph.AddConstant(graph.value(value).name, std::move(scaled));
  }
  return graph.Apply("Mul", name + "_scaled", {value, AddFloat(graph, name + "_factor", factor)});
}

// C as a bias of N values, or an invalid id when it is none (a matrix, or computed with an unknown
// shape).
ValueId AsBias(Graph& graph, ValueId c, const Shape& y) {
  const TensorType& type = graph.value(c).type;
  const Dim& n = y[1];
  if (type.shape.ranked() && type.shape.rank() == 1 && SameDim(type.shape[0], n)) return c;
  if (!n.known()) return {};
  const auto values = PerChannel(graph, c, 2, 1, n.value);
  if (!values) return {};
  return graph.AddConstant(graph.value(c).name, Tensor::FromValues(Shape{n.value}, *values));
}

bool Rewrite(Graph& graph, NodeId id) {
  const Node gemm = graph.node(id);
  const float alpha = gemm.attrs.Float("alpha", 1), beta = gemm.attrs.Float("beta", 1);
  const TensorType y = graph.value(gemm.outputs[0]).type;
  const ValueId c = gemm.input(2);
  const bool plain = y.dtype == DType::kFloat32 && !graph.value(gemm.input(0)).type.quantized() &&
                     !graph.value(gemm.input(1)).type.quantized();
  if (y.dtype != DType::kFloat32 && !y.quantized()) return false;
  if (!y.shape.ranked() || y.shape.rank() != 2 || (!plain && (alpha != 1 || beta != 1)))
    return false;
  if (!plain && c.valid() && graph.value(c).type.shape.rank() != 1) return false;
  const ValueId a = gemm.attrs.Int("transA") != 0
                        ? Transposed(graph, gemm.name + "_a", gemm.input(0))
                        : gemm.input(0);
  ValueId b = gemm.attrs.Int("transB") != 0 ? Transposed(graph, gemm.name + "_b", gemm.input(1))
                                            : gemm.input(1);
  b = TimesScalar(graph, gemm.name + "_b", b, alpha);
  if (!c.valid()) {
    ReplaceNode(graph, id, "MatMul", "", {a, b});
    return true;
  }
  const ValueId scaled = TimesScalar(graph, gemm.name + "_c", c, beta);
  const ValueId bias = AsBias(graph, scaled, y.shape);
  if (bias.valid()) {
    ReplaceNode(graph, id, "MatMul", "", {a, b, bias});
  } else {
    const ValueId product = graph.Apply("MatMul", gemm.name + "_matmul", {a, b});
    ReplaceNode(graph, id, "Add", "", {product, scaled});
  }
  return true;
}

Result<int> Run(Graph& graph) {
  int changes = 0;
  for (NodeId id : NodesOf(graph)) {
    if (IsOp(graph, id, "Gemm")) changes += Rewrite(graph, id);
  }
  return changes;
}

}  // namespace

extern const PassDef kGemmToMatmul = {
    .name = "gemm-to-matmul",
    .doc = "Writes Gemm as MatMul with a bias: transposes and factors go into the constants.",
    .stage = Stage::kOptimize,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
