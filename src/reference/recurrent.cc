// RNN, GRU and LSTM. Products are summed in float64 and rounded to the element type once;
// everything else is of the element type. With the attribute data_block and quantized W and R
// products are those of kernels/gemm/blocks/block_data.h and everything else is float32
// (kernels/recurrent/sequence.h).
#include <algorithm>

#include "kernels/recurrent/gates.h"
#include "kernels/recurrent/weights.h"
#include "reference/definition.h"
#include "reference/real.h"
#include "reference/rounded_product.h"
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
// is Wb + Rb of the row. FromInput and FromState take a row of x or h as Rows gives it.
template <typename T>
struct Weights {
  using Real = T;
  using Sum = double;

  const T *w = nullptr, *r = nullptr, *wb = nullptr, *rb = nullptr, *peepholes = nullptr;
  int64_t input = 0, hidden = 0;
  T clip = 0;  // 0: none

  static double Dot(const T* a, const T* b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    return sum;
  }
  const T* OfInput(const T* x) const { return x; }
  const T* OfState(const T* h) const { return h; }
  double FromInput(int64_t row, const T* x) const {
    return Dot(w + row * input, x, input) + (wb ? wb[row] : T{0});
  }
  double FromState(int64_t row, const T* h) const {
    return Dot(r + row * hidden, h, hidden) + (rb ? rb[row] : T{0});
  }
};

// The same with rounded rows and integers.
struct RoundedWeights {
  using Real = float;
  using Sum = float;

  const RoundedProduct *w = nullptr, *r = nullptr;
  const float *wb = nullptr, *rb = nullptr, *peepholes = nullptr;
  int64_t input = 0, hidden = 0;
  float clip = 0;
  int64_t reset_rows = 0;  // from this row on the state's bias stays with the state

  RoundedRows OfInput(const float* x) const { return RoundRows(x, 1, input, w->data_block); }
  RoundedRows OfState(const float* h) const { return RoundRows(h, 1, hidden, r->data_block); }
  float FromInput(int64_t row, const RoundedRows& x) const {
    const float of_state = rb != nullptr && row < reset_rows ? rb[row] : 0.0f;
    return w->Sum(x, 0, row, (wb != nullptr ? wb[row] : 0.0f) + of_state);
  }
  float FromState(int64_t row, const RoundedRows& h) const {
    return r->Sum(h, 0, row, rb != nullptr && row >= reset_rows ? rb[row] : 0.0f);
  }
};

// The sum of a gate as the element type.
template <typename W>
typename W::Real Clipped(const W& weights, typename W::Sum v) {
  const auto x = static_cast<typename W::Real>(v);
  return weights.clip > 0 ? std::min(std::max(x, -weights.clip), weights.clip) : x;
}

template <typename T>
using State = std::vector<T>;

// step(node, weights, gate functions, x, h, c) advances h (and c) by one step of one batch item.
// weights_of(d) gives direction d's W, but for what all have: sizes, biases, peepholes, clip.
template <typename W, typename WeightsOf, typename Step>
EvalResult RunSteps(const EvalArgs& args, int64_t gates, const std::vector<std::string>& defaults,
                    const WeightsOf& weights_of, const Step& step) {
  using T = typename W::Real;
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
    W weights = weights_of(d);
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
  return EvaluateAsFloats(args,
                          [&](auto tag) {
                            using T = decltype(tag);
                            const auto weights_of = [&](int64_t d) {
                              const std::vector<int64_t> w = args.inputs[1].sizes(),
                                                         r = args.inputs[2].sizes();
                              return Weights<T>{args.inputs[1].data<T>() + d * w[1] * w[2],
                                                args.inputs[2].data<T>() + d * r[1] * r[2]};
                            };
                            return RunSteps<Weights<T>>(args, gates, defaults, weights_of, step);
                          },
                          {4});
}

// Each direction's matrix of integers.
struct DirectionIntegers {
  std::vector<TensorType> types;
  std::vector<BlockIntegers> integers;
  std::vector<RoundedProduct> products;
};
Result<DirectionIntegers> IntegersOf(const Tensor& weights, int64_t data_block) {
  DirectionIntegers all;
  for (int64_t d = 0; d < weights.sizes()[0]; ++d) {
    EVOQ_ASSIGN(const Tensor matrix, DirectionMatrix(weights, d, 0, weights.sizes()[1]));
    EVOQ_ASSIGN(BlockIntegers integers, BlockIntegersOf(matrix));
    all.types.push_back(matrix.type());
    all.integers.push_back(std::move(integers));
  }
  for (size_t d = 0; d < all.types.size(); ++d)
    all.products.push_back({all.types[d].shape[0].value, all.types[d].shape[1].value, data_block,
                            all.integers[d], *all.types[d].quant});
  return all;
}

// kUnsupported where the operator computes with real numbers.
template <typename Step>
EvalResult RunRounded(const EvalArgs& args, int64_t gates, const std::vector<std::string>& defaults,
                      const Step& step) {
  const int64_t data_block = args.node.attrs.Int(kDataBlock, 0);
  if (data_block < 1) return Unsupported("no {}", kDataBlock);
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    const TensorType& type = args.inputs[i].type();
    const bool fits = i == 1 || i == 2 ? DirectionType(type, 0).has_value()
                                       : type.dtype == DType::kFloat32 && !type.quantized();
    if (args.has(i) && i != 4 && !fits) return Unsupported("input {} is {}", i, type.ToString());
  }
  EVOQ_ASSIGN(const DirectionIntegers w, IntegersOf(args.inputs[1], data_block));
  EVOQ_ASSIGN(const DirectionIntegers r, IntegersOf(args.inputs[2], data_block));
  const bool linear_first = args.node.attrs.Int("linear_before_reset") != 0;
  const int64_t hidden = args.inputs[2].sizes()[2];
  const auto weights_of = [&](int64_t d) {
    RoundedWeights weights = {&w.products[d], &r.products[d]};
    weights.reset_rows = gates == 3 && linear_first ? 2 * hidden : gates * hidden;
    return weights;
  };
  return RunSteps<RoundedWeights>(args, gates, defaults, weights_of, step);
}

// h = f(x W + h R + b)
constexpr auto kStepRnn = []<typename W, typename T>(const Node&, const W& w, const GateFn* fns,
                                                     const T* x, State<T>& h, State<T>&) {
  const State<T> before = h;
  const auto xs = w.OfInput(x);
  const auto hs = w.OfState(before.data());
  for (int64_t j = 0; j < w.hidden; ++j)
    h[j] = Through(fns[0], Clipped(w, w.FromState(j, hs) + w.FromInput(j, xs)));
};

// Gates z, r, h: h = (1 - z) * g(x W + (r * h) R) + z * h; linear_before_reset multiplies r after
// the product and its bias.
constexpr auto kStepGru = []<typename W, typename T>(const Node& node, const W& w,
                                                     const GateFn* fns, const T* x, State<T>& h,
                                                     State<T>&) {
  const int64_t n = w.hidden;
  const State<T> before = h;
  const auto xs = w.OfInput(x);
  const auto hs = w.OfState(before.data());
  State<T> z(n), r(n), reset(n);
  for (int64_t j = 0; j < n; ++j) {
    z[j] = Through(fns[0], Clipped(w, w.FromState(j, hs) + w.FromInput(j, xs)));
    r[j] = Through(fns[0], Clipped(w, w.FromState(n + j, hs) + w.FromInput(n + j, xs)));
    reset[j] = r[j] * before[j];
  }
  const bool linear_first = node.attrs.Int("linear_before_reset") != 0;
  const auto resets = w.OfState(reset.data());
  for (int64_t j = 0; j < n; ++j) {
    const int64_t row = 2 * n + j;
    const typename W::Sum state =
        linear_first ? r[j] * w.FromState(row, hs) : w.FromState(row, resets);
    const T candidate = Through(fns[1], Clipped(w, state + w.FromInput(row, xs)));
    h[j] = (1 - z[j]) * candidate + z[j] * before[j];
  }
};

// Gates i, o, f, c: c = f * c + i * g(...); h = o * h(c). Peepholes Pi, Po, Pf add P * c to their
// gates (o sees the new c).
constexpr auto kStepLstm = []<typename W, typename T>(const Node& node, const W& w,
                                                      const GateFn* fns, const T* x, State<T>& h,
                                                      State<T>& c) {
  using Sum = typename W::Sum;
  const int64_t n = w.hidden;
  const State<T> before = h;
  const auto xs = w.OfInput(x);
  const auto hs = w.OfState(before.data());
  const bool coupled = node.attrs.Int("input_forget") != 0;
  const auto gate = [&](int64_t g, int64_t j) -> Sum {
    return w.FromState(g * n + j, hs) + w.FromInput(g * n + j, xs);
  };
  const auto with_peephole = [&](int64_t g, int64_t j) -> Sum {
    const Sum sum = gate(g, j);
    return w.peepholes ? sum + static_cast<Sum>(w.peepholes[g * n + j]) * static_cast<Sum>(c[j])
                       : sum;
  };
  for (int64_t j = 0; j < n; ++j) {
    const T in = Through(fns[0], Clipped(w, with_peephole(0, j)));
    const T forget = coupled ? 1 - in : Through(fns[0], Clipped(w, with_peephole(2, j)));
    const T candidate = Through(fns[1], Clipped(w, gate(3, j)));
    c[j] = forget * c[j] + in * candidate;
    const T out = Through(fns[0], Clipped(w, with_peephole(1, j)));
    h[j] = out * Through(fns[2], c[j]);
  }
};

const std::vector<std::string> kRnnFns = {"Tanh"}, kGruFns = {"Sigmoid", "Tanh"},
                               kLstmFns = {"Sigmoid", "Tanh", "Tanh"};

EvalResult EvaluateRnn(const EvalArgs& args) { return Run(args, 1, kRnnFns, kStepRnn); }
EvalResult EvaluateGru(const EvalArgs& args) { return Run(args, 3, kGruFns, kStepGru); }
EvalResult EvaluateLstm(const EvalArgs& args) { return Run(args, 4, kLstmFns, kStepLstm); }
EvalResult RoundedRnn(const EvalArgs& args) { return RunRounded(args, 1, kRnnFns, kStepRnn); }
EvalResult RoundedGru(const EvalArgs& args) { return RunRounded(args, 3, kGruFns, kStepGru); }
EvalResult RoundedLstm(const EvalArgs& args) { return RunRounded(args, 4, kLstmFns, kStepLstm); }

}  // namespace

namespace reference {

extern const Definition kGRU = {
    .name = "GRU", .evaluate = EvaluateGru, .evaluate_quantized = RoundedGru};
extern const Definition kLSTM = {
    .name = "LSTM", .evaluate = EvaluateLstm, .evaluate_quantized = RoundedLstm};
extern const Definition kRNN = {
    .name = "RNN", .evaluate = EvaluateRnn, .evaluate_quantized = RoundedRnn};

}  // namespace reference
}  // namespace evoq
