// Add of two quantized values of one shape (kernels/add_terms.h), inputs a, b and the parameters of
// their steps and of the result's.
#include "kernels/add_terms.h"
#include "train/simulation.h"

namespace evoq {
namespace {

struct Sizes {
  int64_t n, samples;
  StepBounds a, b, y;
  Activation activation;
};

// v as add_terms.h has it, and the bounds of its activation, all less the zero point.
struct Terms {
  AddTerms terms;
  int32_t raise_a, raise_b;
  float middle, leaky = 1, low, high;

  Terms(const Sizes& s, const GradientRun& run)
      : Terms(s, StepOf(*run.x[2]), StepOf(*run.x[3]), StepOf(*run.x[4])) {}
  Terms(const Sizes& s, float step_a, float step_b, float step_y)
      : terms(step_a, static_cast<int32_t>(-s.a.low), step_b, static_cast<int32_t>(-s.b.low),
              step_y, static_cast<int32_t>(-s.y.low)),
        raise_a(static_cast<int32_t>(-s.a.low)),
        raise_b(static_cast<int32_t>(-s.b.low)),
        middle(-s.y.low) {
    const OutputBounds bounds = OutputBounds::Real(ScaledActivation(s.activation, step_y));
    low = bounds.low + middle;
    high = bounds.high + middle;
    if (bounds.leaky) leaky = bounds.slope;
  }
  float Sum(float a, float b) const {
    return terms.Sum(static_cast<int32_t>(a) + raise_a, static_cast<int32_t>(b) + raise_b);
  }
  float Activated(float v) const {
    if (v < middle && leaky != 1) v = (v - middle) * leaky + middle;
    return std::min(std::max(v, low), high);
  }
};

void Forward(const Sizes& s, const GradientRun& run) {
  const Terms t(s, run);
  const float most = s.y.high - s.y.low;
  for (int64_t i = 0; i < s.n; ++i) {
    const float v = t.Activated(t.Sum(run.x[0][i], run.x[1][i]));
    run.y[0][i] = RoundSmall(std::min(std::max(v, 0.0f), most)) - t.middle;
  }
}

void Backward(const Sizes& s, const GradientRun& run) {
  const Terms t(s, run);
  double of_step = 0;
  for (int64_t i = 0; i < s.n; ++i) {
    const float sum = t.Sum(run.x[0][i], run.x[1][i]), v = t.Activated(sum) - t.middle;
    float dy = run.dy[0][i];
    of_step += static_cast<double>(dy) * StepTerm(v, s.y);
    if (v < s.y.low || v > s.y.high || !(sum > t.low && sum < t.high)) continue;
    if (sum < t.middle) dy *= t.leaky;
    if (run.dx[0] != nullptr) run.dx[0][i] += dy;
    if (run.dx[1] != nullptr) run.dx[1][i] += dy;
  }
  const double count = static_cast<double>(s.n) / static_cast<double>(s.samples);
  if (run.dx[4] != nullptr)
    *run.dx[4] += LogStepGradient(of_step, StepOf(*run.x[4]), count, s.y.high);
}

Result<BoundGradient> Bind(const GradientArgs& args) {
  const Attrs& attrs = args.node.attrs;
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(attrs));
  const Sizes s{*args.y[0].shape.elements(), args.y[0].shape[0].value,   StepBounds::Of(attrs, "a"),
                StepBounds::Of(attrs, "b"),  StepBounds::Of(attrs, "y"), activation};
  return BoundGradient{.forward = [s](const GradientRun& run) { Forward(s, run); },
                       .backward = [s](const GradientRun& run) { Backward(s, run); }};
}

}  // namespace

extern const GradientDef kSimulationAdd = {.op = "Add", .differentiable = 0b10011, .bind = Bind};

}  // namespace evoq
