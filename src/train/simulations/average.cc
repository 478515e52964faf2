// A mean of quantized values (AveragePool without padding, GlobalAveragePool, ReduceMean): the
// operator's own inputs, then the parameters of the steps of x and y. With `count` numbers in each
// mean,
//   v = sum x * float32(s_x / (s_y count)),  y = clamp(round(v), low, high)
#include "train/simulation.h"

namespace evoq {
namespace {

struct Sizes {
  int64_t n, samples, count;
  size_t inputs;  // the operator's own
  StepBounds y;
};

// v of each output, in place of the means; a mean times its count is nearer to the sum, which is
// below 2^22, than to another integer.
void ToUnits(const Sizes& s, const GradientRun& run, float* v) {
  const double step_x = StepOf(*run.x[s.inputs]), step_y = StepOf(*run.x[s.inputs + 1]);
  const auto count = static_cast<float>(s.count);
  const auto multiplier = static_cast<float>(step_x / (step_y * static_cast<double>(s.count)));
  for (int64_t i = 0; i < s.n; ++i) v[i] = RoundSmall(v[i] * count) * multiplier;
}

GradientRun OwnRun(const Sizes& s, const GradientRun& run, float* y) {
  GradientRun own = run;
  own.x.resize(s.inputs);
  own.y = {y};
  own.saved = run.saved + s.n;
  return own;
}

void Backward(const Sizes& s, const BoundGradient& mean, const GradientRun& run) {
  float* const v = run.saved;
  double of_step = 0;
  for (int64_t i = 0; i < s.n; ++i) {
    of_step += static_cast<double>(run.dy[0][i]) * StepTerm(v[i], s.y);
    v[i] = v[i] >= s.y.low && v[i] <= s.y.high ? run.dy[0][i] : 0;
  }
  const double count = static_cast<double>(s.n) / static_cast<double>(s.samples);
  if (float* const to = run.dx[s.inputs + 1]; to != nullptr)
    *to += LogStepGradient(of_step, StepOf(*run.x[s.inputs + 1]), count, s.y.high);
  if (run.dx[0] == nullptr) return;
  GradientRun own = OwnRun(s, run, run.y[0]);
  own.dy = {v};
  own.dx.resize(s.inputs);
  mean.backward(own);
}

Result<BoundGradient> Bind(const GradientArgs& args) {
  const Attrs& attrs = args.node.attrs;
  Node node = args.node;
  node.op = attrs.String("op");
  node.domain = "";
  const size_t inputs = args.node.inputs.size() - 2;
  node.inputs.resize(inputs);
  EVOQ_ASSIGN(
      const BoundGradient mean,
      FindGradient(node)->bind({node, args.x.first(inputs), args.y, args.constants.first(inputs)}));
  const Sizes s{*args.y[0].shape.elements(), args.y[0].shape[0].value, attrs.Int("count"), inputs,
                StepBounds::Of(attrs, "y")};
  BoundGradient bound;
  bound.saved = s.n + mean.saved;
  bound.forward = [s, mean](const GradientRun& run) {
    mean.forward(OwnRun(s, run, run.saved));
    ToUnits(s, run, run.saved);
    for (int64_t i = 0; i < s.n; ++i)
      run.y[0][i] = RoundSmall(std::min(std::max(run.saved[i], s.y.low), s.y.high));
  };
  bound.backward = [s, mean](const GradientRun& run) { Backward(s, mean, run); };
  return bound;
}

}  // namespace

// The step of y is input 2 or, behind axes, 3.
extern const GradientDef kSimulationAverage = {
    .op = "Average", .differentiable = 0b1101, .bind = Bind};

}  // namespace evoq
