// Recurrent sequence operators: LinearAttention and CausalConvWithState.
#include "ops/linear_attention.h"

#include "ops/indexing.h"
#include "ops/util.h"

namespace evoq {
namespace {

// ---- LinearAttention(q, k, v, past_state?, decay?, beta?)

}  // namespace

Result<AttentionHeads> AttentionHeadsOf(const Node& node) {
  EVOQ_ASSIGN(const int64_t q, IntAttr(node, "q_num_heads", 0));
  EVOQ_ASSIGN(const int64_t kv, IntAttr(node, "kv_num_heads", 0));
  if (q <= 0 || kv <= 0 || q % kv != 0)
    return InvalidInput("{} query heads and {} key heads, expected a multiple", q, kv);
  return AttentionHeads{q, kv};
}

Result<AttentionRule> AttentionRuleOf(const Node& node) {
  const std::string name = node.attrs.String("update_rule", "gated_delta");
  if (name == "linear") return AttentionRule{};
  if (name == "gated") return AttentionRule{true, false};
  if (name == "delta") return AttentionRule{false, true};
  if (name == "gated_delta") return AttentionRule{true, true};
  return InvalidInput("attribute update_rule is '{}', expected linear, gated, delta or gated_delta",
                      name);
}

namespace {

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
  EVOQ_ASSIGN(const AttentionHeads heads, AttentionHeadsOf(args.node));
  EVOQ_ASSIGN(const AttentionRule rule, AttentionRuleOf(args.node));
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

// ---- CausalConvWithState(x, weight, bias?, past_state?)

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

}  // namespace

extern const OpDef kCausalConvWithState = {.name = "CausalConvWithState",
                                           .min_inputs = 2,
                                           .max_inputs = 4,
                                           .outputs = 2,
                                           .infer = InferCausalConv};
extern const OpDef kLinearAttention = {.name = "LinearAttention",
                                       .min_inputs = 3,
                                       .max_inputs = 6,
                                       .outputs = 2,
                                       .infer = InferLinear};

}  // namespace evoq
