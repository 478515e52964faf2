// TensorScatter(cache, update, write_indices?): moves bytes. Where the output is the cache's own
// memory, only the update's rows are written; else the cache is copied first.
#include "kernels/move/move_call.h"

namespace evoq {
namespace {

// Rows of the batch and the axes before `axis`; places along it; bytes behind it.
struct Scatter {
  int64_t batch = 0, rows = 1, size = 0, length = 0, bytes = 0;
  bool circular = false;
};

Result<Scatter> ScatterOf(const KernelCall& call) {
  const Shape &cache = call.inputs[0].shape, &update = call.inputs[1].shape;
  EVOQ_ASSIGN(const int axis, NormalizeAxis(call.attrs.Int("axis", -2), cache.rank()));
  if (axis == 0) return InvalidInput("attribute axis is 0, the batch");
  Scatter s;
  s.circular = call.attrs.String("mode", "linear") == "circular";
  s.batch = cache[0].value;
  s.size = cache[axis].value;
  s.bytes = ElementBytes(call.inputs[0].dtype);
  if (update.rank() != cache.rank())
    return InvalidInput("an update of {} for a cache of {}", update.ToString(), cache.ToString());
  s.length = update[axis].value;
  for (int d = 0; d < cache.rank(); ++d) {
    if (d != axis && update[d] != cache[d])
      return InvalidInput("an update of {} for a cache of {}", update.ToString(), cache.ToString());
    if (d != axis) (d < axis ? s.rows : s.bytes) *= cache[d].value;
  }
  if (s.length > s.size)
    return InvalidInput("an update of {} for a cache of {}", update.ToString(), cache.ToString());
  return s;
}

std::optional<Reason> RejectScatter(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  for (size_t i : {0, 1}) {
    if (auto reason = RejectUnlessSame(call, i)) return reason;
  }
  if (call.inputs[0].shape != call.outputs[0].shape)
    return Reject("shape", "{} -> {}", call.inputs[0].shape.ToString(),
                  call.outputs[0].shape.ToString());
  const auto scatter = ScatterOf(call);
  if (!scatter) return Reject("shape", "{}", scatter.error().message());
  if (!call.has_input(2)) return std::nullopt;
  const TensorType& at = call.inputs[2];
  if (at.dtype != DType::kInt64 && at.dtype != DType::kInt32)
    return Reject("types", "input 2 is {}, expected int32 or int64", at.ToString());
  if (ElementsOf(at) != scatter->batch)
    return Reject("shape", "{} write indices for a batch of {}", ElementsOf(at), scatter->batch);
  return std::nullopt;
}

struct ScatterState {
  Scatter s;
  bool placed, wide;
  int64_t copy_grain, grain;

  int64_t StartOf(const void* starts, int64_t item) const {
    if (!placed) return 0;
    return wide ? static_cast<const int64_t*>(starts)[item]
                : static_cast<const int32_t*>(starts)[item];
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto *cache = static_cast<const std::byte*>(in[0]),
               *update = static_cast<const std::byte*>(in[1]);
    auto* const y = static_cast<std::byte*>(out[0]);
    const int64_t row = s.size * s.bytes;
    const auto write = [&](int64_t r) {
      const int64_t start = StartOf(placed ? in[2] : nullptr, r / (s.rows / s.batch)),
                    first = std::min(s.length, s.size - start);  // up to the end
      const std::byte* const from = update + r * s.length * s.bytes;
      if (first > 0) CopyRun(y + r * row + start * s.bytes, from, first * s.bytes);
      const int64_t again = (start + first) % s.size;  // of circular: the rest
      if (first < s.length)
        CopyRun(y + r * row + again * s.bytes, from + first * s.bytes,
                (s.length - first) * s.bytes);
    };
    const bool in_place = cache == y;
    context.pool.ParallelFor(s.rows, in_place ? grain : copy_grain,
                             [&](int64_t begin, int64_t end) {
                               if (!in_place)
                                 std::memcpy(y + begin * row, cache + begin * row,
                                             static_cast<size_t>((end - begin) * row));
                               for (int64_t r = begin; r < end; ++r) write(r);
                             });
  }
};

Result<BoundKernel> BindScatter(const KernelCall& call, const BindOptions& options) {
  ScatterState state;
  EVOQ_ASSIGN(state.s, ScatterOf(call));
  state.placed = call.has_input(2);
  state.wide = state.placed && call.inputs[2].dtype == DType::kInt64;
  const Scatter& s = state.s;
  state.grain = Grain(s.rows, CopyNs(s.length * s.bytes), options.threads);
  state.copy_grain = Grain(s.rows, CopyNs((s.size + s.length) * s.bytes), options.threads);
  return BoundKernel::Of(state);
}

uint32_t InPlace(const KernelCall&) { return 1; }

}  // namespace

extern const KernelDef kTensorScatterKernel = {
    .name = "tensor_scatter",
    .op = "TensorScatter",
    .precision = Precision::kAny,
    .peak = Peak::kMemory,
    .reject = RejectScatter,
    .bind = BindScatter,
    .in_place = InPlace,
};

}  // namespace evoq
