// RNN, GRU and LSTM. Products are summed in float64 and rounded to the element type once;
// everything else is of the element type.
#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "ops/real.h"
#include "ops/util.h"

namespace evoq {
namespace {

// ---- activations of gates

// A function of kernels/math/unary.h, or Affine, alpha * x + beta, or ScaledTanh, alpha * tanh(beta
// * x).
struct GateFn {
  enum Form { kUnary, kAffine, kScaledTanh };
  Form form = kUnary;
  Unary unary;

  template <typename T>
  T operator()(T x) const {
    const T alpha = unary.alpha, beta = unary.beta;
    switch (form) {
      case kUnary: return Apply(unary, x);
      case kAffine: return alpha * x + beta;
      case kScaledTanh: return alpha * TanhOf(beta * x);
    }
    return x;
  }
};

struct GateFnRow {
  const char* name;
  int parameters;  // how many of alpha and beta it has
  GateFn fn;       // with ONNX's defaults
};

constexpr GateFnRow kGateFns[] = {
    {"Affine", 2, {GateFn::kAffine, {{}, 1, 0}}},
    {"Elu", 1, {GateFn::kUnary, {UnaryKind::kElu, 1, 0}}},
    {"HardSigmoid", 2, {GateFn::kUnary, {UnaryKind::kHardSigmoid, 0.2f, 0.5f}}},
    {"LeakyRelu", 1, {GateFn::kUnary, {UnaryKind::kLeakyRelu, 0.01f, 0}}},
    {"Relu", 0, {GateFn::kUnary, {UnaryKind::kRelu, 0, 0}}},
    {"ScaledTanh", 2, {GateFn::kScaledTanh, {{}, 1, 1}}},
    {"Sigmoid", 0, {GateFn::kUnary, {UnaryKind::kSigmoid, 0, 0}}},
    {"Softplus", 0, {GateFn::kUnary, {UnaryKind::kSoftplus, 0, 0}}},
    {"Softsign", 0, {GateFn::kUnary, {UnaryKind::kSoftsign, 0, 0}}},
    {"Tanh", 0, {GateFn::kUnary, {UnaryKind::kTanh, 0, 0}}},
    {"ThresholdedRelu", 1, {GateFn::kUnary, {UnaryKind::kThresholdedRelu, 1, 0}}},
};

// The attribute activations, `defaults` for each direction when it is missing; alphas and betas go
// to those that take them, in order.
Result<std::vector<GateFn>> GateFnsOf(const Attrs& attrs, const std::vector<std::string>& defaults,
                                      int64_t directions) {
  std::vector<std::string> names = attrs.Strings("activations");
  const size_t wanted = defaults.size() * static_cast<size_t>(directions);
  if (names.empty()) {
    for (int64_t d = 0; d < directions; ++d)
      names.insert(names.end(), defaults.begin(), defaults.end());
  }
  if (names.size() != wanted)
    return InvalidInput("attribute activations has {} names, expected {}", names.size(), wanted);
  const std::vector<float> alphas = attrs.Floats("activation_alpha"),
                           betas = attrs.Floats("activation_beta");
  std::vector<GateFn> fns;
  size_t alpha = 0, beta = 0;
  for (const std::string& name : names) {
    const auto row = std::find_if(std::begin(kGateFns), std::end(kGateFns),
                                  [&](const GateFnRow& r) { return name == r.name; });
    if (row == std::end(kGateFns))
      return InvalidInput("attribute activations names '{}', which ONNX does not have", name);
    GateFn fn = row->fn;
    if (row->parameters > 0 && alpha < alphas.size()) fn.unary.alpha = alphas[alpha++];
    if (row->parameters > 1 && beta < betas.size()) fn.unary.beta = betas[beta++];
    fns.push_back(fn);
  }
  return fns;
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

Result<int64_t> DirectionsOf(const Node& node) {
  const std::string direction = node.attrs.String("direction", "forward");
  if (direction == "bidirectional") return 2;
  if (direction == "forward" || direction == "reverse") return 1;
  return InvalidInput("attribute direction is '{}', expected forward, reverse or bidirectional",
                      direction);
}

// Errors unless a present input i has this shape where both are known.
Status CheckShape(const InferArgs& args, size_t i, const std::vector<Dim>& wanted) {
  if (!args.has(i) || !args.inputs[i].shape.ranked()) return {};
  const Shape &shape = args.inputs[i].shape, expected(wanted);
  bool fits = shape.rank() == expected.rank();
  for (int d = 0; fits && d < shape.rank(); ++d)
    fits = !shape[d].known() || !expected[d].known() || shape[d].value == expected[d].value;
  return fits ? Status()
              : InvalidInput("input {} is {}, expected {}", i, shape.ToString(),
                             expected.ToString());
}

// Types of Y and the states Y_h, Y_c of a cell with `gates` gates.
template <int kGates>
InferResult Infer(const InferArgs& args) {
  for (size_t i : {0, 1, 2, 3, 5, 6, 7}) EVOQ_TRY(CheckFloat(args, i));
  for (size_t i : {0, 1, 2}) EVOQ_TRY(CheckRank(args, i, 3));
  EVOQ_ASSIGN(const int64_t directions, DirectionsOf(args.node));
  const std::vector<std::string> names(kGates == 4 ? 3 : kGates == 3 ? 2 : 1, "Tanh");
  EVOQ_TRY(GateFnsOf(args.node.attrs, names, directions));
  const bool batch_first = args.node.attrs.Int("layout") != 0;
  const Shape &x = args.inputs[0].shape, &r = args.inputs[2].shape;
  Dim steps, batch, input, hidden;
  if (x.ranked()) steps = x[batch_first ? 1 : 0], batch = x[batch_first ? 0 : 1], input = x[2];
  if (r.ranked()) hidden = r[2];
  EVOQ_ASSIGN(const int64_t declared, IntAttr(args.node, "hidden_size", hidden.value));
  if (hidden.known() && declared != hidden.value)
    return InvalidInput("attribute hidden_size is {}, input 2 says {}", declared, hidden.value);
  if (hidden.value > int64_t{1} << 32)
    return Fail(ErrorCode::kTooLarge, "hidden size {}", hidden.value);
  const auto times = [&](int64_t factor) {
    return hidden.known() ? Dim(hidden.value * factor) : Dim();
  };
  const std::vector<Dim> state = batch_first ? std::vector<Dim>{batch, directions, hidden}
                                             : std::vector<Dim>{directions, batch, hidden};
  EVOQ_TRY(CheckShape(args, 1, {directions, times(kGates), input}));
  EVOQ_TRY(CheckShape(args, 2, {directions, times(kGates), hidden}));
  EVOQ_TRY(CheckShape(args, 3, {directions, times(2 * kGates)}));
  EVOQ_TRY(CheckShape(args, 4, {batch}));
  EVOQ_TRY(CheckShape(args, 5, state));
  EVOQ_TRY(CheckShape(args, 6, state));
  EVOQ_TRY(CheckShape(args, 7, {directions, times(3)}));
  const DType dtype = args.inputs[0].dtype;
  const std::vector<Dim> y = batch_first ? std::vector<Dim>{batch, steps, directions, hidden}
                                         : std::vector<Dim>{steps, directions, batch, hidden};
  std::vector<TensorType> types = {TensorType(dtype, Shape(y)), TensorType(dtype, Shape(state))};
  if (kGates == 4) types.emplace_back(dtype, Shape(state));
  return types;
}

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
    h[j] = fns[0](w.Clipped(w.FromInput(j, x) + w.FromState(j, before.data())));
};

// Gates z, r, h: h = (1 - z) * g(x W + (r * h) R) + z * h; linear_before_reset multiplies r after
// the product and its bias.
constexpr auto kStepGru = []<typename T>(const Node& node, const Weights<T>& w, const GateFn* fns,
                                         const T* x, State<T>& h, State<T>&) {
  const int64_t n = w.hidden;
  const State<T> before = h;
  State<T> z(n), r(n), reset(n);
  for (int64_t j = 0; j < n; ++j) {
    z[j] = fns[0](w.Clipped(w.FromInput(j, x) + w.FromState(j, before.data())));
    r[j] = fns[0](w.Clipped(w.FromInput(n + j, x) + w.FromState(n + j, before.data())));
    reset[j] = r[j] * before[j];
  }
  const bool linear_first = node.attrs.Int("linear_before_reset") != 0;
  for (int64_t j = 0; j < n; ++j) {
    const int64_t row = 2 * n + j;
    const double state =
        linear_first ? r[j] * w.FromState(row, before.data()) : w.FromState(row, reset.data());
    const T candidate = fns[1](w.Clipped(w.FromInput(row, x) + state));
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
    const T in = fns[0](w.Clipped(gate(0, j) + peephole(0, j)));
    const T forget = coupled ? 1 - in : fns[0](w.Clipped(gate(2, j) + peephole(2, j)));
    const T candidate = fns[1](w.Clipped(gate(3, j)));
    c[j] = forget * c[j] + in * candidate;
    const T out = fns[0](w.Clipped(gate(1, j) + peephole(1, j)));
    h[j] = out * fns[2](c[j]);
  }
};

EvalResult EvaluateRnn(const EvalArgs& args) { return Run(args, 1, {"Tanh"}, kStepRnn); }
EvalResult EvaluateGru(const EvalArgs& args) { return Run(args, 3, {"Sigmoid", "Tanh"}, kStepGru); }
EvalResult EvaluateLstm(const EvalArgs& args) {
  return Run(args, 4, {"Sigmoid", "Tanh", "Tanh"}, kStepLstm);
}

int64_t Macs(const Node&, std::span<const TensorType> inputs, std::span<const TensorType>) {
  const int64_t positions = inputs[0].shape[0].value * inputs[0].shape[1].value;
  return positions *
         (inputs[1].shape.elements().value_or(0) + inputs[2].shape.elements().value_or(0));
}

}  // namespace

extern const OpDef kGRU = {.name = "GRU",
                           .min_inputs = 3,
                           .max_inputs = 6,
                           .outputs = 2,
                           .infer = Infer<3>,
                           .evaluate = EvaluateGru,
                           .macs = Macs,
                           .roles = {Role::kData, Role::kWeight, Role::kWeight, Role::kBias}};
extern const OpDef kLSTM = {.name = "LSTM",
                            .min_inputs = 3,
                            .max_inputs = 8,
                            .outputs = 3,
                            .infer = Infer<4>,
                            .evaluate = EvaluateLstm,
                            .macs = Macs,
                            .roles = {Role::kData, Role::kWeight, Role::kWeight, Role::kBias}};
extern const OpDef kRNN = {.name = "RNN",
                           .min_inputs = 3,
                           .max_inputs = 6,
                           .outputs = 2,
                           .infer = Infer<1>,
                           .evaluate = EvaluateRnn,
                           .macs = Macs,
                           .roles = {Role::kData, Role::kWeight, Role::kWeight, Role::kBias}};

}  // namespace evoq
