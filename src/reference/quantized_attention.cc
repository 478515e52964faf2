// evoq::QuantizedAttention by the definitions of the operators that it stands for.
#include "kernels/attention/quantized_attention.h"

#include "ops/matmul.h"
#include "reference/definition.h"
#include "reference/reference.h"
#include "reference/util.h"

namespace evoq {
namespace {

Result<Tensor> By(const char* op, std::vector<Tensor> inputs, const TensorType& y) {
  Node node;
  node.op = op;
  node.name = op;
  for (size_t i = 0; i < inputs.size(); ++i)
    node.inputs.push_back(ValueId{static_cast<int32_t>(i)});
  node.outputs = {ValueId{static_cast<int32_t>(inputs.size())}};
  EVOQ_ASSIGN(const std::vector<Tensor> outputs, EvaluateNode(node, inputs, {&y, 1}));
  return outputs[0];
}

EvalResult Evaluate(const EvalArgs& args) {
  EVOQ_ASSIGN(const AttentionWeights weights, AttentionWeights::Of(args.node.attrs));
  Tensor q = args.inputs[0].WithType(weights.Scaled(args.inputs[0].type()));
  EVOQ_ASSIGN(const Shape shape, MatMulShape(q.shape(), args.inputs[1].shape()));
  const TensorType real(DType::kFloat32, shape);
  if (!q.type().quantized()) {
    const Tensor factor = Tensor::FromValues<float>(Shape{}, std::vector<float>{weights.factor});
    EVOQ_ASSIGN(q, By("Mul", {q, factor}, q.type()));
  }
  EVOQ_ASSIGN(Tensor scores, By("MatMul", {q, args.inputs[1]}, real));
  if (args.has(3)) {
    EVOQ_ASSIGN(scores, By("Add", {scores, args.inputs[3]}, real));
  }
  EVOQ_ASSIGN(scores, By("Softmax", {scores}, real));
  EVOQ_ASSIGN(scores, QuantizeTensor(scores, weights.Type(shape)));
  if (!args.inputs[2].type().quantized()) {
    EVOQ_ASSIGN(scores, ToFloat32(scores));
  }
  EVOQ_ASSIGN(Tensor y, By("MatMul", {scores, args.inputs[2]}, args.output_types[0]));
  return One(std::move(y));
}

}  // namespace

namespace reference {

extern const Definition kQuantizedAttention = {.name = "QuantizedAttention",
                                               .domain = "evoq",
                                               .evaluate = Evaluate,
                                               .evaluate_quantized = Evaluate};

}  // namespace reference
}  // namespace evoq
