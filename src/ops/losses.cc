// NegativeLogLikelihoodLoss(x, target, weight?) and SoftmaxCrossEntropyLoss(scores, target,
// weight?) -> loss, log_prob: x and scores are [N, C, d...], target [N, d...] names a class. loss =
// -w[target] * x[target], w = 0 where the target is ignore_index; reduction none, sum, or mean (the
// sum over the sum of w). Sums are sequential.
#include <cmath>

#include "ops/indexing.h"
#include "ops/real.h"
#include "ops/util.h"

namespace evoq {
namespace {

enum class Reduction { kNone, kSum, kMean };

Result<Reduction> ReductionOf(const Node& node) {
  EVOQ_ASSIGN(const std::string name, StringAttr(node, "reduction", "mean"));
  if (name == "none") return Reduction::kNone;
  if (name == "sum") return Reduction::kSum;
  if (name == "mean") return Reduction::kMean;
  return InvalidInput("attribute reduction is '{}', expected none, sum or mean", name);
}

InferResult Infer(const InferArgs& args) {
  EVOQ_TRY(CheckFloat(args, 0));
  EVOQ_TRY(CheckIndexType(args, 1));
  EVOQ_TRY(CheckFloat(args, 2));
  EVOQ_TRY(CheckRank(args, 2, 1));
  EVOQ_TRY(IntAttr(args.node, "ignore_index", 0));
  EVOQ_ASSIGN(const Reduction reduction, ReductionOf(args.node));
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
  const Shape shape = reduction == Reduction::kNone ? target : Shape{};
  return std::vector<TensorType>{TensorType(x.dtype, shape), x};
}

template <typename T>
Result<Tensor> Loss(const EvalArgs& args, const Tensor& log_prob) {
  EVOQ_ASSIGN(const Reduction reduction, ReductionOf(args.node));
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
  if (reduction == Reduction::kNone) return losses;
  return Tensor::Scalar(reduction == Reduction::kSum ? sum : sum / weights);
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

extern const OpDef kNegativeLogLikelihoodLoss = {.name = "NegativeLogLikelihoodLoss",
                                                 .min_inputs = 2,
                                                 .max_inputs = 3,
                                                 .infer = Infer,
                                                 .evaluate = EvaluateNll};
extern const OpDef kSoftmaxCrossEntropyLoss = {.name = "SoftmaxCrossEntropyLoss",
                                               .min_inputs = 2,
                                               .max_inputs = 3,
                                               .outputs = 2,
                                               .infer = Infer,
                                               .evaluate = EvaluateCrossEntropy};

}  // namespace evoq
