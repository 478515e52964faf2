// Recurrent sequence operators: LinearAttention and CausalConvWithState.
#include "ops/linear_attention.h"

#include <cmath>

#include "reference/definition.h"
#include "reference/real.h"
#include "reference/util.h"

namespace evoq {
namespace {

// ---- LinearAttention(q, k, v, past_state?, decay?, beta?): per batch item and key head a state S
// [d_k, d_v], per token
//   S = exp(decay) * S;  w = v, or beta * (v - S^T k) with the delta rule;  S = S + k w^T;  y =
//   scale * S^T q
// for each query head of the group. Sums are sequential in index order.

template <typename T>
EvalResult Linear(const EvalArgs& args) {
  EVOQ_ASSIGN(const AttentionHeads heads, AttentionHeadsOf(args.node));
  EVOQ_ASSIGN(const AttentionRule rule, AttentionRuleOf(args.node));
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

namespace reference {

extern const Definition kCausalConvWithState = {.name = "CausalConvWithState",
                                                .evaluate = EvaluateCausalConv};
extern const Definition kLinearAttention = {.name = "LinearAttention", .evaluate = EvaluateLinear};

}  // namespace reference
}  // namespace evoq
