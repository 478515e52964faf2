// Recurrent sequence operators: LinearAttention and CausalConvWithState.
#include <cmath>

#include "ops/indexing.h"
#include "ops/real.h"
#include "ops/util.h"

namespace evoq {
namespace {

// ---- LinearAttention(q, k, v, past_state?, decay?, beta?): per batch item and key head a state S
// [d_k, d_v], per token
//   S = exp(decay) * S;  w = v, or beta * (v - S^T k) with the delta rule;  S = S + k w^T;  y =
//   scale * S^T q
// for each query head of the group. Sums are sequential in index order.

struct Heads {
  int64_t q = 0, kv = 0;
};

Result<Heads> HeadsOf(const Node& node) {
  EVOQ_ASSIGN(const int64_t q, IntAttr(node, "q_num_heads", 0));
  EVOQ_ASSIGN(const int64_t kv, IntAttr(node, "kv_num_heads", 0));
  if (q <= 0 || kv <= 0 || q % kv != 0)
    return InvalidInput("{} query heads and {} key heads, expected a multiple", q, kv);
  return Heads{q, kv};
}

struct Rule {
  bool gated = false, delta = false;
};

Result<Rule> RuleOf(const Node& node) {
  const std::string name = node.attrs.String("update_rule", "gated_delta");
  if (name == "linear") return Rule{};
  if (name == "gated") return Rule{true, false};
  if (name == "delta") return Rule{false, true};
  if (name == "gated_delta") return Rule{true, true};
  return InvalidInput("attribute update_rule is '{}', expected linear, gated, delta or gated_delta",
                      name);
}

// Errors unless dimension `d` of input i is one of `allowed`.
Status CheckSize(const InferArgs& args, size_t i, int d, std::initializer_list<Dim> allowed) {
  if (!args.has(i) || !args.inputs[i].shape.ranked()) return {};
  const Dim& size = args.inputs[i].shape[d];
  for (const Dim& a : allowed) {
    if (!size.known() || !a.known() || a.value == size.value) return {};
  }
  return InvalidInput("input {} is {}, whose dimension {} does not fit", i,
                      args.inputs[i].ToString(), d);
}

InferResult InferLinear(const InferArgs& args) {
  for (size_t i = 0; i < 6; ++i) EVOQ_TRY(CheckFloat(args, i));
  EVOQ_ASSIGN(const Heads heads, HeadsOf(args.node));
  EVOQ_ASSIGN(const Rule rule, RuleOf(args.node));
  EVOQ_TRY(FloatAttr(args.node, "scale", 0));
  if (rule.gated && !args.has(4))
    return InvalidInput("input 4 (decay) is missing, which the update rule needs");
  if (rule.delta && !args.has(5))
    return InvalidInput("input 5 (beta) is missing, which the update rule needs");
  for (size_t i : {0, 1, 2, 4, 5}) EVOQ_TRY(CheckRank(args, i, 3));
  EVOQ_TRY(CheckRank(args, 3, 4));
  const Shape &q = args.inputs[0].shape, &k = args.inputs[1].shape, &v = args.inputs[2].shape;
  const DType dtype = args.inputs[0].dtype,
              state_dtype = args.has(3) ? args.inputs[3].dtype : dtype;
  if (!q.ranked() || !k.ranked() || !v.ranked())
    return std::vector<TensorType>{TensorType(dtype, Shape::UnknownRank()),
                                   TensorType(state_dtype, Shape::UnknownRank())};
  const auto part = [](const Dim& whole, int64_t parts) {
    return whole.known() && whole.value % parts == 0 ? Dim(whole.value / parts) : Dim();
  };
  const auto times = [](const Dim& size, int64_t count) {
    return size.known() && size.value < (int64_t{1} << 40) ? Dim(size.value * count) : Dim();
  };
  const Dim d_k = part(q[2], heads.q), d_v = part(v[2], heads.kv);
  if ((q[2].known() && !d_k.known()) || (v[2].known() && !d_v.known()))
    return InvalidInput("inputs {} and {} are no multiples of the heads", q.ToString(),
                        v.ToString());
  EVOQ_TRY(CheckSize(args, 1, 2, {times(d_k, heads.kv)}));
  for (size_t i : {1, 2, 4, 5}) {
    EVOQ_TRY(CheckSize(args, i, 0, {q[0]}));
    EVOQ_TRY(CheckSize(args, i, 1, {q[1]}));
  }
  EVOQ_TRY(CheckSize(args, 4, 2, {times(d_k, heads.kv), Dim(heads.kv)}));
  EVOQ_TRY(CheckSize(args, 5, 2, {Dim(heads.kv), Dim(1)}));
  const std::vector<Dim> state = {q[0], Dim(heads.kv), d_k, d_v};
  for (int d = 0; d < 4; ++d) EVOQ_TRY(CheckSize(args, 3, d, {state[d]}));
  return std::vector<TensorType>{
      TensorType(dtype, Shape(std::vector<Dim>{q[0], q[1], times(d_v, heads.q)})),
      TensorType(state_dtype, Shape(state))};
}

template <typename T>
EvalResult Linear(const EvalArgs& args) {
  EVOQ_ASSIGN(const Heads heads, HeadsOf(args.node));
  EVOQ_ASSIGN(const Rule rule, RuleOf(args.node));
  const std::vector<int64_t> q = args.inputs[0].sizes(), v = args.inputs[2].sizes();
  const int64_t batch = q[0], steps = q[1], d_k = q[2] / heads.q, d_v = v[2] / heads.kv,
                group = heads.q / heads.kv;
  const T given = args.node.attrs.Float("scale", 0),
          scale = given != 0 ? given : 1 / std::sqrt(static_cast<T>(d_k));
  EVOQ_ASSIGN(Tensor y,
              AllocateOutput(TensorType(DTypeOf<T>::value, Shape{batch, steps, heads.q * d_v})));
  EVOQ_ASSIGN(Tensor state,
              AllocateOutput(TensorType(DTypeOf<T>::value, Shape{batch, heads.kv, d_k, d_v})));
  if (args.has(3)) state = args.inputs[3].Clone();
  const auto row = [&](size_t i, int64_t b, int64_t t) {
    return args.inputs[i].data<T>() + (b * steps + t) * args.inputs[i].sizes()[2];
  };
  std::vector<T> write(d_v);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads.kv; ++h) {
      T* s = state.mutable_data<T>() + (b * heads.kv + h) * d_k * d_v;
      for (int64_t t = 0; t < steps; ++t) {
        const T *key = row(1, b, t) + h * d_k, *value = row(2, b, t) + h * d_v;
        if (rule.gated) {
          const bool per_key = args.inputs[4].sizes()[2] != heads.kv || d_k == 1;
          for (int64_t d = 0; d < d_k; ++d) {
            const T decay = ExpOf(row(4, b, t)[per_key ? h * d_k + d : h]);
            for (int64_t m = 0; m < d_v; ++m) s[d * d_v + m] *= decay;
          }
        }
        for (int64_t m = 0; m < d_v; ++m) {
          write[m] = value[m];
          if (!rule.delta) continue;
          T known = 0;
          for (int64_t d = 0; d < d_k; ++d) known += s[d * d_v + m] * key[d];
          const T beta = row(5, b, t)[args.inputs[5].sizes()[2] == 1 ? 0 : h];
          write[m] = beta * (value[m] - known);
        }
        for (int64_t d = 0; d < d_k; ++d) {
          for (int64_t m = 0; m < d_v; ++m) s[d * d_v + m] += key[d] * write[m];
        }
        for (int64_t g = h * group; g < (h + 1) * group; ++g) {
          const T* query = row(0, b, t) + g * d_k;
          for (int64_t m = 0; m < d_v; ++m) {
            T sum = 0;
            for (int64_t d = 0; d < d_k; ++d) sum += query[d] * s[d * d_v + m];
            y.mutable_data<T>()[(b * steps + t) * heads.q * d_v + g * d_v + m] = scale * sum;
          }
        }
      }
    }
  }
  return std::vector<Tensor>{std::move(y), std::move(state)};
}

EvalResult EvaluateLinear(const EvalArgs& args) {
  return EvaluateAsFloats(args, [&](auto tag) { return Linear<decltype(tag)>(args); });
}

// ---- CausalConvWithState(x, weight, bias?, past_state?): y[t] = activation(bias + sum_i weight[i]
// * x[t - (k - 1) + i]) per channel, where what lies before x is the state (zeros); the new state
// is the last k - 1 places of state and x.

InferResult InferCausalConv(const InferArgs& args) {
  for (size_t i = 0; i < 4; ++i) EVOQ_TRY(CheckFloat(args, i));
  for (size_t i : {0, 1, 3}) EVOQ_TRY(CheckRank(args, i, 3));
  EVOQ_TRY(CheckRank(args, 2, 1));
  EVOQ_ASSIGN(const std::string activation, StringAttr(args.node, "activation", "none"));
  if (activation != "none" && activation != "silu" && activation != "swish")
    return InvalidInput("attribute activation is '{}', expected none, silu or swish", activation);
  const Shape &x = args.inputs[0].shape, &w = args.inputs[1].shape;
  const DType state_dtype = args.has(3) ? args.inputs[3].dtype : args.inputs[0].dtype;
  if (!x.ranked() || !w.ranked())
    return std::vector<TensorType>{args.inputs[0], TensorType(state_dtype, Shape::UnknownRank())};
  if (w[2].known() && w[2].value < 1)
    return InvalidInput("input 1 is {}, expected at least one tap", w.ToString());
  EVOQ_TRY(CheckSize(args, 1, 0, {x[1]}));
  EVOQ_TRY(CheckSize(args, 1, 1, {Dim(1)}));
  EVOQ_TRY(CheckSize(args, 2, 0, {x[1]}));
  const std::vector<Dim> state = {x[0], x[1], w[2].known() ? Dim(w[2].value - 1) : Dim()};
  for (int d = 0; d < 3; ++d) EVOQ_TRY(CheckSize(args, 3, d, {state[d]}));
  return std::vector<TensorType>{args.inputs[0], TensorType(state_dtype, Shape(state))};
}

template <typename T>
EvalResult CausalConv(const EvalArgs& args) {
  const Tensor &x = args.inputs[0], &w = args.inputs[1];
  const int64_t batch = x.sizes()[0], channels = x.sizes()[1], length = x.sizes()[2],
                taps = w.sizes()[2], kept = taps - 1;
  const bool silu = args.node.attrs.String("activation", "none") != "none";
  Tensor y = Tensor::Allocate(x.type());
  EVOQ_ASSIGN(Tensor state,
              AllocateOutput(TensorType(DTypeOf<T>::value, Shape{batch, channels, kept})));
  std::vector<T> line(static_cast<size_t>(kept + length));
  for (int64_t plane = 0; plane < batch * channels; ++plane) {
    std::fill(line.begin(), line.begin() + kept, T{0});
    if (args.has(3)) std::copy_n(args.inputs[3].data<T>() + plane * kept, kept, line.begin());
    std::copy_n(x.data<T>() + plane * length, length, line.begin() + kept);
    const int64_t c = plane % channels;
    for (int64_t t = 0; t < length; ++t) {
      T sum = args.has(2) ? args.inputs[2].data<T>()[c] : T{0};
      for (int64_t i = 0; i < taps; ++i) sum += w.data<T>()[c * taps + i] * line[t + i];
      y.mutable_data<T>()[plane * length + t] = silu ? SiluOf(sum) : sum;
    }
    std::copy_n(line.end() - kept, kept, state.mutable_data<T>() + plane * kept);
  }
  return std::vector<Tensor>{std::move(y), std::move(state)};
}

EvalResult EvaluateCausalConv(const EvalArgs& args) {
  return EvaluateAsFloats(args, [&](auto tag) { return CausalConv<decltype(tag)>(args); });
}

}  // namespace

extern const OpDef kCausalConvWithState = {.name = "CausalConvWithState",
                                           .min_inputs = 2,
                                           .max_inputs = 4,
                                           .outputs = 2,
                                           .infer = InferCausalConv,
                                           .evaluate = EvaluateCausalConv};
extern const OpDef kLinearAttention = {.name = "LinearAttention",
                                       .min_inputs = 3,
                                       .max_inputs = 6,
                                       .outputs = 2,
                                       .infer = InferLinear,
                                       .evaluate = EvaluateLinear};

}  // namespace evoq
