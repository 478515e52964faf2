// Slice, Expand, Tile, Split, DepthToSpace, SpaceToDepth, and the copies of operators that only
// change the shape.
#include "kernels/move/move_call.h"
#include "kernels/move/strided.h"

namespace evoq {
namespace {

std::optional<Reason> RejectCommon(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  return RejectUnlessSame(call, 0);
}

// ---- Slice(x, starts, ends, axes?, steps?)

Result<StridedView> SliceOf(const KernelCall& call) {
  const Shape& x = call.inputs[0].shape;
  std::vector<int64_t> values[5];
  for (size_t i = 1; i < 5; ++i) {
    if (!call.has_input(i)) continue;
    const auto ints = ConstantInts(call, i);
    if (!ints) return Unsupported("input {} is computed at run time", i);
    values[i] = *ints;
  }
  const auto &starts = values[1], &ends = values[2];
  StridedView view{x.sizes(), RowMajorStrides(x.sizes()), 0};
  for (size_t i = 0; i < starts.size(); ++i) {
    const bool fits = ends.size() == starts.size() &&
                      (!call.has_input(3) || values[3].size() == starts.size()) &&
                      (!call.has_input(4) || values[4].size() == starts.size());
    if (!fits) return InvalidInput("starts, ends, axes and steps of different lengths");
    EVOQ_ASSIGN(
        const int axis,
        NormalizeAxis(call.has_input(3) ? values[3][i] : static_cast<int64_t>(i), x.rank()));
    const int64_t size = x[axis].value, limit = std::max<int64_t>(size, 1);
    const int64_t step = std::clamp(call.has_input(4) ? values[4][i] : 1, -limit, limit);
    if (step == 0) return InvalidInput("step 0");
    int64_t start = starts[i] < 0 ? starts[i] + size : starts[i],
            end = ends[i] < 0 ? ends[i] + size : ends[i];
    start = std::clamp<int64_t>(start, 0, step > 0 ? size : std::max<int64_t>(size - 1, 0));
    end = std::clamp<int64_t>(end, step > 0 ? 0 : -1, step > 0 ? size : size - 1);
    const int64_t count = size == 0  ? 0
                          : step > 0 ? CeilDiv(end - start, step)
                                     : CeilDiv(start - end, -step);
    view.offset += start * view.strides[axis];
    view.sizes[axis] = std::max<int64_t>(count, 0);
    view.strides[axis] *= step;
  }
  return view;
}

std::optional<Reason> RejectSlice(const KernelCall& call) {
  if (auto rejection = RejectCommon(call)) return rejection;
  const auto view = SliceOf(call);
  if (!view) return Reject("not-constant", "{}", view.error().message());
  if (view->sizes != call.outputs[0].shape.sizes()) {
    return Reject("shape", "{} -> {}", call.inputs[0].shape.ToString(),
                  call.outputs[0].shape.ToString());
  }
  return std::nullopt;
}

Result<BoundKernel> BindSlice(const KernelCall& call, const BindOptions& options) {
  EVOQ_ASSIGN(StridedView view, SliceOf(call));
  return BindStrided(std::move(view), ElementBytes(call.inputs[0].dtype), options);
}

// ---- Expand(x, shape), Tile(x, repeats): their output shapes say it all

std::optional<Reason> RejectExpand(const KernelCall& call) {
  if (auto rejection = RejectCommon(call)) return rejection;
  const Shape &x = call.inputs[0].shape, &y = call.outputs[0].shape;
  for (int i = 0; i < x.rank(); ++i) {
    const int at = y.rank() - x.rank() + i;
    if (at < 0 || (x[i] != y[at] && x[i].value != 1))
      return Reject("shape", "{} -> {}", x.ToString(), y.ToString());
  }
  return std::nullopt;
}

Result<BoundKernel> BindExpand(const KernelCall& call, const BindOptions& options) {
  const Shape &x = call.inputs[0].shape, &y = call.outputs[0].shape;
  const auto own = RowMajorStrides(x.sizes());
  StridedView view{y.sizes(), std::vector<int64_t>(static_cast<size_t>(y.rank()), 0), 0};
  for (int i = 0; i < x.rank(); ++i) {
    if (x[i].value != 1) view.strides[y.rank() - x.rank() + i] = own[i];
  }
  return BindStrided(std::move(view), ElementBytes(call.inputs[0].dtype), options);
}

std::optional<Reason> RejectTile(const KernelCall& call) {
  if (auto rejection = RejectCommon(call)) return rejection;
  const Shape &x = call.inputs[0].shape, &y = call.outputs[0].shape;
  if (x.rank() != y.rank()) return Reject("shape", "{} -> {}", x.ToString(), y.ToString());
  for (int i = 0; i < x.rank(); ++i) {
    const bool fits = x[i].value == 0 ? y[i].value == 0 : y[i].value % x[i].value == 0;
    if (!fits) return Reject("shape", "{} -> {}", x.ToString(), y.ToString());
  }
  return std::nullopt;
}

// Each axis is (repeats, size): the repeats stand still in x.
Result<BoundKernel> BindTile(const KernelCall& call, const BindOptions& options) {
  const auto x = call.inputs[0].shape.sizes(), y = call.outputs[0].shape.sizes(),
             strides = RowMajorStrides(x);
  StridedView view;
  for (size_t i = 0; i < x.size(); ++i) {
    view.sizes.insert(view.sizes.end(), {x[i] == 0 ? 0 : y[i] / x[i], x[i]});
    view.strides.insert(view.strides.end(), {0, strides[i]});
  }
  return BindStrided(std::move(view), ElementBytes(call.inputs[0].dtype), options);
}

// ---- Split(x, sizes?): the outputs' shapes say where

std::optional<Reason> RejectSplit(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  const TensorType& x = call.inputs[0];
  const auto axis = NormalizeAxis(call.attrs.Int("axis", 0), x.shape.rank());
  if (!axis) return Reject("attribute", "{}", axis.error().message());
  if (call.has_input(1) && call.constant(1) == nullptr)
    return Reject("not-constant", "the sizes are computed at run time");
  int64_t along = 0;
  for (const TensorType& y : call.outputs) {
    TensorType as_x = y;
    as_x.shape = x.shape;
    if (ElementBytes(x.dtype) == 0 || !(as_x == x) || (x.quantized() && !x.quant->per_tensor())) {
      return Reject("types", "an output is {}, the input {}", y.ToString(), x.ToString());
    }
    if (y.shape.rank() != x.shape.rank()) return Reject("shape", "an output is {}", y.ToString());
    along += y.shape[*axis].value;
  }
  if (along != x.shape[*axis].value)
    return Reject("shape", "outputs of {} along the axis of {}", along, x.ToString());
  return std::nullopt;
}

struct SplitState {
  int64_t rows, row_bytes, grain;
  std::vector<int64_t> bytes;  // of a row of each output

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    context.pool.ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const auto* from = static_cast<const std::byte*>(in[0]) + row * row_bytes;
        for (size_t i = 0; i < bytes.size(); ++i) {
          if (bytes[i] > 0)
            std::memcpy(static_cast<std::byte*>(out[i]) + row * bytes[i], from,
                        static_cast<size_t>(bytes[i]));
          from += bytes[i];
        }
      }
    });
  }
};

Result<BoundKernel> BindSplit(const KernelCall& call, const BindOptions& options) {
  const TensorType& x = call.inputs[0];
  EVOQ_ASSIGN(const int axis, NormalizeAxis(call.attrs.Int("axis", 0), x.shape.rank()));
  SplitState state{1, 0, 1, {}};
  for (int i = 0; i < axis; ++i) state.rows *= x.shape[i].value;
  for (const TensorType& y : call.outputs) {
    state.bytes.push_back(state.rows == 0 ? 0 : *y.bytes() / state.rows);
    state.row_bytes += state.bytes.back();
  }
  state.grain = Grain(state.rows, CopyNs(state.row_bytes), options.threads);
  return BoundKernel::Of(std::move(state));
}

}  // namespace

// ---- DepthToSpace, SpaceToDepth

Rearrangement RearrangementOf(const KernelCall& call) {
  const auto s = call.inputs[0].shape.sizes();
  const int64_t b = call.attrs.Int("blocksize");
  const bool last = call.attrs.Int("channels_last") == 1,
             crd = call.attrs.String("mode", "DCR") == "CRD";
  if (call.op == "SpaceToDepth") {
    if (last)
      return {
          {s[0], s[1] / b, b, s[2] / b, b, s[3]},
          crd ? std::vector<int64_t>{0, 1, 3, 5, 2, 4} : std::vector<int64_t>{0, 1, 3, 2, 4, 5}};
    return {{s[0], s[1], s[2] / b, b, s[3] / b, b},
            crd ? std::vector<int64_t>{0, 1, 3, 5, 2, 4} : std::vector<int64_t>{0, 3, 5, 1, 2, 4}};
  }
  const int64_t c = s[last ? 3 : 1] / (b * b);
  if (last && crd) return {{s[0], s[1], s[2], c, b, b}, {0, 1, 4, 2, 5, 3}};
  if (last) return {{s[0], s[1], s[2], b, b, c}, {0, 1, 3, 2, 4, 5}};
  if (crd) return {{s[0], c, b, b, s[2], s[3]}, {0, 1, 4, 2, 5, 3}};
  return {{s[0], b, b, c, s[2], s[3]}, {0, 3, 4, 1, 5, 2}};
}

namespace {

std::optional<Reason> RejectBlocks(const KernelCall& call) {
  if (auto rejection = RejectCommon(call)) return rejection;
  const Shape& x = call.inputs[0].shape;
  const int64_t b = call.attrs.Int("blocksize");
  if (x.rank() != 4 || b < 1 || b > 32768)
    return Reject("attribute", "blocksize {} on {}", b, x.ToString());
  const bool last = call.attrs.Int("channels_last") == 1;
  const bool fits = call.op == "SpaceToDepth"
                        ? x[last ? 1 : 2].value % b == 0 && x[last ? 2 : 3].value % b == 0
                        : x[last ? 3 : 1].value % (b * b) == 0;
  if (!fits || ElementsOf(call.inputs[0]) != ElementsOf(call.outputs[0])) {
    return Reject("shape", "blocksize {}: {} -> {}", b, x.ToString(),
                  call.outputs[0].shape.ToString());
  }
  return std::nullopt;
}

Result<BoundKernel> BindBlocks(const KernelCall& call, const BindOptions& options) {
  const Rearrangement r = RearrangementOf(call);
  return BindPermutation(r.split, r.perm, ElementBytes(call.inputs[0].dtype), options);
}

// ---- Reshape and the like

std::optional<Reason> RejectCopy(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  const TensorType &x = call.inputs[0], &y = call.outputs[0];
  TensorType as_y = x;
  as_y.shape = y.shape;
  if (!(as_y == y) || (x.quantized() && !x.quant->per_tensor() && x.shape != y.shape)) {
    return Reject("types", "{} -> {}: a copy keeps the type", x.ToString(), y.ToString());
  }
  if (ElementsOf(x) != ElementsOf(y))
    return Reject("shape", "{} -> {}", x.shape.ToString(), y.shape.ToString());
  return std::nullopt;
}

struct CopyState {
  int64_t bytes, grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    if (in[0] == out[0]) return;
    context.pool.ParallelFor(bytes, grain, [&](int64_t begin, int64_t end) {
      std::memcpy(static_cast<std::byte*>(out[0]) + begin,
                  static_cast<const std::byte*>(in[0]) + begin, static_cast<size_t>(end - begin));
    });
  }
};

Result<BoundKernel> BindCopy(const KernelCall& call, const BindOptions& options) {
  const int64_t bytes = *call.inputs[0].bytes();
  return BoundKernel::Of(CopyState{bytes, Grain(bytes, 0.03, options.threads)});
}

}  // namespace

#define EVOQ_MOVE(symbol, kernel_name, op_name, reject_call, bind_call) \
  extern const KernelDef symbol = {                                     \
      .name = kernel_name,                                              \
      .op = op_name,                                                    \
      .precision = Precision::kAny,                                     \
      .peak = Peak::kMemory,                                            \
      .reject = reject_call,                                            \
      .bind = bind_call,                                                \
  };
EVOQ_MOVE(kSliceKernel, "slice", "Slice", RejectSlice, BindSlice)
EVOQ_MOVE(kExpandKernel, "expand", "Expand", RejectExpand, BindExpand)
EVOQ_MOVE(kTileKernel, "tile", "Tile", RejectTile, BindTile)
EVOQ_MOVE(kSplitKernel, "split", "Split", RejectSplit, BindSplit)
EVOQ_MOVE(kDepthToSpaceKernel, "depth_to_space", "DepthToSpace", RejectBlocks, BindBlocks)
EVOQ_MOVE(kSpaceToDepthKernel, "space_to_depth", "SpaceToDepth", RejectBlocks, BindBlocks)
EVOQ_MOVE(kCopyReshapeKernel, "copy_reshape", "Reshape", RejectCopy, BindCopy)
EVOQ_MOVE(kCopyFlattenKernel, "copy_flatten", "Flatten", RejectCopy, BindCopy)
EVOQ_MOVE(kCopySqueezeKernel, "copy_squeeze", "Squeeze", RejectCopy, BindCopy)
EVOQ_MOVE(kCopyUnsqueezeKernel, "copy_unsqueeze", "Unsqueeze", RejectCopy, BindCopy)
EVOQ_MOVE(kCopyIdentityKernel, "copy_identity", "Identity", RejectCopy, BindCopy)
#undef EVOQ_MOVE

}  // namespace evoq
