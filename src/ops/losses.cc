// NegativeLogLikelihoodLoss(x, target, weight?) and SoftmaxCrossEntropyLoss(scores, target,
// weight?) -> loss, log_prob.
#include "ops/losses.h"

#include "ops/indexing.h"
#include "ops/util.h"

namespace evoq {

Result<LossReduction> LossReductionOf(const Node& node) {
  EVOQ_ASSIGN(const std::string name, StringAttr(node, "reduction", "mean"));
  if (name == "none") return LossReduction::kNone;
  if (name == "sum") return LossReduction::kSum;
  if (name == "mean") return LossReduction::kMean;
  return InvalidInput("attribute reduction is '{}', expected none, sum or mean", name);
}

namespace {

InferResult Infer(const InferArgs& args) {
  EVOQ_TRY(CheckFloat(args, 0));
  EVOQ_TRY(CheckIndexType(args, 1));
  EVOQ_TRY(CheckFloat(args, 2));
  EVOQ_TRY(CheckRank(args, 2, 1));
  EVOQ_TRY(IntAttr(args.node, "ignore_index", 0));
  EVOQ_ASSIGN(const LossReduction reduction, LossReductionOf(args.node));
  const TensorType& x = args.inputs[0];
  const Shape& target = args.inputs[1].shape;
  if (x.shape.ranked() && target.ranked()) {
    bool fits = x.shape.rank() >= 2 && target.rank() == x.shape.rank() - 1;
    for (int d = 0; fits && d < target.rank(); ++d) {
      const Dim& size = x.shape[d == 0 ? 0 : d + 1];
      fits = !size.known() || !target[d].known() || size.value == target[d].value;
    }
    if (!fits)
      return InvalidInput("inputs {} and {}, expected [N, C, ...] and [N, ...]", x.ToString(),
                          args.inputs[1].ToString());
  }
  const Shape shape = reduction == LossReduction::kNone ? target : Shape{};
  return std::vector<TensorType>{TensorType(x.dtype, shape), x};
}

}  // namespace

extern const OpDef kNegativeLogLikelihoodLoss = {.name = "NegativeLogLikelihoodLoss",
                                                 .min_inputs = 2,
                                                 .max_inputs = 3,
                                                 .infer = Infer,
                                                 .indices = 1};
extern const OpDef kSoftmaxCrossEntropyLoss = {.name = "SoftmaxCrossEntropyLoss",
                                               .min_inputs = 2,
                                               .max_inputs = 3,
                                               .outputs = 2,
                                               .infer = Infer,
                                               .indices = 1};

}  // namespace evoq
