// GatherND(x, indices) whose tuples have one index: y[batch, i] = x[batch, indices[batch, i, 0]],
// whole blocks. Negative indices count from the end. A kernel cannot fail: the executor refuses a
// run with an index outside [-size, size) (runtime/guard.h), and here it is clamped into x.
#include "kernels/move/move.h"
#include "kernels/move/move_call.h"

namespace evoq {
namespace {

std::optional<Reason> RejectGatherNd(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (auto rejection = RejectUnlessSame(call, 0)) return rejection;
  const TensorType &x = call.inputs[0], &indices = call.inputs[1];
  if (indices.dtype != DType::kInt64 && indices.dtype != DType::kInt32)
    return Reject("types", "indices are {}, expected int64 or int32", indices.ToString());
  const int64_t batch = call.attrs.Int("batch_dims", 0);
  const int rank = indices.shape.rank();
  if (rank == 0 || batch < 0 || batch >= rank || batch >= x.shape.rank())
    return Reject("attribute", "batch_dims {} of {} and indices {}", batch, x.ToString(),
                  indices.ToString());
  if (indices.shape[rank - 1].value != 1)
    return Reject("shape", "tuples of {} indices, expected 1", indices.shape[rank - 1].value);
  int64_t expected = ElementsOf(indices);
  for (int i = 0; i < x.shape.rank(); ++i) {
    if (i < batch && x.shape[i].value != indices.shape[i].value)
      return Reject("shape", "{} at {}", x.ToString(), indices.ToString());
    if (i > batch) expected *= x.shape[i].value;
  }
  if (expected != ElementsOf(call.outputs[0]) ||
      (x.shape[static_cast<int>(batch)].value == 0 && expected > 0))
    return Reject("shape", "{} at {} -> {}", x.ToString(), indices.ToString(),
                  call.outputs[0].ToString());
  return std::nullopt;
}

struct GatherNdState {
  int64_t batches = 1, size = 1, count = 0, block = 1, grain = 1;  // block in bytes
  bool wide = true;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto* x = static_cast<const std::byte*>(in[0]);
    auto* y = static_cast<std::byte*>(out[0]);
    context.pool.ParallelFor(batches * count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t given =
            wide ? static_cast<const int64_t*>(in[1])[i] : static_cast<const int32_t*>(in[1])[i];
        const int64_t index = std::clamp<int64_t>(given < 0 ? given + size : given, 0, size - 1);
        CopyRun(y + i * block, x + (i / count * size + index) * block, block);
      }
    });
  }
};

Result<BoundKernel> BindGatherNd(const KernelCall& call, const BindOptions& options) {
  const Shape& x = call.inputs[0].shape;
  const auto batch = static_cast<int>(call.attrs.Int("batch_dims", 0));
  GatherNdState state;
  for (int i = 0; i < x.rank(); ++i)
    (i < batch ? state.batches : i == batch ? state.size : state.block) *= x[i].value;
  state.block *= ElementBytes(call.inputs[0].dtype);
  const bool empty = ElementsOf(call.outputs[0]) == 0;
  state.count = empty ? 0 : ElementsOf(call.inputs[1]) / state.batches;
  state.wide = call.inputs[1].dtype == DType::kInt64;
  state.grain = Grain(state.batches * state.count, 5 + CopyNs(state.block), options.threads);
  return BoundKernel::Of(state);
}

}  // namespace

extern const KernelDef kGatherNdKernel = {
    .name = "gather_nd",
    .op = "GatherND",
    .precision = Precision::kAny,
    .peak = Peak::kMemory,
    .reject = RejectGatherNd,
    .bind = BindGatherNd,
};

}  // namespace evoq
