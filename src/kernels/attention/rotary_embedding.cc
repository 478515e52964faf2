// RotaryEmbedding(x, cos_cache, sin_cache, position_ids?) in float32: the definition's operations,
// so its bits. Without position_ids the caches have a row for each token.
#include "kernels/attention/attention.h"
#include "kernels/attention/heads.h"
#include "kernels/in_place.h"
#include "kernels/parallel.h"

namespace evoq {
namespace {

struct Rotation {
  Heads heads;
  int64_t half = 0;
};

Rotation RotationOf(const KernelCall& call, const Heads& heads) {
  const int64_t asked = call.attrs.Int("rotary_embedding_dim");
  return {heads, (asked == 0 ? heads.size : asked) / 2};
}

std::optional<Reason> RejectRotary(const KernelCall& call) {
  for (size_t i : {0, 1, 2}) {
    if (!call.has_input(i) || !PlainFloat(call.inputs[i]))
      return Reject("types", "input {} is {}, expected float32", i,
                    call.has_input(i) ? call.inputs[i].ToString() : "missing");
  }
  if (!PlainFloat(call.outputs[0]))
    return Reject("types", "output is {}, expected float32", call.outputs[0].ToString());
  const bool placed = call.has_input(3);
  if (placed && call.inputs[3].dtype != DType::kInt64 && call.inputs[3].dtype != DType::kInt32)
    return Reject("types", "input 3 is {}, expected int32 or int64", call.inputs[3].ToString());
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  const TensorType& x = call.inputs[0];
  const auto heads = HeadsOf(x, call.attrs.Int("num_heads"));
  if (!heads || x.shape != call.outputs[0].shape)
    return Reject("shape", "{} -> {} with {} heads", x.shape.ToString(),
                  call.outputs[0].shape.ToString(), call.attrs.Int("num_heads"));
  const auto [rows, half] = RotationOf(call, *heads);
  if (half < 1 || 2 * half > heads->size)
    return Reject("attribute", "{} turned values of heads of {}", 2 * half, heads->size);
  const Shape &cosines = call.inputs[1].shape, &sines = call.inputs[2].shape;
  const int64_t tokens = heads->batch * heads->length;
  if (cosines != sines || cosines.rank() != (placed ? 2 : 3) ||
      cosines[cosines.rank() - 1].value != half ||
      (!placed && ElementsOf(call.inputs[1]) < tokens * half))
    return Reject("shape", "caches of {} and {}, expected {} values for each place",
                  cosines.ToString(), sines.ToString(), half);
  if (placed && ElementsOf(call.inputs[3]) != tokens)
    return Reject("shape", "{} positions for {} tokens", ElementsOf(call.inputs[3]), tokens);
  return std::nullopt;
}

struct RotaryState {
  Rotation rotation;
  bool interleaved, placed, wide;
  Isa isa;
  int64_t grain;

  int64_t PlaceOf(const void* places, int64_t token) const {
    if (!placed) return token;
    return wide ? static_cast<const int64_t*>(places)[token]
                : static_cast<const int32_t*>(places)[token];
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto *x = static_cast<const float*>(in[0]), *cosines = static_cast<const float*>(in[1]),
               *sines = static_cast<const float*>(in[2]);
    auto* const y = static_cast<float*>(out[0]);
    const auto [h, half] = rotation;
    const auto rotate = AttentionTableFor(isa).rotate;
    context.pool.ParallelFor(
        h.batch * h.length, grain, [&, h = h, half = half](int64_t begin, int64_t end) {
          for (int64_t token = begin; token < end; ++token) {
            const int64_t row = PlaceOf(placed ? in[3] : nullptr, token) * half;
            for (int64_t head = 0; head < h.heads; ++head) {
              const int64_t at = h.At(token / h.length, head, token % h.length);
              rotate(x + at, cosines + row, sines + row, y + at, half, interleaved);
              if (x != y) std::copy(x + at + 2 * half, x + at + h.size, y + at + 2 * half);
            }
          }
        });
  }
};

Result<BoundKernel> BindRotary(const KernelCall& call, const BindOptions& options) {
  RotaryState state;
  state.rotation = RotationOf(call, *HeadsOf(call.inputs[0], call.attrs.Int("num_heads")));
  state.interleaved = call.attrs.Int("interleaved") != 0;
  state.placed = call.has_input(3);
  state.wide = state.placed && call.inputs[3].dtype == DType::kInt64;
  state.isa = options.isa;
  const Heads& h = state.rotation.heads;
  state.grain =
      Grain(h.batch * h.length, static_cast<double>(h.heads * h.size) * 0.2 + 5, options.threads);
  return BoundKernel::Of(state);
}

// A pair is written after it was read; the caches are other memory.
uint32_t InPlace(const KernelCall&) { return 1; }

}  // namespace

extern const KernelDef kRotaryEmbeddingFloat = {
    .name = "rotary_embedding_f32",
    .op = "RotaryEmbedding",
    .precision = Precision::kFloat32,
    .peak = Peak::kMemory,
    .reject = RejectRotary,
    .bind = BindRotary,
    .in_place = InPlace,
};

}  // namespace evoq
