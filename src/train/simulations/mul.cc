// Mul of two quantized values with broadcasting, inputs a, b and the parameters of their steps and
// of the result's:
//   v = a b * float32(s_a s_b / s_y),  y = clamp(round(v), low, high)
#include "kernels/requant.h"
#include "train/gradients/broadcast.h"
#include "train/simulation.h"

namespace evoq {
namespace {

struct Sizes {
  Broadcast lines;
  int64_t n, samples;
  StepBounds y;
};

void Forward(const Sizes& s, const GradientRun& run) {
  const float multiplier =
      LinearMultiplier(StepOf(*run.x[2]), StepOf(*run.x[3]), StepOf(*run.x[4]));
  const Broadcast& l = s.lines;
  l.ForEachLine([&](int64_t at, int64_t a, int64_t b) {
    for (int64_t j = 0; j < l.length; ++j) {
      const float v = run.x[0][a + j * l.a_step] * run.x[1][b + j * l.b_step] * multiplier;
      run.y[0][at + j] = RoundSmall(std::min(std::max(v, s.y.low), s.y.high));
    }
  });
}

void Backward(const Sizes& s, const GradientRun& run) {
  const float step_a = StepOf(*run.x[2]), step_b = StepOf(*run.x[3]), step_y = StepOf(*run.x[4]);
  const float multiplier = LinearMultiplier(step_a, step_b, step_y);
  const Broadcast& l = s.lines;
  double of_step = 0;
  l.ForEachLine([&](int64_t at, int64_t a, int64_t b) {
    double of_a = 0, of_b = 0;  // of operands that the line repeats
    for (int64_t j = 0; j < l.length; ++j) {
      const int64_t i = a + j * l.a_step, k = b + j * l.b_step;
      const float dy = run.dy[0][at + j], v = run.x[0][i] * run.x[1][k] * multiplier;
      of_step += static_cast<double>(dy) * StepTerm(v, s.y);
      if (v < s.y.low || v > s.y.high) continue;
      const float da = dy * run.x[1][k] * step_b, db = dy * run.x[0][i] * step_a;
      of_a += da, of_b += db;
      if (run.dx[0] != nullptr && l.a_step != 0) run.dx[0][i] += da;
      if (run.dx[1] != nullptr && l.b_step != 0) run.dx[1][k] += db;
    }
    if (run.dx[0] != nullptr && l.a_step == 0) run.dx[0][a] += static_cast<float>(of_a);
    if (run.dx[1] != nullptr && l.b_step == 0) run.dx[1][b] += static_cast<float>(of_b);
  });
  const double count = static_cast<double>(s.n) / static_cast<double>(s.samples);
  if (run.dx[4] != nullptr) *run.dx[4] += LogStepGradient(of_step, step_y, count, s.y.high);
}

Result<BoundGradient> Bind(const GradientArgs& args) {
  const Sizes s{BroadcastOf(args), *args.y[0].shape.elements(), args.y[0].shape[0].value,
                StepBounds::Of(args.node.attrs, "y")};
  return BoundGradient{.forward = [s](const GradientRun& run) { Forward(s, run); },
                       .backward = [s](const GradientRun& run) { Backward(s, run); }};
}

}  // namespace

extern const GradientDef kSimulationMul = {.op = "Mul", .differentiable = 0b10011, .bind = Bind};

}  // namespace evoq
