// NegativeLogLikelihoodLoss(x, target, weight?) and SoftmaxCrossEntropyLoss(scores, target,
// weight?) -> loss, log_prob: x and scores are [N, C, d...], target [N, d...] names a class. loss =
// -w[target] * x[target], w = 0 where the target is ignore_index; reduction none, sum, or mean (the
// sum over the sum of w). Sums are sequential.
#include "ops/losses.h"

#include "reference/definition.h"
#include "reference/real.h"
#include "reference/util.h"

namespace evoq {
namespace {

template <typename T>
Result<Tensor> Loss(const EvalArgs& args, const Tensor& log_prob) {
  EVOQ_ASSIGN(const LossReduction reduction, LossReductionOf(args.node));
  EVOQ_ASSIGN(const std::vector<int64_t> target, ToInt64s(args.inputs[1]));
  const AxisSplit split = SplitAt(log_prob.sizes(), 1);
  const T* weight = args.has(2) ? args.inputs[2].data<T>() : nullptr;
  if (weight != nullptr && args.inputs[2].elements() != split.size)
    return InvalidInput("input 2 has {} weights, expected {}", args.inputs[2].elements(),
                        split.size);
  const bool ignores = args.node.attrs.Has("ignore_index");
  const int64_t ignored = args.node.attrs.Int("ignore_index");
  Tensor losses = Tensor::Allocate(TensorType(log_prob.dtype(), args.inputs[1].shape()));
  T sum = 0, weights = 0;
  for (int64_t i = 0; i < losses.elements(); ++i) {
    const int64_t c = target[i];
    if (ignores && c == ignored) continue;
    if (c < 0 || c >= split.size) return InvalidInput("target {} of {} classes", c, split.size);
    const T w = weight ? weight[c] : T{1};
    const T loss =
        -log_prob.data<T>()[(i / split.inner * split.size + c) * split.inner + i % split.inner] * w;
    losses.mutable_data<T>()[i] = loss;
    sum += loss;
    weights += w;
  }
  if (reduction == LossReduction::kNone) return losses;
  return Tensor::Scalar(reduction == LossReduction::kSum ? sum : sum / weights);
}

EvalResult EvaluateNll(const EvalArgs& args) {
  return EvaluateAsFloats(args,
                          [&](auto tag) -> EvalResult {
                            EVOQ_ASSIGN(Tensor loss, Loss<decltype(tag)>(args, args.inputs[0]));
                            return One(std::move(loss));
                          },
                          {1});
}

template <typename T>
EvalResult CrossEntropy(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  const AxisSplit split = SplitAt(x.sizes(), 1);
  Tensor log_prob = x.Clone();
  std::vector<T> exps(split.size);
  for (int64_t row = 0; row < split.outer * split.inner && split.size > 0; ++row) {
    T* v = log_prob.mutable_data<T>() + row / split.inner * split.size * split.inner +
           row % split.inner;
    T max = v[0];
    for (int64_t c = 1; c < split.size; ++c)
      max = v[c * split.inner] > max ? v[c * split.inner] : max;
    for (int64_t c = 0; c < split.size; ++c) exps[c] = ExpOf(v[c * split.inner] - max);
    const T log_sum = LogOf(SumAlong<T>(exps, split.inner == 1));
    for (int64_t c = 0; c < split.size; ++c)
      v[c * split.inner] = (v[c * split.inner] - max) - log_sum;
  }
  EVOQ_ASSIGN(Tensor loss, Loss<T>(args, log_prob));
  return std::vector<Tensor>{std::move(loss), std::move(log_prob)};
}

EvalResult EvaluateCrossEntropy(const EvalArgs& args) {
  return EvaluateAsFloats(args, [&](auto tag) { return CrossEntropy<decltype(tag)>(args); }, {1});
}

}  // namespace

namespace reference {

extern const Definition kNegativeLogLikelihoodLoss = {.name = "NegativeLogLikelihoodLoss",
                                                      .evaluate = EvaluateNll};
extern const Definition kSoftmaxCrossEntropyLoss = {.name = "SoftmaxCrossEntropyLoss",
                                                    .evaluate = EvaluateCrossEntropy};

}  // namespace reference
}  // namespace evoq
