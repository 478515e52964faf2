// ScatterND(x, indices, updates): y is x, but that blocks of its last axes, which tuples of indices
// of its first ones name, are those of updates, or joined with them by `reduction`, in order:
//   y[i0, .., ik] = join(y[i0, .., ik], updates[row]), (i0, .., ik) = indices[row]
// Negative indices count from the end. A kernel cannot fail: tuples that are constant are looked at
// when it is bound, for those of one index the executor refuses a run with one outside [-size,
// size) (runtime/guard.h), and here it is clamped into x.
#include <algorithm>

#include "kernels/move/joins.h"
#include "kernels/move/move_call.h"

namespace evoq {
namespace {

// One block of `count` floats.
using JoinBlock = void (*)(float* y, const float* x, int64_t count);
struct BlockJoins {
  template <typename Join>
  static JoinBlock Of() {
    return [](float* y, const float* x, int64_t count) {
      for (int64_t k = 0; k < count; ++k) y[k] = Join()(y[k], x[k]);
    };
  }
};

struct ScatterSizes {
  int64_t depth = 1, rows = 1, block = 1;  // indices of a tuple, tuples, elements
  std::vector<int64_t> axes;               // those that tuples name
};

ScatterSizes SizesOf(const KernelCall& call) {
  const Shape &x = call.inputs[0].shape, &indices = call.inputs[1].shape;
  ScatterSizes s;
  s.depth = indices[indices.rank() - 1].value;
  for (int i = 0; i + 1 < indices.rank(); ++i) s.rows *= indices[i].value;
  for (int i = 0; i < x.rank(); ++i) {
    if (i < s.depth) s.axes.push_back(x[i].value);
    if (i >= s.depth) s.block *= x[i].value;
  }
  return s;
}

// The block that each constant tuple names; nothing where one is outside.
std::optional<std::vector<int64_t>> BlocksOf(const ScatterSizes& s,
                                             const std::vector<int64_t>& indices) {
  std::vector<int64_t> blocks;
  for (int64_t row = 0; row < s.rows; ++row) {
    int64_t at = 0;
    for (size_t k = 0; k < s.axes.size(); ++k) {
      const int64_t given = indices[static_cast<size_t>(row) * s.axes.size() + k],
                    index = given < 0 ? given + s.axes[k] : given;
      if (index < 0 || index >= s.axes[k]) return std::nullopt;
      at = at * s.axes[k] + index;
    }
    blocks.push_back(at);
  }
  return blocks;
}

std::optional<Reason> RejectScatterNd(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  for (size_t i : {0, 2}) {
    if (auto rejection = RejectUnlessSame(call, i)) return rejection;
  }
  const TensorType &x = call.inputs[0], &indices = call.inputs[1], &updates = call.inputs[2];
  if (indices.dtype != DType::kInt64 && indices.dtype != DType::kInt32)
    return Reject("types", "indices are {}, expected int64 or int32", indices.ToString());
  const int rank = indices.shape.rank();
  const int64_t depth = rank == 0 ? 0 : indices.shape[rank - 1].value;
  if (depth < 1 || depth > x.shape.rank() || call.outputs[0].shape != x.shape ||
      ElementsOf(updates) != SizesOf(call).rows * SizesOf(call).block)
    return Reject("shape", "{} at {} from {}", x.ToString(), indices.ToString(),
                  updates.ToString());
  const auto constant = ConstantInts(call, 1);
  if (constant && !BlocksOf(SizesOf(call), *constant))
    return Reject("shape", "an index is outside {}", x.ToString());
  if (!constant && (depth > 1 || (x.shape[0].value == 0 && ElementsOf(indices) > 0)))
    return Reject("not-constant", "tuples of {} indices are computed at run time", depth);
  const std::string reduction = call.attrs.String("reduction", "none");
  if (reduction != "none" && (!PlainFloat(x) || JoinNamed<BlockJoins>(reduction) == nullptr))
    return Reject("attribute", "reduction {} of {}", reduction, x.ToString());
  return std::nullopt;
}

struct ScatterNdState {
  ScatterSizes sizes;
  std::vector<int64_t> blocks;  // of constant tuples
  int64_t element = 1, copied = 0;
  JoinBlock join = nullptr;
  bool constant = false, wide = true;

  int64_t BlockAt(const void* indices, int64_t row) const {
    if (constant) return blocks[static_cast<size_t>(row)];
    const int64_t size = sizes.axes[0], given = wide ? static_cast<const int64_t*>(indices)[row]
                                                     : static_cast<const int32_t*>(indices)[row];
    return std::clamp<int64_t>(given < 0 ? given + size : given, 0, size - 1);
  }

  // Tuples may name a block twice, so one thread takes them all, in order.
  void Run(const void* const* in, void* const* out, const RunContext&) const {
    if (in[0] != out[0] && copied > 0) std::memcpy(out[0], in[0], static_cast<size_t>(copied));
    const auto* updates = static_cast<const std::byte*>(in[2]);
    auto* y = static_cast<std::byte*>(out[0]);
    const int64_t bytes = sizes.block * element;
    for (int64_t row = 0; row < sizes.rows; ++row) {
      std::byte* const to = y + BlockAt(in[1], row) * bytes;
      const std::byte* const from = updates + row * bytes;
      if (join == nullptr) {
        CopyRun(to, from, bytes);
      } else {
        join(reinterpret_cast<float*>(to), reinterpret_cast<const float*>(from), sizes.block);
      }
    }
  }
};

Result<BoundKernel> BindScatterNd(const KernelCall& call, const BindOptions&) {
  ScatterNdState state{.sizes = SizesOf(call)};
  state.element = ElementBytes(call.inputs[0].dtype);
  state.copied = ElementsOf(call.inputs[0]) * state.element;
  state.wide = call.inputs[1].dtype == DType::kInt64;
  state.join = JoinNamed<BlockJoins>(call.attrs.String("reduction", "none"));
  if (const auto indices = ConstantInts(call, 1)) {
    auto blocks = BlocksOf(state.sizes, *indices);
    if (!blocks) return InvalidInput("an index is outside {}", call.inputs[0].ToString());
    state.blocks = std::move(*blocks);
    state.constant = true;
  }
  return BoundKernel::Of(std::move(state));
}

uint32_t InPlace(const KernelCall&) { return 1; }

}  // namespace

extern const KernelDef kScatterNdKernel = {
    .name = "scatter_nd",
    .op = "ScatterND",
    .precision = Precision::kAny,
    .peak = Peak::kMemory,
    .reject = RejectScatterNd,
    .bind = BindScatterNd,
    .in_place = InPlace,
};

}  // namespace evoq
