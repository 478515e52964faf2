// Attention(q, k, v, mask?, past_key?, past_value?, nonpad_kv_seqlen?, key_scale?, value_scale?,
// sinks?) -> y, present_key, present_value, scores.
#include "base/math.h"
#include "kernels/attention/attention_inputs.h"
#include "ops/symbolic_sizes.h"
#include "ops/util.h"

namespace evoq {
namespace {

// ---- inference

// [batch, heads, length, size] of a 4-D input, or of a 3-D one [batch, length, heads * size].
Result<std::vector<Dim>> HeadsOf(const InferArgs& args, size_t i, const char* heads_attr) {
  const Shape& shape = args.inputs[i].shape;
  EVOQ_ASSIGN(const int64_t heads, IntAttr(args.node, heads_attr, 0));
  if (shape.rank() == 4) return shape.dims();
  if (shape.rank() != 3)
    return InvalidInput("input {} is {}, expected rank 3 or 4", i, shape.ToString());
  if (heads <= 0)
    return InvalidInput("attribute {} is {}, which an input of rank 3 needs", heads_attr, heads);
  const Dim& hidden = shape[2];
  if (hidden.known() && hidden.value % heads != 0)
    return InvalidInput("input {} is {}, expected a multiple of {} heads", i, shape.ToString(),
                        heads);
  return std::vector<Dim>{shape[0], Dim(heads), shape[1],
                          hidden.known() ? Dim(hidden.value / heads) : Dim()};
}

Dim Product(const Dim& a, const Dim& b) {
  const auto product = a.known() && b.known() ? CheckedMul(a.value, b.value) : std::nullopt;
  return product ? Dim(*product) : Dim();
}

Status CheckEqual(const Dim& a, const Dim& b, const char* what) {
  if (!a.known() || !b.known() || a.value == b.value) return {};
  return InvalidInput("{}: {} and {}, expected equal", what, a.value, b.value);
}

// The past of keys or values is [batch, kv heads, past, size].
Status CheckPast(const InferArgs& args, size_t i, const std::vector<Dim>& now) {
  if (!args.has(i)) return {};
  EVOQ_TRY(CheckRank(args, i, 4));
  const Shape& past = args.inputs[i].shape;
  if (!past.ranked()) return {};
  for (int d : {0, 1, 3}) EVOQ_TRY(CheckEqual(past[d], now[d], "the past and the present"));
  return {};
}

Status CheckAttributes(const InferArgs& args) {
  for (const char* name : {"left_window_size", "right_window_size"}) {
    EVOQ_ASSIGN(const int64_t window, IntAttr(args.node, name, -1));
    if (window < -1) return InvalidInput("attribute {} is {}, expected -1 or more", name, window);
  }
  EVOQ_ASSIGN(const int64_t mode, IntAttr(args.node, "qk_matmul_output_mode", 0));
  if (mode < 0 || mode > 3)
    return InvalidInput("attribute qk_matmul_output_mode is {}, expected 0 to 3", mode);
  EVOQ_TRY(IntAttr(args.node, "is_causal", 0));
  EVOQ_TRY(FloatAttr(args.node, "scale", 0));
  EVOQ_TRY(FloatAttr(args.node, "softcap", 0));
  if (args.has(kPastKey) != args.has(kPastValue))
    return InvalidInput("one of past_key and past_value is missing");
  if (args.has(kPastKey) && args.has(kLengths))
    return InvalidInput("nonpad_kv_seqlen beside a past, expected one of them");
  return {};
}

// Keys or values that are int8 have scales, which are one for each block of a row; others have
// none.
Status CheckScales(const InferArgs& args, size_t i, size_t scales) {
  if (!args.has(scales)) return CheckFloat(args, i);
  EVOQ_TRY(CheckDType(args, i, std::array{DType::kInt8}));
  EVOQ_TRY(CheckDType(args, scales, std::array{DType::kFloat16}));
  for (size_t input : {i, scales}) EVOQ_TRY(CheckRank(args, input, 4));
  if (args.has(kPastKey)) return InvalidInput("input {} beside a past", scales);
  EVOQ_ASSIGN(const int64_t block, IntAttr(args.node, kCacheBlockSize, kCacheBlock));
  if (block < 1) return InvalidInput("attribute cache_block_size is {}, expected 1 or more", block);
  const Shape &values = args.inputs[i].shape, &shape = args.inputs[scales].shape;
  if (!values.ranked() || !shape.ranked()) return {};
  for (int d : {0, 1, 2}) EVOQ_TRY(CheckEqual(values[d], shape[d], "int8 rows and their scales"));
  const Dim blocks = values[3].known() ? Dim(CeilDiv(values[3].value, block)) : Dim();
  return CheckEqual(blocks, shape[3], "blocks of a row and their scales");
}

InferResult Infer(const InferArgs& args) {
  for (size_t i : {kQ, kPastKey, kPastValue}) EVOQ_TRY(CheckFloat(args, i));
  EVOQ_TRY(CheckScales(args, kK, kKeyScale));
  EVOQ_TRY(CheckScales(args, kV, kValueScale));
  EVOQ_TRY(CheckAttributes(args));
  EVOQ_TRY(CheckFloat(args, kSinks));
  EVOQ_TRY(CheckRank(args, kSinks, 1));
  EVOQ_TRY(CheckDType(args, kLengths, std::array{DType::kInt64, DType::kInt32}));
  // Keys and values may be float16 or int8 beside float32 queries: a cache that is stored narrower.
  const DType dtype = args.inputs[kQ].dtype, k_dtype = args.inputs[kK].dtype,
              v_dtype = args.inputs[kV].dtype;
  const auto unknown = [](DType d) { return TensorType(d, Shape::UnknownRank()); };
  for (size_t i : {kQ, kK, kV}) {
    if (!args.inputs[i].shape.ranked())
      return std::vector<TensorType>{unknown(dtype), unknown(k_dtype), unknown(v_dtype),
                                     unknown(dtype)};
  }
  EVOQ_ASSIGN(const auto q, HeadsOf(args, kQ, "q_num_heads"));
  EVOQ_ASSIGN(const auto k, HeadsOf(args, kK, "kv_num_heads"));
  EVOQ_ASSIGN(const auto v, HeadsOf(args, kV, "kv_num_heads"));
  EVOQ_TRY(CheckEqual(q[0], k[0], "batches of queries and keys"));
  EVOQ_TRY(CheckEqual(q[3], k[3], "sizes of queries and keys"));
  for (int d : {0, 1, 2}) EVOQ_TRY(CheckEqual(k[d], v[d], "keys and values"));
  if (q[1].known() && k[1].known() && (k[1].value == 0 || q[1].value % k[1].value != 0))
    return InvalidInput("{} query heads and {} key heads, expected a multiple", q[1].value,
                        k[1].value);
  if (args.has(kSinks) && args.inputs[kSinks].shape.ranked())
    EVOQ_TRY(CheckEqual(args.inputs[kSinks].shape[0], q[1], "sinks and query heads"));
  EVOQ_TRY(CheckPast(args, kPastKey, k));
  EVOQ_TRY(CheckPast(args, kPastValue, v));
  Dim total = k[2];
  if (args.has(kPastKey))
    total =
        args.inputs[kPastKey].shape.ranked() ? SumOf(args.inputs[kPastKey].shape[2], k[2]) : Dim();
  const Shape y = args.inputs[kQ].shape.rank() == 4
                      ? Shape(std::vector<Dim>{q[0], q[1], q[2], v[3]})
                      : Shape(std::vector<Dim>{q[0], q[2], Product(q[1], v[3])});
  return std::vector<TensorType>{
      TensorType(dtype, y), TensorType(k_dtype, Shape(std::vector<Dim>{k[0], k[1], total, k[3]})),
      TensorType(v_dtype, Shape(std::vector<Dim>{v[0], v[1], total, v[3]})),
      TensorType(dtype, Shape(std::vector<Dim>{q[0], q[1], q[2], total}))};
}

// ---- evaluation

int64_t Macs(const Node&, std::span<const TensorType> inputs, std::span<const TensorType> outputs) {
  if (outputs.empty() || outputs[0].shape.rank() < 3) return 0;
  const int64_t queries = inputs[kQ].shape.elements().value_or(0),
                out = outputs[0].shape.elements().value_or(0);
  const Shape& k = inputs[kK].shape;
  int64_t keys = k[k.rank() - 2].value;
  if (inputs.size() > kPastKey && inputs[kPastKey].dtype != DType::kUndefined)
    keys += inputs[kPastKey].shape[2].value;
  return CheckedMul(queries + out, keys).value_or(0);
}

}  // namespace

extern const OpDef kAttention = {.name = "Attention",
                                 .min_inputs = 3,
                                 .max_inputs = 10,
                                 .outputs = 4,
                                 .infer = Infer,
                                 .macs = Macs,
                                 .indices = kLengths};

}  // namespace evoq
