#include "kernels/attention/attention_call.h"

#include <cmath>

namespace evoq {
namespace {

bool Given(const KernelCall& call, size_t output) {
  return output < call.outputs.size() && call.outputs[output].dtype != DType::kUndefined;
}

std::optional<Reason> RejectTypes(const KernelCall& call) {
  if (!PlainFloat(call.inputs[kQ]) || !PlainFloat(call.outputs[0]))
    return Reject("types", "{} -> {}, expected float32", call.inputs[kQ].ToString(),
                  call.outputs[0].ToString());
  for (size_t i : {kK, kV, kPastKey, kPastValue}) {
    if (!call.has_input(i)) continue;
    const TensorType& type = call.inputs[i];
    const bool past = i == kPastKey || i == kPastValue;
    const DType wanted = past ? call.inputs[i - kPastKey + kK].dtype : type.dtype;
    const bool scaled = !past && call.has_input(i - kK + kKeyScale);
    const bool known = scaled ? type.dtype == DType::kInt8
                              : type.dtype == DType::kFloat32 || type.dtype == DType::kFloat16;
    if (!known || type.quantized() || type.dtype != wanted)
      return Reject("types", "input {} is {}, expected {}", i, type.ToString(),
                    past     ? DTypeName(wanted)
                    : scaled ? "int8, for it has scales"
                             : "float32 or float16");
  }
  if (call.has_input(kMask) && call.inputs[kMask].dtype != DType::kBool &&
      !PlainFloat(call.inputs[kMask]))
    return Reject("types", "input {} is {}, expected bool or float32", size_t{kMask},
                  call.inputs[kMask].ToString());
  if (call.has_input(kSinks) && !PlainFloat(call.inputs[kSinks]))
    return Reject("types", "input {} is {}, expected float32", size_t{kSinks},
                  call.inputs[kSinks].ToString());
  if (Given(call, 3)) return Reject("attribute", "output 3 (scores) is read");
  for (size_t i : {1, 2}) {
    if (Given(call, i) && call.outputs[i].dtype != call.inputs[i].dtype)
      return Reject("types", "output {} is {}, input {} {}", i, call.outputs[i].ToString(), i,
                    call.inputs[i].ToString());
  }
  return std::nullopt;
}

// A mask of rank 1 to 4, aligned at the right with [batch, heads, queries, keys].
std::optional<Reason> ReadMask(const KernelCall& call, AttentionCall& read) {
  read.has_mask = call.has_input(kMask);
  if (!read.has_mask) return std::nullopt;
  const std::vector<int64_t> sizes = call.inputs[kMask].shape.sizes(),
                             full = {read.q.batch, read.q.heads, read.q.length, read.keys()};
  const auto misfit = [&] {
    return Reject("shape", "a mask of {} for scores of {}", call.inputs[kMask].shape.ToString(),
                  Shape(full).ToString());
  };
  if (sizes.empty() || sizes.size() > 4 || sizes.back() > read.keys()) return misfit();
  const std::vector<int64_t> strides = RowMajorStrides(sizes);
  const size_t lead = 4 - sizes.size();
  for (size_t d = 0; d + 1 < sizes.size(); ++d) {
    if (sizes[d] != full[lead + d] && sizes[d] != 1) return misfit();
    read.mask_strides[lead + d] = sizes[d] == 1 ? 0 : strides[d];
  }
  read.bools = call.inputs[kMask].dtype == DType::kBool;
  read.mask_keys = sizes.back();
  return std::nullopt;
}

std::optional<Reason> ReadCache(const KernelCall& call, size_t now, size_t past,
                                AttentionCache& cache) {
  const auto heads = HeadsOf(call.inputs[now], call.attrs.Int("kv_num_heads"));
  if (!heads) return Reject("shape", "input {} is {}", now, call.inputs[now].ToString());
  cache.now = *heads;
  cache.dtype = call.inputs[now].dtype;
  if (const size_t scales = now - kK + kKeyScale; call.has_input(scales)) {
    cache.block = call.attrs.Int(kCacheBlockSize, kCacheBlock);
    const Shape &shape = call.inputs[scales].shape, &rows = call.inputs[now].shape;
    const auto misfit = [&] {
      return Reject("shape", "scales {} of {} in blocks of {}", shape.ToString(), rows.ToString(),
                    cache.block);
    };
    if (heads->flat || call.has_input(past) || cache.block < 1) return misfit();
    if (shape != Shape{heads->batch, heads->heads, heads->length, cache.blocks()}) return misfit();
    if (call.inputs[scales].dtype != DType::kFloat16)
      return Reject("types", "input {} is {}, expected float16", scales,
                    call.inputs[scales].ToString());
  }
  if (!call.has_input(past)) return std::nullopt;
  const auto before = HeadsOf(call.inputs[past], 0);
  if (!before || before->batch != heads->batch || before->heads != heads->heads ||
      before->size != heads->size)
    return Reject("shape", "input {} is {} before {}", past, call.inputs[past].ToString(),
                  call.inputs[now].ToString());
  cache.past = *before;
  return std::nullopt;
}

std::optional<Reason> ReadHeads(const KernelCall& call, AttentionCall& read) {
  const auto q = HeadsOf(call.inputs[kQ], call.attrs.Int("q_num_heads"));
  if (!q) return Reject("shape", "input 0 is {}", call.inputs[kQ].ToString());
  read.q = *q;
  if (auto reason = ReadCache(call, kK, kPastKey, read.k)) return reason;
  if (auto reason = ReadCache(call, kV, kPastValue, read.v)) return reason;
  const Heads &k = read.k.now, &v = read.v.now;
  const bool fits = k.batch == q->batch && v.batch == q->batch && k.size == q->size &&
                    k.heads == v.heads && k.heads > 0 && q->heads % k.heads == 0 &&
                    k.length == v.length && read.k.past.length == read.v.past.length;
  if (!fits)
    return Reject("shape", "queries {}, keys {}, values {}", call.inputs[kQ].ToString(),
                  call.inputs[kK].ToString(), call.inputs[kV].ToString());
  read.has_sinks = call.has_input(kSinks);
  if (read.has_sinks && call.inputs[kSinks].shape != Shape{q->heads})
    return Reject("shape", "sinks {} of {} heads", call.inputs[kSinks].ToString(), q->heads);
  read.group = q->heads / k.heads;
  read.y = *q;
  read.y.size = v.size;
  const Shape expected = q->flat ? Shape{q->batch, q->length, q->heads * v.size}
                                 : Shape{q->batch, q->heads, q->length, v.size};
  if (call.outputs[0].shape != expected)
    return Reject("shape", "output {}, expected {}", call.outputs[0].shape.ToString(),
                  expected.ToString());
  for (size_t i : {1, 2}) {
    AttentionCache& cache = i == 1 ? read.k : read.v;
    cache.present = Given(call, i);
    if (!cache.present) continue;
    const Heads& now = cache.now;
    const Shape present{now.batch, now.heads, cache.length(), now.size};
    if (call.outputs[i].shape != present)
      return Reject("shape", "output {} is {}, expected {}", i, call.outputs[i].shape.ToString(),
                    present.ToString());
  }
  return std::nullopt;
}

}  // namespace

std::optional<Reason> ReadAttention(const KernelCall& call, AttentionCall& read) {
  if (auto reason = RejectTypes(call)) return reason;
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (auto reason = ReadHeads(call, read)) return reason;
  if (auto reason = ReadMask(call, read)) return reason;
  const float given = call.attrs.Float("scale", 0);
  read.scale = given != 0 ? given : 1 / std::sqrt(static_cast<float>(read.q.size));
  read.softcap = call.attrs.Float("softcap", 0);
  read.causal = call.attrs.Int("is_causal") != 0;
  // A window of more than all places is none.
  const int64_t most = read.keys() + read.q.length;
  const auto window = [&](const char* name) {
    const int64_t size = call.attrs.Int(name, -1);
    return size < 0 || size > most ? int64_t{-1} : size;
  };
  read.left = window("left_window_size");
  read.right = window("right_window_size");
  read.has_lengths = call.has_input(kLengths);
  if (!read.has_lengths) return std::nullopt;
  const TensorType& lengths = call.inputs[kLengths];
  if (lengths.dtype != DType::kInt64 && lengths.dtype != DType::kInt32)
    return Reject("types", "input {} is {}, expected int32 or int64", size_t{kLengths},
                  lengths.ToString());
  if (ElementsOf(lengths) != read.q.batch || read.past() > 0)
    return Reject("shape", "{} lengths for a batch of {} with a past of {}", ElementsOf(lengths),
                  read.q.batch, read.past());
  read.wide_lengths = lengths.dtype == DType::kInt64;
  return std::nullopt;
}

}  // namespace evoq
