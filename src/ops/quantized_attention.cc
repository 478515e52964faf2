#include "kernels/attention/quantized_attention.h"

#include <array>

#include "ops/matmul.h"
#include "ops/util.h"

namespace evoq {

namespace {

InferResult Infer(const InferArgs& args) {
  EVOQ_TRY(AttentionWeights::Of(args.node.attrs));
  EVOQ_TRY(FloatAttr(args.node, "factor", 1));
  EVOQ_TRY(FloatAttr(args.node, "weights_scale", 1));
  EVOQ_TRY(IntAttr(args.node, "weights_zero_point", 0));
  for (size_t i = 0; i < 4; ++i) {
    if (i < 3 || args.has(i)) EVOQ_TRY(CheckDType(args, i, std::array{DType::kFloat32}));
    const Shape& shape = args.inputs[std::min(i, args.inputs.size() - 1)].shape;
    if (i < 3 && shape.ranked() && shape.rank() < 2)
      return InvalidInput("input {} is {}, expected rank 2 or more", i, shape.ToString());
  }
  EVOQ_ASSIGN(const Shape scores, MatMulShape(args.inputs[0].shape, args.inputs[1].shape));
  if (args.has(3)) {
    EVOQ_ASSIGN(const Shape masked, BroadcastShapes(scores, args.inputs[3].shape));
    if (scores.is_static() && masked.is_static() && masked != scores)
      return InvalidInput("mask {} for scores {}, expected a shape that broadcasts to theirs",
                          args.inputs[3].shape.ToString(), scores.ToString());
  }
  EVOQ_ASSIGN(Shape y, MatMulShape(scores, args.inputs[2].shape));
  return std::vector<TensorType>{TensorType(DType::kFloat32, std::move(y))};
}

int64_t Macs(const Node&, std::span<const TensorType> inputs, std::span<const TensorType>) {
  const MatMulGeometry scores = MatMulGeometryOf(inputs[0].shape, inputs[1].shape);
  return CheckedProduct(std::array{scores.batches(), scores.m, scores.n,
                                   scores.k + inputs[2].shape.sizes().back()})
      .value_or(0);
}

}  // namespace

extern const OpDef kQuantizedAttention = {.name = "QuantizedAttention",
                                          .domain = "evoq",
                                          .min_inputs = 3,
                                          .max_inputs = 4,
                                          .quant = QuantTrait::kLinear,
                                          .infer = Infer,
                                          .macs = Macs};

}  // namespace evoq
