// RNN, GRU and LSTM. Products are summed in float64 and rounded to the element type once;
// everything else is of the element type.
#include "ops/recurrent.h"

#include <algorithm>

#include "reference/definition.h"
#include "reference/real.h"
#include "reference/util.h"

namespace evoq {
namespace {

template <typename T>
T Through(const GateFn& fn, T x) {
  const T alpha = fn.unary.alpha, beta = fn.unary.beta;
  switch (fn.form) {
    case GateFn::kUnary: return Apply(fn.unary, x);
    case GateFn::kAffine: return alpha * x + beta;
    case GateFn::kScaledTanh: return alpha * TanhOf(beta * x);
  }
  return x;
}

// ---- geometry. With layout 1 the batch comes first in x, y and the states.

struct Sizes {
  int64_t steps, batch, input, hidden, directions;
  bool batch_first, reverse;  // reverse: the only direction runs backwards

  int64_t X(int64_t t, int64_t b) const {
    return (batch_first ? b * steps + t : t * batch + b) * input;
  }
  int64_t Y(int64_t t, int64_t d, int64_t b) const {
    return (batch_first ? (b * steps + t) * directions + d : (t * directions + d) * batch + b) *
           hidden;
  }
  int64_t State(int64_t d, int64_t b) const {
    return (batch_first ? b * directions + d : d * batch + b) * hidden;
  }
};

Sizes SizesOf(const EvalArgs& args) {
  const bool batch_first = args.node.attrs.Int("layout") != 0;
  const std::vector<int64_t> x = args.inputs[0].sizes(), r = args.inputs[2].sizes();
  return {x[batch_first ? 1 : 0],
          x[batch_first ? 0 : 1],
          x[2],
          r[2],
          r[0],
          batch_first,
          args.node.attrs.String("direction", "forward") == "reverse"};
}

// ---- running

// One direction's weights. Row g of w and r belongs to gate g / hidden, unit g % hidden; the bias
// is Wb + Rb of the row.
template <typename T>
struct Weights {
  const T *w = nullptr, *r = nullptr, *wb = nullptr, *rb = nullptr, *peepholes = nullptr;
  int64_t input = 0, hidden = 0;
  T clip = 0;  // 0: none

  static double Dot(const T* a, const T* b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    return sum;
  }
  double FromInput(int64_t row, const T* x) const {
    return Dot(w + row * input, x, input) + (wb ? wb[row] : T{0});
  }
  double FromState(int64_t row, const T* h) const {
    return Dot(r + row * hidden, h, hidden) + (rb ? rb[row] : T{0});
  }
  T Clipped(double v) const {
    const T x = static_cast<T>(v);
    return clip > 0 ? std::min(std::max(x, -clip), clip) : x;
  }
};

template <typename T>
using State = std::vector<T>;

// step(node, weights, gate functions, x, h, c) advances h (and c) by one step of one batch item.
template <typename T, typename Step>
EvalResult RunSteps(const EvalArgs& args, int64_t gates, const std::vector<std::string>& defaults,
                    const Step& step) {
  const Sizes s = SizesOf(args);
  EVOQ_ASSIGN(const std::vector<GateFn> fns, GateFnsOf(args.node.attrs, defaults, s.directions));
  std::vector<int64_t> lengths(s.batch, s.steps);
  if (args.has(4)) {
    EVOQ_ASSIGN(lengths, ToInt64s(args.inputs[4]));
  }
  const Shape y_shape(s.batch_first
                          ? std::vector<int64_t>{s.batch, s.steps, s.directions, s.hidden}
                          : std::vector<int64_t>{s.steps, s.directions, s.batch, s.hidden});
  EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(DTypeOf<T>::value, y_shape)));
  const Shape state_shape(s.batch_first ? std::vector<int64_t>{s.batch, s.directions, s.hidden}
                                        : std::vector<int64_t>{s.directions, s.batch, s.hidden});
  Tensor y_h = Tensor::Allocate(TensorType(DTypeOf<T>::value, state_shape)), y_c = y_h.Clone();
  const auto data = [&](size_t i) { return args.has(i) ? args.inputs[i].data<T>() : nullptr; };
  for (int64_t d = 0; d < s.directions; ++d) {
    Weights<T> weights{data(1) + d * gates * s.hidden * s.input,
                       data(2) + d * gates * s.hidden * s.hidden};
    if (data(3))
      weights.wb = data(3) + d * 2 * gates * s.hidden, weights.rb = weights.wb + gates * s.hidden;
    if (data(7)) weights.peepholes = data(7) + d * 3 * s.hidden;
    weights.input = s.input;
    weights.hidden = s.hidden;
    weights.clip = args.node.attrs.Float("clip", 0);
    const bool backwards = s.reverse || d == 1;
    for (int64_t b = 0; b < s.batch; ++b) {
      if (lengths[b] < 0 || lengths[b] > s.steps)
        return InvalidInput("input 4 has the length {} of {} steps", lengths[b], s.steps);
      State<T> h(s.hidden), c(s.hidden);
      if (data(5)) h.assign(data(5) + s.State(d, b), data(5) + s.State(d, b) + s.hidden);
      if (data(6)) c.assign(data(6) + s.State(d, b), data(6) + s.State(d, b) + s.hidden);
      for (int64_t i = 0; i < lengths[b]; ++i) {
        const int64_t t = backwards ? lengths[b] - 1 - i : i;
        step(args.node, weights, fns.data() + d * static_cast<int64_t>(defaults.size()),
             data(0) + s.X(t, b), h, c);
        std::copy(h.begin(), h.end(), y.mutable_data<T>() + s.Y(t, d, b));
      }
      std::copy(h.begin(), h.end(), y_h.mutable_data<T>() + s.State(d, b));
      std::copy(c.begin(), c.end(), y_c.mutable_data<T>() + s.State(d, b));
    }
  }
  return std::vector<Tensor>{std::move(y), std::move(y_h), std::move(y_c)};
}

template <typename Step>
EvalResult Run(const EvalArgs& args, int64_t gates, const std::vector<std::string>& defaults,
               const Step& step) {
  return EvaluateAsFloats(
      args, [&](auto tag) { return RunSteps<decltype(tag)>(args, gates, defaults, step); }, {4});
}

// h = f(x W + h R + b)
constexpr auto kStepRnn = []<typename T>(const Node&, const Weights<T>& w, const GateFn* fns,
                                         const T* x, State<T>& h, State<T>&) {
  const State<T> before = h;
  for (int64_t j = 0; j < w.hidden; ++j)
    h[j] = Through(fns[0], w.Clipped(w.FromInput(j, x) + w.FromState(j, before.data())));
};

// Gates z, r, h: h = (1 - z) * g(x W + (r * h) R) + z * h; linear_before_reset multiplies r after
// the product and its bias.
constexpr auto kStepGru = []<typename T>(const Node& node, const Weights<T>& w, const GateFn* fns,
                                         const T* x, State<T>& h, State<T>&) {
  const int64_t n = w.hidden;
  const State<T> before = h;
  State<T> z(n), r(n), reset(n);
  for (int64_t j = 0; j < n; ++j) {
    z[j] = Through(fns[0], w.Clipped(w.FromInput(j, x) + w.FromState(j, before.data())));
    r[j] = Through(fns[0], w.Clipped(w.FromInput(n + j, x) + w.FromState(n + j, before.data())));
    reset[j] = r[j] * before[j];
  }
  const bool linear_first = node.attrs.Int("linear_before_reset") != 0;
  for (int64_t j = 0; j < n; ++j) {
    const int64_t row = 2 * n + j;
    const double state =
        linear_first ? r[j] * w.FromState(row, before.data()) : w.FromState(row, reset.data());
    const T candidate = Through(fns[1], w.Clipped(w.FromInput(row, x) + state));
    h[j] = (1 - z[j]) * candidate + z[j] * before[j];
  }
};

// Gates i, o, f, c: c = f * c + i * g(...); h = o * h(c). Peepholes Pi, Po, Pf add P * c to their
// gates (o sees the new c).
constexpr auto kStepLstm = []<typename T>(const Node& node, const Weights<T>& w, const GateFn* fns,
                                          const T* x, State<T>& h, State<T>& c) {
  const int64_t n = w.hidden;
  const State<T> before = h;
  const bool coupled = node.attrs.Int("input_forget") != 0;
  const auto gate = [&](int64_t g, int64_t j) {
    return w.FromInput(g * n + j, x) + w.FromState(g * n + j, before.data());
  };
  const auto peephole = [&](int64_t g, int64_t j) {
    return w.peepholes ? static_cast<double>(w.peepholes[g * n + j]) * c[j] : 0.0;
  };
  for (int64_t j = 0; j < n; ++j) {
    const T in = Through(fns[0], w.Clipped(gate(0, j) + peephole(0, j)));
    const T forget = coupled ? 1 - in : Through(fns[0], w.Clipped(gate(2, j) + peephole(2, j)));
    const T candidate = Through(fns[1], w.Clipped(gate(3, j)));
    c[j] = forget * c[j] + in * candidate;
    const T out = Through(fns[0], w.Clipped(gate(1, j) + peephole(1, j)));
    h[j] = out * Through(fns[2], c[j]);
  }
};

EvalResult EvaluateRnn(const EvalArgs& args) { return Run(args, 1, {"Tanh"}, kStepRnn); }
EvalResult EvaluateGru(const EvalArgs& args) { return Run(args, 3, {"Sigmoid", "Tanh"}, kStepGru); }
EvalResult EvaluateLstm(const EvalArgs& args) {
  return Run(args, 4, {"Sigmoid", "Tanh", "Tanh"}, kStepLstm);
}

}  // namespace

namespace reference {

extern const Definition kGRU = {.name = "GRU", .evaluate = EvaluateGru};
extern const Definition kLSTM = {.name = "LSTM", .evaluate = EvaluateLstm};
extern const Definition kRNN = {.name = "RNN", .evaluate = EvaluateRnn};

}  // namespace reference
}  // namespace evoq
