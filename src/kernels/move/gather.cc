// Gather(x, indices): y[outer, j, inner] = x[outer, indices[j], inner]. Negative indices count from
// the end. A kernel cannot fail: the executor refuses a run with an index outside [-size, size)
// (runtime/guard.h), and here it is clamped into x.
#include "kernels/move/move.h"
#include "kernels/move/move_call.h"

namespace evoq {
namespace {

std::optional<Reason> RejectGather(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (auto rejection = RejectUnlessSame(call, 0)) return rejection;
  const TensorType &x = call.inputs[0], &indices = call.inputs[1];
  if (indices.dtype != DType::kInt64 && indices.dtype != DType::kInt32) {
    return Reject("types", "indices are {}, expected int64 or int32", indices.ToString());
  }
  const auto axis = NormalizeAxis(call.attrs.Int("axis", 0), x.shape.rank());
  if (!axis) return Reject("attribute", "{}", axis.error().message());
  const int64_t size = x.shape[*axis].value;
  int64_t expected = ElementsOf(indices);
  for (int i = 0; i < x.shape.rank(); ++i) expected *= i == *axis ? 1 : x.shape[i].value;
  if (expected != ElementsOf(call.outputs[0]) || (size == 0 && expected > 0)) {
    return Reject("shape", "{} at {} -> {}", x.ToString(), indices.ToString(),
                  call.outputs[0].ToString());
  }
  if (const auto values = ConstantInts(call, 1)) {
    for (int64_t v : *values) {
      if (v < -size || v >= size) return Reject("shape", "index {} into an axis of {}", v, size);
    }
  }
  return std::nullopt;
}

struct GatherState {
  int64_t outer = 1, size = 1, count = 1, block = 1, grain = 1;  // block in bytes
  bool wide = true;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto* x = static_cast<const std::byte*>(in[0]);
    auto* y = static_cast<std::byte*>(out[0]);
    context.pool.ParallelFor(outer * count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t j = i % count;
        int64_t index =
            wide ? static_cast<const int64_t*>(in[1])[j] : static_cast<const int32_t*>(in[1])[j];
        index = std::clamp<int64_t>(index < 0 ? index + size : index, 0, size - 1);
        CopyRun(y + i * block, x + (i / count * size + index) * block, block);
      }
    });
  }
};

// Single elements whose places are known: rows of x are permuted.
struct PickState {
  Isa isa;
  std::vector<int32_t> from;
  int64_t rows = 1, x_columns = 1, grain = 1;
  int element = 1;  // bytes

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto columns = static_cast<int64_t>(from.size());
    context.pool.ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
      MoveTableFor(isa).pick(static_cast<const std::byte*>(in[0]) + begin * x_columns * element,
                             static_cast<std::byte*>(out[0]) + begin * columns * element,
                             end - begin, columns, x_columns, from.data(), element);
    });
  }
};

bool IsPick(const GatherState& gather) {
  const bool element =
      gather.block == 1 || gather.block == 2 || gather.block == 4 || gather.block == 8;
  return element && gather.outer > 1 && gather.size <= INT32_MAX;
}

constexpr int64_t kLongRow = 128;  // elements: what a permutation of bytes takes at once

BoundKernel BindPick(const GatherState& gather, std::vector<int64_t> indices,
                     const BindOptions& options) {
  PickState state;
  state.isa = options.isa;
  // Several short rows are one.
  int64_t together = std::min(std::max<int64_t>(kLongRow / gather.size, 1), gather.outer);
  while (gather.outer % together != 0) --together;
  for (int64_t row = 0; row < together; ++row) {
    for (int64_t index : indices)
      state.from.push_back(
          static_cast<int32_t>(row * gather.size + (index < 0 ? index + gather.size : index)));
  }
  state.rows = gather.outer / together;
  state.x_columns = gather.size * together;
  state.element = static_cast<int>(gather.block);
  state.grain =
      Grain(state.rows, 2 + 0.3 * static_cast<double>(state.from.size()), options.threads);
  return BoundKernel::Of(std::move(state));
}

Result<BoundKernel> BindGather(const KernelCall& call, const BindOptions& options) {
  const Shape& x = call.inputs[0].shape;
  EVOQ_ASSIGN(const int axis, NormalizeAxis(call.attrs.Int("axis", 0), x.rank()));
  GatherState state;
  for (int i = 0; i < x.rank(); ++i)
    (i < axis ? state.outer : i == axis ? state.size : state.block) *= x[i].value;
  state.block *= ElementBytes(call.inputs[0].dtype);
  state.count = ElementsOf(call.inputs[1]);
  state.wide = call.inputs[1].dtype == DType::kInt64;
  if (state.block == 0) state.outer = 0;
  if (auto indices = ConstantInts(call, 1); indices && IsPick(state))
    return BindPick(state, *std::move(indices), options);
  state.grain = Grain(state.outer * state.count, 5 + CopyNs(state.block), options.threads);
  return BoundKernel::Of(state);
}

}  // namespace

extern const KernelDef kGatherKernel = {
    .name = "gather",
    .op = "Gather",
    .precision = Precision::kAny,
    .peak = Peak::kMemory,
    .reject = RejectGather,
    .bind = BindGather,
};

}  // namespace evoq
