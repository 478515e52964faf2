// Operators of com.microsoft that exported transformers carry, as operators of the dialect.
#include <array>
#include <cmath>

#include "base/math.h"
#include "onnx/upgrade.h"

namespace evoq {
namespace {

// ---- helpers. Suffixes name the nodes that are added.

ValueId Ints(Upgrade& u, std::string_view suffix, std::vector<int64_t> values) {
  return u.AddConstant(suffix, Tensor::FromValues(values));
}

ValueId Cast(Upgrade& u, std::string_view suffix, ValueId x, DType to) {
  return u.Apply("Cast", suffix, {x}, Attrs::Of("to", static_cast<int64_t>(to)));
}

ValueId Reshaped(Upgrade& u, std::string_view suffix, ValueId x, std::vector<int64_t> sizes) {
  return u.Apply("Reshape", suffix, {x, Ints(u, std::string(suffix) + "_shape", std::move(sizes))});
}

// Elements [start, end) of x along an axis.
ValueId Part(Upgrade& u, const std::string& suffix, ValueId x, int64_t start, int64_t end,
             int64_t axis) {
  return u.Apply("Slice", suffix,
                 {x, Ints(u, suffix + "_start", {start}), Ints(u, suffix + "_end", {end}),
                  Ints(u, suffix + "_axis", {axis})});
}

ValueId Added(Upgrade& u, std::string_view suffix, ValueId x, ValueId other) {
  return other.valid() ? u.Apply("Add", suffix, {x, other}) : x;
}

// Readers of output i read `value` instead.
void GiveOutput(Upgrade& u, size_t i, ValueId value) {
  if (u.OutputUsed(i)) u.graph().ReplaceUses(u.node().outputs[i], value);
}

Status RefuseOutput(Upgrade& u, size_t i, const char* what) {
  return u.OutputUsed(i) ? Unsupported("output {} ({}) is read", i, what) : Status();
}

Status SameInOnnx(Upgrade& u) {
  u.graph().SetOp(u.id(), u.node().op);
  return {};
}

// ---- activations

Status FastGelu(Upgrade& u) {
  EVOQ_TRY(u.NeedInputs({0}));
  const ValueId x = Added(u, "bias", u.node().input(0), u.node().input(1));
  u.ReplaceBy(u.Apply("Gelu", "", {x}, Attrs::Of("approximate", std::string("tanh"))));
  return {};
}

Status BiasGelu(Upgrade& u) {
  EVOQ_TRY(u.NeedInputs({0}));
  u.ReplaceBy(u.Apply("Gelu", "", {Added(u, "bias", u.node().input(0), u.node().input(1))}));
  return {};
}

Status QuickGelu(Upgrade& u) {
  EVOQ_TRY(u.NeedInputs({0}));
  u.ReplaceBy(u.Apply("Swish", "", {u.node().input(0)},
                      Attrs::Of("alpha", u.attrs().Float("alpha", 1.702f))));
  return {};
}

// FusedConv(x, w, bias?, z?): y = activation(conv(x, w) + bias + z)
Status FusedConv(Upgrade& u) {
  EVOQ_TRY(u.NeedInputs({0, 1}));
  Attrs attrs = u.attrs();
  const std::string activation = attrs.String("activation");
  const std::vector<float> params = attrs.Floats("activation_params");
  attrs.Erase("activation");
  attrs.Erase("activation_params");
  std::vector<ValueId> inputs = {u.node().input(0), u.node().input(1)};
  if (u.HasInput(2)) inputs.push_back(u.node().input(2));
  ValueId y = Added(u, "sum", u.Apply("Conv", "conv", std::move(inputs), std::move(attrs)),
                    u.node().input(3));
  const auto param = [&](size_t i, float fallback) {
    return i < params.size() ? params[i] : fallback;
  };
  if (activation == "Clip") {
    y = u.Apply("Clip", "activation",
                {y, u.AddConstant("low", Tensor::Scalar(param(0, -INFINITY))),
                 u.AddConstant("high", Tensor::Scalar(param(1, INFINITY)))});
  } else if (activation == "LeakyRelu") {
    y = u.Apply("LeakyRelu", "activation", {y}, Attrs::Of("alpha", param(0, 0.01f)));
  } else if (activation == "HardSigmoid") {
    Attrs slope = Attrs::Of("alpha", param(0, 0.2f));
    slope.Set("beta", param(1, 0.5f));
    y = u.Apply("HardSigmoid", "activation", {y}, std::move(slope));
  } else if (activation == "Relu" || activation == "Tanh" || activation == "Sigmoid") {
    y = u.Apply(activation, "activation", {y});
  } else if (!activation.empty()) {
    return Unsupported("activation '{}'", activation);
  }
  u.ReplaceBy(y);
  return {};
}

// FusedGemm(a, b, c?): y = activation(Gemm(a, b, c)); the activation's own alpha, beta and gamma
// have its name in front.
Status FusedGemm(Upgrade& u) {
  EVOQ_TRY(u.NeedInputs({0, 1}));
  Attrs gemm, curve;
  for (const char* name : {"transA", "transB"}) gemm.Set(name, u.attrs().Int(name));
  for (const char* name : {"alpha", "beta"}) gemm.Set(name, u.attrs().Float(name, 1));
  for (const char* name : {"alpha", "beta", "gamma"}) {
    const std::string written = std::string("activation_") + name;
    if (u.attrs().Has(written)) curve.Set(name, u.attrs().Float(written, 0));
  }
  const std::string activation = u.attrs().String("activation");
  const OpDef* op = FindOp(activation);
  if (!activation.empty() && (op == nullptr || !op->elementwise || op->min_inputs != 1))
    return Unsupported("activation '{}'", activation);
  const ValueId y = u.Apply("Gemm", "gemm", u.node().inputs, std::move(gemm));
  u.ReplaceBy(activation.empty() ? y : u.Apply(activation, "activation", {y}, std::move(curve)));
  return {};
}

// FusedMatMul(a, b): alpha * a' b', where ' swaps the last two axes or moves the matrix's first
// axis from the batch.
Status FusedMatMul(Upgrade& u) {
  EVOQ_TRY(u.NeedInputs({0, 1}));
  ValueId sides[2];
  for (size_t i = 0; i < 2; ++i) {
    const bool swap = u.attrs().Int(i == 0 ? "transA" : "transB") != 0,
               batch = u.attrs().Int(i == 0 ? "transBatchA" : "transBatchB") != 0;
    sides[i] = u.node().input(i);
    const Shape shape = u.InputType(i).shape;
    if (!swap && !batch) continue;
    if (!shape.ranked()) {
      if (batch) return Unsupported("a transposed input {} of unknown rank", i);
      sides[i] = u.Apply("Einsum", i == 0 ? "a" : "b", {sides[i]},
                         Attrs::Of("equation", std::string("...ij->...ji")));
      continue;
    }
    const int64_t rank = shape.rank();
    if (rank < 2) continue;  // a vector has no transpose
    std::vector<int64_t> perm;
    for (int64_t d = 0; d < rank; ++d) perm.push_back(d);
    if (batch) {  // [rows, batch..., columns] -> [batch..., rows, columns]
      perm.erase(perm.begin());
      perm.insert(perm.end() - 1, 0);
    }
    if (swap) std::swap(perm[rank - 1], perm[rank - 2]);
    sides[i] = u.Apply("Transpose", i == 0 ? "a" : "b", {sides[i]}, Attrs::Of("perm", perm));
  }
  ValueId y = u.Apply("MatMul", "product", {sides[0], sides[1]});
  const float alpha = u.attrs().Float("alpha", 1);
  if (alpha != 1) y = u.Apply("Mul", "scaled", {y, u.AddConstant("alpha", Tensor::Scalar(alpha))});
  u.ReplaceBy(y);
  return {};
}

// ---- normalizations

Status SimplifiedLayerNorm(Upgrade& u) {
  EVOQ_TRY(RefuseOutput(u, 1, "the inverse deviation"));
  Attrs attrs = Attrs::Of("epsilon", u.attrs().Float("epsilon", 1e-5f));
  attrs.Set("axis", u.attrs().Int("axis", -1));
  EVOQ_TRY(u.NeedInputs({0, 1}));
  u.ReplaceBy(
      u.Apply("RMSNormalization", "", {u.node().input(0), u.node().input(1)}, std::move(attrs)));
  return {};
}

// Skip*LayerNormalization(x, skip, gamma, [beta,] bias?) -> y, mean, deviation, x + skip + bias
Status SkipLayerNorm(Upgrade& u) {
  EVOQ_TRY(u.NeedInputs({0, 1, 2}));
  const bool simple = u.node().op == "SkipSimplifiedLayerNormalization";
  for (size_t i : {1, 2}) EVOQ_TRY(RefuseOutput(u, i, "a statistic"));
  const ValueId bias = u.node().input(simple ? 3 : 4),
                beta = simple ? ValueId{} : u.node().input(3);
  const ValueId sum =
      Added(u, "sum", u.Apply("Add", "skip", {u.node().input(0), u.node().input(1)}), bias);
  Attrs attrs = Attrs::Of("epsilon", u.attrs().Float("epsilon", 1e-12f));
  attrs.Set("axis", -1);
  std::vector<ValueId> inputs = {sum, u.node().input(2)};
  if (beta.valid()) inputs.push_back(beta);
  const ValueId y = u.Apply(simple ? "RMSNormalization" : "LayerNormalization", "norm",
                            std::move(inputs), std::move(attrs));
  GiveOutput(u, 3, sum);
  u.ReplaceBy(y);
  return {};
}

// EmbedLayerNormalization(ids, segments?, words, positions, segment table?, gamma, beta, mask?,
// position ids?)
// -> y, how many of each row the mask keeps, the sum before normalization
Status EmbedLayerNorm(Upgrade& u) {
  EVOQ_TRY(u.NeedInputs({0, 2, 3, 5, 6}));
  const std::vector<ValueId> in = u.node().inputs;
  ValueId positions;
  if (u.HasInput(8)) {
    positions = u.Apply("Gather", "positions", {in[3], in[8]});
  } else {
    const ValueId length =
        u.Apply("Gather", "length", {u.Apply("Shape", "shape", {in[0]}), Ints(u, "one", {1})});
    positions =
        u.Apply("Slice", "positions", {in[3], Ints(u, "zero", {0}), length, Ints(u, "axis", {0})});
  }
  ValueId sum = u.Apply("Add", "placed", {u.Apply("Gather", "words", {in[2], in[0]}), positions});
  if (u.HasInput(1) && u.HasInput(4))
    sum = u.Apply("Add", "sum", {sum, u.Apply("Gather", "segments", {in[4], in[1]})});
  Attrs attrs = Attrs::Of("epsilon", u.attrs().Float("epsilon", 1e-12f));
  attrs.Set("axis", -1);
  const ValueId y = u.Apply("LayerNormalization", "norm", {sum, in[5], in[6]}, std::move(attrs));
  if (u.OutputUsed(1)) {
    // Without a mask 0 for each row.
    const ValueId none = u.AddConstant("no_mask", Tensor::Scalar<int32_t>(0));
    GiveOutput(
        u, 1,
        u.HasInput(7)
            ? u.Apply("ReduceSum", "mask_sums", {in[7], Ints(u, "mask_axis", {1})},
                      Attrs::Of("keepdims", int64_t{0}))
            : u.Apply("Expand", "mask_sums",
                      {none, Part(u, "rows", u.Apply("Shape", "ids_shape", {in[0]}), 0, 1, 0)}));
  }
  GiveOutput(u, 2, sum);
  u.ReplaceBy(y);
  return {};
}

// ---- quantized products

ValueId Dequantize(Upgrade& u, std::string_view suffix, ValueId x, ValueId scale, ValueId zero,
                   int64_t axis) {
  std::vector<ValueId> inputs = {x, scale};
  if (zero.valid()) inputs.push_back(zero);
  return u.Apply("DequantizeLinear", suffix, std::move(inputs), Attrs::Of("axis", axis));
}

// MatMulIntegerToFloat(a, b, s_a, s_b, z_a?, z_b?, bias?)
Status IntegerToFloat(Upgrade& u) {
  EVOQ_TRY(u.NeedInputs({0, 1, 2, 3}));
  const Node& n = u.node();
  const ValueId a = Dequantize(u, "a", n.input(0), n.input(2), n.input(4), -1);
  const ValueId b = Dequantize(u, "b", u.node().input(1), u.node().input(3), u.node().input(5), -1);
  u.ReplaceBy(Added(u, "bias", u.Apply("MatMul", "product", {a, b}), u.node().input(6)));
  return {};
}

// DynamicQuantizeMatMul(a, b, s_b, z_b?, bias?): a is quantized by its own range.
Status DynamicMatMul(Upgrade& u) {
  EVOQ_TRY(u.NeedInputs({0, 1, 2}));
  const ValueId q = u.graph().AddValue(u.node().name + "_q"),
                s = u.graph().AddValue(u.node().name + "_s"),
                z = u.graph().AddValue(u.node().name + "_z");
  Node dynamic;
  dynamic.op = "DynamicQuantizeLinear";
  dynamic.name = u.node().name + "_dynamic";
  dynamic.inputs = {u.node().input(0)};
  dynamic.outputs = {q, s, z};
  u.AddNode(std::move(dynamic));
  const ValueId a = Dequantize(u, "a", q, s, z, -1);
  const ValueId b = Dequantize(u, "b", u.node().input(1), u.node().input(2), u.node().input(3), -1);
  u.ReplaceBy(Added(u, "bias", u.Apply("MatMul", "product", {a, b}), u.node().input(4)));
  return {};
}

// ---- attention. All forms become ai.onnx Attention on [batch, length, heads * size].

struct AttentionParts {
  ValueId q, k, v, mask, past_key, past_value, lengths;
  int64_t heads = 0, kv_heads = 0;
  bool causal = false;
};

// The node and its present keys and values (outputs 1 and 2).
std::array<ValueId, 3> ApplyAttention(Upgrade& u, const AttentionParts& p) {
  Node node;
  node.op = "Attention";
  node.name = u.node().name + "_attention";
  node.inputs = {p.q, p.k, p.v, p.mask, p.past_key, p.past_value, p.lengths};
  while (!node.inputs.back().valid()) node.inputs.pop_back();
  node.attrs.Set("q_num_heads", p.heads);
  node.attrs.Set("kv_num_heads", p.kv_heads);
  node.attrs.Set("is_causal", p.causal ? 1 : 0);
  if (const float scale = u.attrs().Float("scale", 0); scale != 0) node.attrs.Set("scale", scale);
  if (const float softcap = u.attrs().Float("softcap", 0); softcap != 0)
    node.attrs.Set("softcap", softcap);
  if (const int64_t window = u.attrs().Int("local_window_size", -1); window > 0)
    node.attrs.Set("left_window_size", window - 1);
  std::array<ValueId, 3> out;
  for (const char* name : {"", "_key", "_value"}) {
    const size_t i = *name == 0 ? 0 : name[1] == 'k' ? 1 : 2;
    out[i] = u.graph().AddValue(u.node().name + "_attention" + name);
    node.outputs.push_back(out[i]);
  }
  u.AddNode(std::move(node));
  return out;
}

// bool[batch, keys]: the first lengths[b] keys, of the past and this run together.
ValueId KeysWithin(Upgrade& u, ValueId lengths, const AttentionParts& p) {
  ValueId count = Part(u, "keys_count", u.Apply("Shape", "keys_shape", {p.k}), 1, 2, 0);
  if (p.past_key.valid()) {
    const ValueId past = u.Apply("Shape", "past_shape", {p.past_key});
    count = u.Apply("Add", "keys_all", {count, Part(u, "past_count", past, 2, 3, 0)});
  }
  const ValueId row = u.Apply(
      "Range", "keys_row",
      {u.AddConstant("keys_first", Tensor::Scalar<int64_t>(0)), Reshaped(u, "keys_end", count, {}),
       u.AddConstant("keys_step", Tensor::Scalar<int64_t>(1))});
  const ValueId ends =
      Reshaped(u, "lengths", Cast(u, "lengths_long", lengths, DType::kInt64), {-1, 1});
  return u.Apply("Less", "keys_within", {row, ends});
}

// A mask of 1 (attend) and 0, by its shape: [B] counts keys from the left, [B, T] is per key, [B,
// S, T] per query and key. It adds a finite number to the scores of the keys that it hides: a query
// that would see no key sees all. Keys and the past are in `p` already.
Status TakeMask(Upgrade& u, ValueId mask, AttentionParts& p) {
  if (!mask.valid()) return {};
  const TensorType type = u.graph().value(mask).type;
  if (!type.shape.ranked()) return Unsupported("a mask of unknown rank");
  int rank = type.shape.rank();
  if (rank == 1 && !p.causal) {
    p.lengths = Cast(u, "lengths", mask, DType::kInt64);
    return {};
  }
  if (rank > 4) return Unsupported("a mask of {}", type.ToString());
  ValueId bools = type.dtype == DType::kBool ? mask : ValueId{};
  if (rank == 1) {  // Attention counts causal queries from the last of the keys that are there
    bools = KeysWithin(u, mask, p);
    rank = 2;
  }
  if (!bools.valid()) bools = Cast(u, "mask_bool", mask, DType::kBool);
  if (rank == 2) bools = u.Apply("Unsqueeze", "mask_wide", {bools, Ints(u, "mask_axes", {1, 2})});
  if (rank == 3) bools = u.Apply("Unsqueeze", "mask_wide", {bools, Ints(u, "mask_axes", {1})});
  const float hidden = u.attrs().Float("mask_filter_value", -10000.0f);
  p.mask = u.Apply("Where", "mask_bias",
                   {bools, u.AddConstant("seen", Tensor::Scalar(0.0f)),
                    u.AddConstant("hidden", Tensor::Scalar(hidden))});
  return {};
}

// A bias of the scores, beside that of a mask.
void AddBias(Upgrade& u, ValueId bias, AttentionParts& p) {
  if (!bias.valid()) return;
  p.mask = p.mask.valid() ? u.Apply("Add", "scores_bias", {p.mask, bias}) : bias;
}

// (x, weights, bias, mask?, past?, attention bias?) of Attention; x * weights + bias are the
// queries, keys and values.
Status FinishAttention(Upgrade& u, ValueId projected, ValueId mask, ValueId past,
                       ValueId scores_bias) {
  AttentionParts p;
  p.heads = p.kv_heads = u.attrs().Int("num_heads");
  p.causal = u.attrs().Int("unidirectional") != 0;
  if (u.attrs().Int("do_rotary") != 0) return Unsupported("do_rotary=1");
  const ValueId weights = u.node().input(1);
  const Shape shape = u.graph().value(weights).type.shape;
  if (!shape.ranked() || shape.rank() != 2 || !shape[1].known() || p.heads < 1)
    return Unsupported("weights of {} for {} heads", shape.ToString(), p.heads);
  std::vector<int64_t> sizes = u.attrs().Ints("qkv_hidden_sizes");
  if (sizes.empty()) sizes.assign(3, shape[1].value / 3);
  int64_t left = shape[1].value;
  for (int64_t size : sizes) left = size < 0 || size > left ? -1 : left - size;
  if (sizes.size() != 3 || left != 0)
    return InvalidInput("queries, keys and values do not fill {}", shape.ToString());
  p.q = Part(u, "queries", projected, 0, sizes[0], -1);
  p.k = Part(u, "keys", projected, sizes[0], sizes[0] + sizes[1], -1);
  p.v = Part(u, "values", projected, sizes[0] + sizes[1], shape[1].value, -1);
  if (past.valid()) {  // [2, batch, heads, past, size]
    const ValueId axis = Ints(u, "past_axis", {0});
    p.past_key = u.Apply("Squeeze", "past_key", {Part(u, "past_keys", past, 0, 1, 0), axis});
    p.past_value = u.Apply("Squeeze", "past_value", {Part(u, "past_values", past, 1, 2, 0), axis});
  }
  EVOQ_TRY(TakeMask(u, mask, p));
  AddBias(u, scores_bias, p);
  const auto out = ApplyAttention(u, p);
  if (u.OutputUsed(1)) {
    const ValueId axis = Ints(u, "present_axis", {0});
    const ValueId keys = u.Apply("Unsqueeze", "present_keys", {out[1], axis}),
                  values = u.Apply("Unsqueeze", "present_values", {out[2], axis});
    GiveOutput(u, 1, u.Apply("Concat", "present", {keys, values}, Attrs::Of("axis", int64_t{0})));
  }
  u.ReplaceBy(out[0]);
  return {};
}

Status MicrosoftAttention(Upgrade& u) {
  EVOQ_TRY(u.NeedInputs({0, 1}));
  const ValueId projected =
      Added(u, "projected", u.Apply("MatMul", "project", {u.node().input(0), u.node().input(1)}),
            u.node().input(2));
  return FinishAttention(u, projected, u.node().input(3), u.node().input(4), u.node().input(5));
}

// QAttention(x, weights, bias, s_x, s_w, mask?, z_x?, z_w?, past?)
Status QuantizedAttention(Upgrade& u) {
  EVOQ_TRY(u.NeedInputs({0, 1, 2, 3, 4}));
  const std::vector<ValueId> in = u.node().inputs;
  const auto input = [&](size_t i) { return i < in.size() ? in[i] : ValueId{}; };
  const ValueId x = Dequantize(u, "x", in[0], in[3], input(6), -1),
                w = Dequantize(u, "w", in[1], in[4], input(7), -1);
  return FinishAttention(u,
                         u.Apply("Add", "projected", {u.Apply("MatMul", "project", {x, w}), in[2]}),
                         input(5), input(8), ValueId{});
}

// Part i of values packed as [batch, length, heads, parts, size]: [batch, length, heads * size].
ValueId Unpacked(Upgrade& u, const std::string& name, ValueId packed, int64_t i) {
  return Reshaped(u, name, Part(u, name + "_part", packed, i, i + 1, 3), {0, 0, -1});
}

// Queries, keys and values as [batch, length, heads * size]: given so; packed in one or, but for
// the queries, in two; keys and values as [batch, heads, length, size].
Status TakeHeads(Upgrade& u, AttentionParts& p) {
  const auto rank = [&](size_t i) {
    const TensorType type = u.InputType(i);
    return u.HasInput(i) && type.shape.ranked() ? type.shape.rank() : 0;
  };
  const ValueId q = u.node().input(0), k = u.node().input(1), v = u.node().input(2);
  if (rank(0) == 5 && !k.valid() && !v.valid()) {
    p.q = Unpacked(u, "queries", q, 0);
    p.k = Unpacked(u, "keys", q, 1);
    p.v = Unpacked(u, "values", q, 2);
  } else if (rank(0) == 3 && rank(1) == 5 && !v.valid()) {
    p.q = q;
    p.k = Unpacked(u, "keys", k, 0);
    p.v = Unpacked(u, "values", k, 1);
  } else if (rank(0) == 3 && rank(1) == 4 && rank(2) == 4) {
    const auto flat = [&](const std::string& name, ValueId x) {
      const ValueId rows = u.Apply("Transpose", name + "_rows", {x},
                                   Attrs::Of("perm", std::vector<int64_t>{0, 2, 1, 3}));
      return Reshaped(u, name, rows, {0, 0, -1});
    };
    p.q = q;
    p.k = flat("keys", k);
    p.v = flat("values", v);
  } else if (rank(0) == 3 && rank(1) == 3 && rank(2) == 3) {
    p.q = q;
    p.k = k;
    p.v = v;
  } else {
    return Unsupported(
        "inputs {}, {} and {}, expected queries, keys and values of rank 3 or packed",
        u.InputType(0).ToString(), u.InputType(1).ToString(), u.InputType(2).ToString());
  }
  return {};
}

// MultiHeadAttention(q, k, v, bias?, key mask?, scores bias?, past key?, past value?)
Status MultiHeadAttention(Upgrade& u) {
  AttentionParts p;
  EVOQ_TRY(TakeHeads(u, p));
  p.heads = p.kv_heads = u.attrs().Int("num_heads");
  p.causal = u.attrs().Int("unidirectional") != 0;
  const TensorType q = u.InputType(0), v = u.InputType(2);
  if (const ValueId bias = u.node().input(3); bias.valid()) {
    if (q.shape.rank() != 3 || v.shape.rank() != 3) return Unsupported("a bias for packed inputs");
    // Of queries, of keys, which are as wide, then of values.
    const ValueId size =
        q.shape[2].known()
            ? Ints(u, "bias_size", {q.shape[2].value})
            : Part(u, "bias_size", u.Apply("Shape", "q_shape", {u.node().input(0)}), 2, 3, 0);
    const ValueId twice = u.Apply("Add", "bias_size_2", {size, size}), zero = Ints(u, "zero", {0});
    const auto part = [&](const char* name, ValueId start, ValueId end) {
      return u.Apply("Slice", name, {bias, start, end, zero});
    };
    p.q = u.Apply("Add", "queries", {p.q, part("bias_q", zero, size)});
    p.k = u.Apply("Add", "keys", {p.k, part("bias_k", size, twice)});
    p.v = u.Apply("Add", "values", {p.v, part("bias_v", twice, Ints(u, "bias_end", {INT64_MAX}))});
  }
  p.past_key = u.node().input(6);
  p.past_value = u.node().input(7);
  EVOQ_TRY(TakeMask(u, u.node().input(4), p));
  AddBias(u, u.node().input(5), p);
  EVOQ_TRY(RefuseOutput(u, 3, "the scores"));
  const auto out = ApplyAttention(u, p);
  GiveOutput(u, 1, out[1]);
  GiveOutput(u, 2, out[2]);
  u.ReplaceBy(out[0]);
  return {};
}

// Places first, first + 1, ... of `x` [batch, length, ...] or [batch, heads, length, size], as
// int64[batch, length]; `first` is an int64 scalar.
ValueId Places(Upgrade& u, ValueId x, int rank, ValueId first) {
  const ValueId shape = u.Apply("Shape", "x_shape", {x});
  const int64_t axis = rank == 4 ? 2 : 1;
  const ValueId length =
      u.Apply("Gather", "x_length", {shape, u.AddConstant("length_axis", Tensor::Scalar(axis))});
  const ValueId end = u.Apply("Add", "end", {first, length});
  const ValueId row =
      u.Apply("Range", "row", {first, end, u.AddConstant("step", Tensor::Scalar<int64_t>(1))});
  const ValueId rows = u.Apply("Gather", "rows", {shape, Ints(u, "rows_axes", {0, axis})});
  return u.Apply("Expand", "places", {row, rows});
}

// Item b of the batch has lengths[b] + 1 keys in all, the last ones of this run: its tokens have
// the places before[b], before[b] + 1,
// ... with before[b] = max(lengths[b] + 1 - S, 0). In a first run of items of different lengths the
// shorter ones end in padding, whose results mean nothing.
struct Ragged {
  ValueId before;  // int64[batch]
  ValueId places;  // int64[batch, S]
  ValueId ends;    // int64[batch]: before[b] + S
};

Ragged RaggedPlaces(Upgrade& u) {
  const ValueId shape = u.Apply("Shape", "x_shape", {u.node().input(0)});
  const ValueId length = Part(u, "x_length", shape, 1, 2, 0);
  const ValueId lengths =
      Reshaped(u, "lengths", Cast(u, "lengths_long", u.node().input(5), DType::kInt64), {-1});
  const ValueId ends = u.Apply("Add", "ends", {lengths, Ints(u, "ends_one", {1})});
  Ragged ragged;
  ragged.before =
      u.Apply("Max", "before",
              {u.Apply("Sub", "ends_before", {ends, length}), Ints(u, "before_zero", {0})});
  const ValueId zero = u.AddConstant("zero", Tensor::Scalar<int64_t>(0)),
                one = u.AddConstant("one", Tensor::Scalar<int64_t>(1));
  const ValueId row = u.Apply("Range", "row", {zero, Reshaped(u, "x_count", length, {}), one});
  ragged.places = u.Apply(
      "Add", "places",
      {u.Apply("Unsqueeze", "before_rows", {ragged.before, Ints(u, "before_axis", {1})}), row});
  ragged.ends = u.Apply("Add", "places_end", {ragged.before, length});
  return ragged;
}

// [batch, S, heads * size] -> [batch, heads, S, size]
ValueId SplitHeads(Upgrade& u, const std::string& name, ValueId x, int64_t heads) {
  const ValueId split = Reshaped(u, name + "_split", x, {0, 0, heads, -1});
  return u.Apply("Transpose", name + "_heads", {split},
                 Attrs::Of("perm", std::vector<int64_t>{0, 2, 1, 3}));
}

// The past with this run's keys or values [batch, heads, S, size] at each item's place, as long as
// the longer of the past and `total` (int64[1]): past and present may be one buffer.
ValueId Present(Upgrade& u, const std::string& name, ValueId past, ValueId x, ValueId total,
                const Ragged& ragged) {
  const ValueId size =
      Part(u, name + "_past_size", u.Apply("Shape", name + "_past_shape", {past}), 2, 3, 0);
  const ValueId more =
      u.Apply("Max", name + "_more",
              {u.Apply("Sub", name + "_missing", {total, size}), Ints(u, name + "_none", {0})});
  const ValueId pads = u.Apply("Concat", name + "_pads",
                               {Ints(u, name + "_pads_before", {0, 0, 0, 0, 0, 0}), more,
                                Ints(u, name + "_pads_after", {0})},
                               Attrs::Of("axis", int64_t{0}));
  return u.Apply("TensorScatter", name + "_present",
                 {u.Apply("Pad", name + "_longer", {past, pads}), x, ragged.before});
}

constexpr int64_t kMaxHeads = 1 << 20;

// GroupQueryAttention(q, k, v, past key?, past value?, lengths, total, cos?, sin?)
Status GroupQueryAttention(Upgrade& u) {
  EVOQ_TRY(u.NeedInputs({0, 5, 6}));
  for (size_t i : {9, 10, 11}) {
    if (u.HasInput(i)) return Unsupported("input {}", i);
  }
  if (u.HasInput(3) != u.HasInput(4))
    return InvalidInput("one of past_key and past_value is missing");
  const int64_t heads = u.attrs().Int("num_heads"), kv_heads = u.attrs().Int("kv_num_heads");
  if (heads < 1 || kv_heads < 1 || heads > kMaxHeads || kv_heads > kMaxHeads)
    return InvalidInput("num_heads={}, kv_num_heads={}, expected 1 to {}", heads, kv_heads,
                        kMaxHeads);
  ValueId q = u.node().input(0), k = u.node().input(1), v = u.node().input(2);
  if (!k.valid()) {  // packed
    const Shape shape = u.InputType(0).shape;
    if (shape.rank() != 3 || !shape[2].known())
      return Unsupported("packed queries, keys and values of {}", shape.ToString());
    const int64_t size = shape[2].value / (heads + 2 * kv_heads), q_end = heads * size,
                  k_end = q_end + kv_heads * size;
    const ValueId packed = q;
    q = Part(u, "queries", packed, 0, q_end, -1);
    k = Part(u, "keys", packed, q_end, k_end, -1);
    v = Part(u, "values", packed, k_end, shape[2].value, -1);
  }
  const Ragged ragged = RaggedPlaces(u);
  if (u.attrs().Int("do_rotary") != 0) {
    EVOQ_TRY(u.NeedInputs({7, 8}));
    const auto turned = [&](const char* name, ValueId x, int64_t count) {
      Attrs attrs = Attrs::Of("num_heads", count);
      attrs.Set("interleaved", u.attrs().Int("rotary_interleaved"));
      return u.Apply("RotaryEmbedding", name,
                     {x, u.node().input(7), u.node().input(8), ragged.places}, std::move(attrs));
    };
    q = turned("turned_queries", q, heads);
    k = turned("turned_keys", k, kv_heads);
  }
  AttentionParts p{.q = SplitHeads(u, "q", q, heads),
                   .k = SplitHeads(u, "k", k, kv_heads),
                   .v = SplitHeads(u, "v", v, kv_heads)};
  p.heads = heads;
  p.kv_heads = kv_heads;
  p.causal = true;
  p.lengths = ragged.ends;
  if (u.HasInput(3)) {
    const ValueId total =
        Reshaped(u, "total", Cast(u, "total_long", u.node().input(6), DType::kInt64), {1});
    p.k = Present(u, "k", u.node().input(3), p.k, total, ragged);
    p.v = Present(u, "v", u.node().input(4), p.v, total, ragged);
  }
  GiveOutput(u, 1, p.k);
  GiveOutput(u, 2, p.v);
  const ValueId y = u.Apply("Transpose", "y_rows", {ApplyAttention(u, p)[0]},
                            Attrs::Of("perm", std::vector<int64_t>{0, 2, 1, 3}));
  u.ReplaceBy(Reshaped(u, "", y, {0, 0, -1}));
  return {};
}

// RotaryEmbedding(x, places, cos, sin): places [batch, length], or one: that of the first token.
Status MicrosoftRotary(Upgrade& u) {
  EVOQ_TRY(u.NeedInputs({0, 1, 2, 3}));
  const Shape x = u.InputType(0).shape, places = u.InputType(1).shape,
              cosines = u.InputType(2).shape;
  if (!x.ranked() || !places.ranked()) return Unsupported("inputs of unknown rank");
  if (u.attrs().Float("scale", 1) != 1) return Unsupported("scale={}", u.attrs().Float("scale"));
  ValueId at = u.node().input(1);
  if (places.rank() < 2) {
    if (x.rank() != 3 && x.rank() != 4)
      return Unsupported("one place for an input of {}", x.ToString());
    at = Places(u, u.node().input(0), x.rank(), Reshaped(u, "first", at, {}));
  }
  Attrs attrs = Attrs::Of("interleaved", u.attrs().Int("interleaved"));
  int64_t heads = u.attrs().Int("num_heads");
  const int64_t rotated = u.attrs().Int("rotary_embedding_dim");
  if (x.rank() == 3 && heads == 0) {
    if (!x[2].known() || cosines.rank() != 2 || !cosines[1].known() || cosines[1].value == 0)
      return Unsupported("an unknown number of heads");
    heads = x[2].value / (2 * cosines[1].value);
  }
  attrs.Set("num_heads", heads);
  attrs.Set("rotary_embedding_dim", rotated);
  u.ReplaceBy(u.Apply("RotaryEmbedding", "",
                      {u.node().input(0), u.node().input(2), u.node().input(3), at},
                      std::move(attrs)));
  return {};
}

constexpr UpgradeRule kRules[] = {
    {"Gelu", "com.microsoft", kAnyVersion, SameInOnnx},
    {"LayerNormalization", "com.microsoft", kAnyVersion, SameInOnnx},
    {"FastGelu", "com.microsoft", kAnyVersion, FastGelu},
    {"BiasGelu", "com.microsoft", kAnyVersion, BiasGelu},
    {"QuickGelu", "com.microsoft", kAnyVersion, QuickGelu},
    {"FusedConv", "com.microsoft", kAnyVersion, FusedConv},
    {"FusedGemm", "com.microsoft", kAnyVersion, FusedGemm},
    {"FusedMatMul", "com.microsoft", kAnyVersion, FusedMatMul},
    {"SimplifiedLayerNormalization", "com.microsoft", kAnyVersion, SimplifiedLayerNorm},
    {"SimplifiedLayerNormalization", "", kAnyVersion, SimplifiedLayerNorm},
    {"SkipLayerNormalization", "com.microsoft", kAnyVersion, SkipLayerNorm},
    {"SkipSimplifiedLayerNormalization", "com.microsoft", kAnyVersion, SkipLayerNorm},
    {"EmbedLayerNormalization", "com.microsoft", kAnyVersion, EmbedLayerNorm},
    {"MatMulIntegerToFloat", "com.microsoft", kAnyVersion, IntegerToFloat},
    {"DynamicQuantizeMatMul", "com.microsoft", kAnyVersion, DynamicMatMul},
    {"Attention", "com.microsoft", kAnyVersion, MicrosoftAttention},
    {"QAttention", "com.microsoft", kAnyVersion, QuantizedAttention},
    {"MultiHeadAttention", "com.microsoft", kAnyVersion, MultiHeadAttention},
    {"GroupQueryAttention", "com.microsoft", kAnyVersion, GroupQueryAttention},
    {"RotaryEmbedding", "com.microsoft", kAnyVersion, MicrosoftRotary},
};

}  // namespace

std::span<const UpgradeRule> MicrosoftRules() { return kRules; }

}  // namespace evoq
