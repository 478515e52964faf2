// Conv and MatMul of integers with constant weights (kernels/requant.h), inputs x, w, bias,
// residual and the parameters of the steps of x, w (one for each output channel), y and residual;
// without a step of y the result is real.
//   q[k, c] = clamp(round(w[k, c] / s_w[c])),  acc[c] = sum over k of x[k] q[k, c]
// are products of matrices in float32. They are exact, and so the same in any order, because every
// partial sum is an integer below 2^24; where weights are so large and many that one could pass it,
// they are multiplied digit by digit. Of binary weights (attribute `binary`) q = -1 where w < 0,
// else 1; gradients pass the sign everywhere, and d q s / d s = q.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "kernels/bounds.h"
#include "ops/roles.h"
#include "passes/qdq_bias.h"
#include "train/simulation.h"

namespace evoq {
namespace {

enum Input : size_t { kX, kW, kBias, kResidual, kStepX, kStepW, kStepY, kStepResidual, kInputs };

constexpr float kExact = 0x1p24f;    // integers below it are float32 numbers
constexpr double kMaxBias = 0x1p30;  // QuantizeBias, quant/params.h

// Elements as [outer, channels, inner], by the channel of each.
struct Split {
  int64_t outer, channels, inner;
  Split(const Shape& shape, int axis) : outer(1), channels(1), inner(1) {
    const std::vector<int64_t> sizes = shape.sizes();
    for (int d = 0; d < static_cast<int>(sizes.size()); ++d)
      (d < axis ? outer : d == axis ? channels : inner) *= sizes[static_cast<size_t>(d)];
  }
  int64_t size() const { return outer * channels * inner; }
  // Calls body(channel, begin, end) for each run of elements of one channel.
  template <typename Body>
  void ForEach(const Body& body) const {
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t begin = (o * channels + c) * inner;
        body(c, begin, begin + inner);
      }
    }
  }
};

struct Linear {
  BoundGradient product;  // of x and w alone
  Split w, y;
  int64_t samples;
  StepBounds x_bounds, w_bounds, y_bounds;
  Activation activation;
  bool bias, to_integer, binary;

  // Of `saved`: places of the integers of w, their real numbers, gradients of these, v, and for
  // each channel its step, multiplier and bias, then what the product keeps.
  int64_t real() const { return w.size(); }
  int64_t gradient() const { return 2 * w.size(); }
  int64_t v() const { return 3 * w.size(); }
  int64_t steps() const { return v() + y.size(); }
  int64_t multipliers() const { return steps() + w.channels; }
  int64_t biases() const { return multipliers() + w.channels; }
  int64_t own() const { return biases() + w.channels; }
};

// The integers of w, and what of them the sums need to know.
struct Rounded {
  float low = 0, high = 0, most = 0;  // most: the largest sum of magnitudes over a channel
};
Rounded RoundWeights(const Linear& s, const GradientRun& run) {
  float* const steps = run.saved + s.steps();
  std::vector<double> sums(static_cast<size_t>(s.w.channels), 0.0);
  Rounded r;
  for (int64_t c = 0; c < s.w.channels; ++c) steps[c] = StepOf(run.x[kStepW][c]);
  s.w.ForEach([&](int64_t c, int64_t begin, int64_t end) {
    float sum = 0;
    for (int64_t i = begin; i < end; ++i) {
      const float w = run.x[kW][i];
      const float q =
          s.binary ? (w < 0 ? -1.0f : 1.0f)
                   : RoundSmall(std::min(std::max(w / steps[c], s.w_bounds.low), s.w_bounds.high));
      run.saved[i] = q;
      run.saved[s.real() + i] = q * steps[c];
      r.low = std::min(r.low, q);
      r.high = std::max(r.high, q);
      sum += std::fabs(q);
    }
    sums[static_cast<size_t>(c)] += static_cast<double>(sum);
  });
  for (const double sum : sums) r.most = std::max(r.most, static_cast<float>(sum));
  return r;
}

GradientRun ProductRun(const Linear& s, const GradientRun& run, const float* w, float* y) {
  GradientRun own = run;
  own.x = {run.x[kX], w};
  own.y = {y};
  own.saved = run.saved + s.own();
  return own;
}

// acc, exact, to `acc` as float32 where it is below 2^24; else, digit by digit, to `wide`.
void MultiplyExactly(const Linear& s, const GradientRun& run, const Rounded& rounded, float* acc,
                     std::vector<int32_t>& wide) {
  if (rounded.most * s.x_bounds.most() < kExact)
    return s.product.forward(ProductRun(s, run, run.saved, acc));
  const int64_t depth = s.w.size() / s.w.channels;
  int base = 16;
  while (base > 2 && static_cast<float>((base - 1) * depth) * s.x_bounds.most() >= kExact)
    base /= 2;
  wide.assign(static_cast<size_t>(s.y.size()), 0);
  std::vector<float> digits(static_cast<size_t>(s.w.size()));
  for (int32_t place = 1; place <= static_cast<int32_t>(s.w_bounds.most()); place *= base) {
    for (int64_t i = 0; i < s.w.size(); ++i)
      digits[static_cast<size_t>(i)] =
          static_cast<float>(static_cast<int32_t>(run.saved[i]) / place % base);
    s.product.forward(ProductRun(s, run, digits.data(), acc));
    for (size_t i = 0; i < wide.size(); ++i) wide[i] += static_cast<int32_t>(acc[i]) * place;
  }
}

// Multiplier and bias of each channel; weights of fewer than 8 bits beside a bias are multiplied by
// `factor` (FinerWeights).
void FillChannels(const Linear& s, const GradientRun& run, int32_t factor) {
  const float step_x = StepOf(*run.x[kStepX]);
  const float unit = s.to_integer ? StepOf(*run.x[kStepY]) : 1.0f;
  for (int64_t c = 0; c < s.w.channels; ++c) {
    const float step_w = run.saved[s.steps() + c] / static_cast<float>(factor);
    run.saved[s.multipliers() + c] = LinearMultiplier(step_x, step_w, unit);
    if (!s.bias) continue;
    const double q = std::nearbyint(run.x[kBias][c] / (static_cast<double>(step_x) * step_w));
    reinterpret_cast<int32_t*>(run.saved + s.biases())[c] =
        static_cast<int32_t>(std::clamp(q, -kMaxBias, kMaxBias));
  }
}

void Forward(const Linear& s, const GradientRun& run) {
  const Rounded rounded = RoundWeights(s, run);
  float* const v = run.saved + s.v();
  std::vector<int32_t> wide;
  MultiplyExactly(s, run, rounded, v, wide);
  const bool narrow = s.w_bounds.low > -128;
  const int32_t factor = s.bias && narrow
                             ? FinerFactor(static_cast<int64_t>(rounded.low),
                                           static_cast<int64_t>(rounded.high), DType::kInt8)
                             : 1;
  FillChannels(s, run, factor);
  const float unit = s.to_integer ? StepOf(*run.x[kStepY]) : 1.0f;
  const bool real_residual = run.x[kStepResidual] == nullptr;
  const float ratio = run.x[kResidual] == nullptr
                          ? 0
                          : ScaleRatio(real_residual ? 1.0f : StepOf(*run.x[kStepResidual]), unit);
  const OutputBounds bounds =
      s.to_integer
          ? OutputBounds::Integer(s.activation, unit, 0, static_cast<int32_t>(s.y_bounds.low),
                                  static_cast<int32_t>(s.y_bounds.high))
          : OutputBounds::Real(s.activation);
  const auto* const biases = reinterpret_cast<const int32_t*>(run.saved + s.biases());
  s.y.ForEach([&](int64_t c, int64_t begin, int64_t end) {
    const float multiplier = run.saved[s.multipliers() + c];
    const int32_t bias = s.bias ? biases[c] : 0;
    for (int64_t i = begin; i < end; ++i) {
      const int32_t sum = wide.empty() ? static_cast<int32_t>(v[i]) : wide[static_cast<size_t>(i)];
      v[i] = static_cast<float>(sum * factor + bias) * multiplier;
    }
    if (run.x[kResidual] != nullptr) {
      for (int64_t i = begin; i < end; ++i) v[i] = v[i] + run.x[kResidual][i] * ratio;
    }
    for (int64_t i = begin; i < end; ++i) {
      const float a = bounds.leaky && v[i] < 0 ? v[i] * bounds.slope : v[i];
      const float y = std::min(std::max(a, bounds.low), bounds.high);
      run.y[0][i] = s.to_integer ? RoundSmall(y) : y;
    }
  });
}

// v becomes the gradient of the sum, in real numbers; the step of y learns.
void ToSumGradients(const Linear& s, const GradientRun& run) {
  float* const v = run.saved + s.v();
  const float unit = s.to_integer ? StepOf(*run.x[kStepY]) : 1.0f;
  const OutputBounds bounds = OutputBounds::Real(ScaledActivation(s.activation, unit));
  double of_step = 0;
  for (int64_t i = 0; i < s.y.size(); ++i) {
    const float dy = run.dy[0][i];
    const float leaky = bounds.leaky && v[i] < 0 ? bounds.slope : 1.0f;
    const float before = v[i] * leaky;
    const float a = std::min(std::max(before, bounds.low), bounds.high);
    bool passes = before > bounds.low && before < bounds.high;
    if (s.to_integer) {
      of_step += static_cast<double>(dy) * StepTerm(a, s.y_bounds);
      passes = passes && a >= s.y_bounds.low && a <= s.y_bounds.high;
    }
    v[i] = passes ? dy * leaky : 0;
  }
  if (!s.to_integer || run.dx[kStepY] == nullptr) return;
  const double count = static_cast<double>(s.y.size()) / static_cast<double>(s.samples);
  *run.dx[kStepY] += LogStepGradient(of_step, unit, count, s.y_bounds.high);
}

// From the gradients of the rounded weights, over s_x, those of the weights and their steps.
void ToWeightGradients(const Linear& s, const GradientRun& run) {
  const float step_x = StepOf(*run.x[kStepX]);
  const float* const steps = run.saved + s.steps();
  const float* const gradients = run.saved + s.gradient();
  std::vector<double> of_steps(static_cast<size_t>(s.w.channels), 0.0);
  s.w.ForEach([&](int64_t c, int64_t begin, int64_t end) {
    double sum = 0;
    for (int64_t i = begin; i < end; ++i) {
      const float g = gradients[i] * step_x, u = run.x[kW][i] / steps[c];
      sum += static_cast<double>(g) * (s.binary ? run.saved[i] : StepTerm(u, s.w_bounds));
      if (run.dx[kW] != nullptr && (s.binary || (u >= s.w_bounds.low && u <= s.w_bounds.high)))
        run.dx[kW][i] += g;
    }
    of_steps[static_cast<size_t>(c)] += sum;
  });
  const double count = static_cast<double>(s.w.size()) / static_cast<double>(s.w.channels);
  for (int64_t c = 0; c < s.w.channels && run.dx[kStepW] != nullptr; ++c)
    run.dx[kStepW][c] +=
        LogStepGradient(of_steps[static_cast<size_t>(c)], steps[c], count, s.w_bounds.high);
}

void Backward(const Linear& s, const GradientRun& run) {
  ToSumGradients(s, run);
  float* const dv = run.saved + s.v();
  for (int64_t i = 0; i < s.y.size() && run.dx[kResidual] != nullptr; ++i)
    run.dx[kResidual][i] += dv[i];
  if (run.dx[kBias] != nullptr) {
    s.y.ForEach([&](int64_t c, int64_t begin, int64_t end) {
      double sum = 0;
      for (int64_t i = begin; i < end; ++i) sum += static_cast<double>(dv[i]);
      run.dx[kBias][c] += static_cast<float>(sum);
    });
  }
  const bool weights = run.dx[kW] != nullptr || run.dx[kStepW] != nullptr;
  if (!weights && run.dx[kX] == nullptr) return;
  float* const gradients = run.saved + s.gradient();
  std::fill_n(gradients, s.w.size(), 0.0f);
  GradientRun own = ProductRun(s, run, run.saved + s.real(), run.y[0]);
  own.dy = {dv};
  own.dx = {run.dx[kX], weights ? gradients : nullptr};
  s.product.backward(own);
  if (weights) ToWeightGradients(s, run);
}

Result<BoundGradient> Bind(const GradientArgs& args) {
  const Attrs& attrs = args.node.attrs;
  Node node = args.node;
  node.op = attrs.String("op");
  node.domain = "";
  node.attrs.Erase("activation");  // comes behind the requantization, below
  node.inputs.resize(2);
  EVOQ_ASSIGN(BoundGradient product,
              FindGradient(node)->bind({node, args.x.first(2), args.y, args.constants.first(2)}));
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(attrs));
  const auto given = [&](Input i) { return args.x[i].dtype != DType::kUndefined; };
  const auto s = std::make_shared<const Linear>(Linear{
      std::move(product), Split(args.x[kW].shape, WeightAxis(node, args.x[kW].shape.rank())),
      Split(args.y[0].shape, ChannelAxis(node, args.y[0].shape.rank())), args.y[0].shape[0].value,
      StepBounds::Of(attrs, "x"), StepBounds::Of(attrs, "w"), StepBounds::Of(attrs, "y"),
      activation, given(kBias), given(kStepY), attrs.Int("binary") != 0});
  return BoundGradient{.forward = [s](const GradientRun& run) { Forward(*s, run); },
                       .backward = [s](const GradientRun& run) { Backward(*s, run); },
                       .saved = s->own() + s->product.saved};
}

}  // namespace

// Steps of x and of the residual learn where these are made.
extern const GradientDef kSimulationLinear = {
    .op = "Linear", .differentiable = 0b01101111, .bind = Bind};

}  // namespace evoq
