// A function of one quantized value (HardSwish, Sigmoid, ...), inputs x and the parameters of the
// steps of x and y: a table of what the operator's definition makes of each level of x, as compiled
// models hold it. Backward is that of the operator on the real numbers of the levels.
#include <cmath>

#include "reference/reference.h"
#include "train/simulation.h"

namespace evoq {
namespace {

struct Sizes {
  Node node;  // the operator itself
  BoundGradient real;
  DType x_type, y_type;
  int64_t n, samples, levels;
  StepBounds x, y;
};

// By the levels of x, from the lowest on.
struct Table {
  std::vector<float> x, f;   // real numbers
  std::vector<float> y;      // of y, less the zero point
  std::vector<float> v;      // f / s_y
  std::vector<float> slope;  // df / dx; backward only
};

// What the definition makes of the levels of x.
std::vector<float> Levels(const Sizes& s, float step_x, float step_y) {
  const auto type = [&](DType dtype, float step, int64_t zero) {
    return TensorType(dtype, Shape{s.levels},
                      QuantParams::PerTensor(step, static_cast<int32_t>(zero)));
  };
  Tensor x = Tensor::Allocate(type(s.x_type, step_x, s.x.zero));
  for (int64_t i = 0; i < s.levels; ++i)
    x.mutable_raw()[i] = static_cast<std::byte>(static_cast<int64_t>(s.x.low) + s.x.zero + i);
  const TensorType y_type = type(s.y_type, step_y, s.y.zero);
  const auto made = EvaluateNode(s.node, {&x, 1}, {&y_type, 1});
  EVOQ_CHECK(made.has_value(), "{}", made.has_value() ? "" : made.error().message());
  std::vector<float> y(static_cast<size_t>(s.levels));
  for (int64_t i = 0; i < s.levels; ++i) {
    const auto byte = static_cast<uint8_t>((*made)[0].raw()[i]);
    const int q = s.y_type == DType::kUint8 ? byte : static_cast<int8_t>(byte);
    y[static_cast<size_t>(i)] =
        std::min(std::max(static_cast<float>(q - s.y.zero), s.y.low), s.y.high);
  }
  return y;
}

Table TableOf(const Sizes& s, const GradientRun& run, bool backward) {
  const float step_x = StepOf(*run.x[1]), step_y = StepOf(*run.x[2]);
  const auto count = static_cast<size_t>(s.levels);
  Table t{.x = std::vector<float>(count),
          .f = std::vector<float>(count),
          .y = {},
          .v = {},
          .slope = {}};
  if (!backward) {
    t.y = Levels(s, step_x, step_y);
    return t;
  }
  for (size_t i = 0; i < count; ++i) t.x[i] = (s.x.low + static_cast<float>(i)) * step_x;
  GradientRun own{.x = {t.x.data()}, .y = {t.f.data()}, .isa = run.isa, .scratch = run.scratch};
  own.workspace = run.workspace;
  std::vector<float> saved(static_cast<size_t>(s.real.saved)), ones(count, 1.0f);
  own.saved = saved.data();
  s.real.forward(own);
  t.slope.assign(count, 0.0f);
  own.dy = {ones.data()};
  own.dx = {t.slope.data()};
  s.real.backward(own);
  for (const float f : t.f) t.v.push_back(f / step_y);
  return t;
}

void Forward(const Sizes& s, const GradientRun& run) {
  const Table t = TableOf(s, run, false);
  for (int64_t i = 0; i < s.n; ++i) run.y[0][i] = t.y[static_cast<size_t>(run.x[0][i] - s.x.low)];
}

void Backward(const Sizes& s, const GradientRun& run) {
  const Table t = TableOf(s, run, true);
  double of_step = 0;
  for (int64_t i = 0; i < s.n; ++i) {
    const auto level = static_cast<size_t>(run.x[0][i] - s.x.low);
    const float dy = run.dy[0][i], v = t.v[level];
    of_step += static_cast<double>(dy) * StepTerm(v, s.y);
    if (run.dx[0] != nullptr && v >= s.y.low && v <= s.y.high) run.dx[0][i] += dy * t.slope[level];
  }
  const double count = static_cast<double>(s.n) / static_cast<double>(s.samples);
  if (run.dx[2] != nullptr)
    *run.dx[2] += LogStepGradient(of_step, StepOf(*run.x[2]), count, s.y.high);
}

Result<BoundGradient> Bind(const GradientArgs& args) {
  const Attrs& attrs = args.node.attrs;
  Node node{.op = attrs.String("op"),
            .domain = attrs.String("op_domain"),
            .name = args.node.name,
            .attrs = attrs};
  node.inputs = {args.node.inputs[0]};
  node.outputs = args.node.outputs;
  const StepBounds x = StepBounds::Of(attrs, "x"), y = StepBounds::Of(attrs, "y");
  const auto levels = static_cast<int64_t>(x.high - x.low) + 1;
  const TensorType real(DType::kFloat32, Shape{levels});
  EVOQ_ASSIGN(BoundGradient bound, FindGradient(node)->bind({node, {&real, 1}, {&real, 1}, {}}));
  const auto type = [&](const char* which) {
    return attrs.Int(which) != 0 ? DType::kUint8 : DType::kInt8;
  };
  const Sizes s{node,
                std::move(bound),
                type("x_unsigned"),
                type("y_unsigned"),
                *args.y[0].shape.elements(),
                args.y[0].shape[0].value,
                levels,
                x,
                y};
  return BoundGradient{.forward = [s](const GradientRun& run) { Forward(s, run); },
                       .backward = [s](const GradientRun& run) { Backward(s, run); }};
}

}  // namespace

extern const GradientDef kSimulationTable = {.op = "Table", .differentiable = 0b101, .bind = Bind};

}  // namespace evoq
