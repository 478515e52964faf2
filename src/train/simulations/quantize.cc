// QuantizeLinear, inputs x and the parameter of the step: y = clamp(round(x / s), low, high); and
// DequantizeLinear, y = x s, whose step learns from where x is made.
#include "train/simulation.h"

namespace evoq {
namespace {

Result<BoundGradient> BindQuantize(const GradientArgs& args) {
  const StepBounds bounds = StepBounds::Of(args.node.attrs, "y");
  const int64_t n = *args.y[0].shape.elements(), samples = args.y[0].shape[0].value;
  BoundGradient bound;
  bound.forward = [bounds, n](const GradientRun& run) {
    const float step = StepOf(*run.x[1]);
    for (int64_t i = 0; i < n; ++i)
      run.y[0][i] = RoundSmall(std::min(std::max(run.x[0][i] / step, bounds.low), bounds.high));
  };
  bound.backward = [bounds, n, samples](const GradientRun& run) {
    const float step = StepOf(*run.x[1]);
    double of_step = 0;
    for (int64_t i = 0; i < n; ++i) {
      const float v = run.x[0][i] / step;
      of_step += static_cast<double>(run.dy[0][i]) * StepTerm(v, bounds);
      if (run.dx[0] != nullptr && v >= bounds.low && v <= bounds.high) run.dx[0][i] += run.dy[0][i];
    }
    const double count = static_cast<double>(n) / static_cast<double>(samples);
    if (run.dx[1] != nullptr) *run.dx[1] += LogStepGradient(of_step, step, count, bounds.high);
  };
  return bound;
}

Result<BoundGradient> BindDequantize(const GradientArgs& args) {
  const int64_t n = *args.y[0].shape.elements();
  return BoundGradient{.forward =
                           [n](const GradientRun& run) {
                             const float step = StepOf(*run.x[1]);
                             for (int64_t i = 0; i < n; ++i) run.y[0][i] = run.x[0][i] * step;
                           },
                       .backward =
                           [n](const GradientRun& run) {
                             for (int64_t i = 0; i < n; ++i) run.dx[0][i] += run.dy[0][i];
                           }};
}

}  // namespace

extern const GradientDef kSimulationQuantize, kSimulationDequantize;
const GradientDef kSimulationQuantize = {
    .op = "Quantize", .differentiable = 0b11, .bind = BindQuantize};
const GradientDef kSimulationDequantize = {
    .op = "Dequantize", .differentiable = 0b1, .bind = BindDequantize};

}  // namespace evoq
