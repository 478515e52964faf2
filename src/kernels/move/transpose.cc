// Transpose by any permutation. Neighbouring axes that stay together merge first; what remains is
// copies of runs when the last axis stays last, else 2-D transposes of the planes of input's and
// output's last axes.
#include "kernels/move/move.h"
#include "kernels/move/move_call.h"
#include "kernels/quantize/quantize.h"

namespace evoq {
namespace {

struct Merged {
  std::vector<int64_t> sizes;    // of y
  std::vector<int64_t> strides;  // of x, per axis of y
};

std::optional<std::vector<int64_t>> PermOf(const KernelCall& call) {
  const int rank = call.inputs[0].shape.rank();
  std::vector<int64_t> reversed;
  for (int i = rank - 1; i >= 0; --i) reversed.push_back(i);
  const auto perm = call.attrs.Ints("perm", reversed);
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  if (static_cast<int>(perm.size()) != rank) return std::nullopt;
  for (int64_t p : perm) {
    if (p < 0 || p >= rank || seen[static_cast<size_t>(p)]) return std::nullopt;
    seen[static_cast<size_t>(p)] = true;
  }
  return perm;
}

Merged Merge(const std::vector<int64_t>& sizes, const std::vector<int64_t>& perm) {
  const auto strides = RowMajorStrides(sizes);
  Merged merged;
  for (int64_t p : perm) {
    if (sizes[p] == 1) continue;
    if (!merged.sizes.empty() && merged.strides.back() == sizes[p] * strides[p]) {
      merged.sizes.back() *= sizes[p];
      merged.strides.back() = strides[p];
    } else {
      merged.sizes.push_back(sizes[p]);
      merged.strides.push_back(strides[p]);
    }
  }
  if (merged.sizes.empty()) return {{1}, {1}};
  return merged;
}

std::optional<Reason> RejectPermutation(const KernelCall& call) {
  const auto perm = PermOf(call);
  if (!perm)
    return Reject("attribute", "perm does not permute {} axes", call.inputs[0].shape.rank());
  for (size_t i = 0; i < perm->size(); ++i) {
    if (call.outputs[0].shape[static_cast<int>(i)] !=
        call.inputs[0].shape[static_cast<int>((*perm)[i])]) {
      return Reject("shape", "{} -> {}", call.inputs[0].shape.ToString(),
                    call.outputs[0].shape.ToString());
    }
  }
  return std::nullopt;
}

std::optional<Reason> RejectTranspose(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (auto rejection = RejectUnlessSame(call, 0)) return rejection;
  return RejectPermutation(call);
}

std::optional<Reason> RejectDequantizing(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (!QuantizedByte(call.inputs[0]) || !PlainFloat(call.outputs[0])) {
    return Reject("types", "{} -> {}, expected bytes with one scale and float32",
                  call.inputs[0].ToString(), call.outputs[0].ToString());
  }
  return RejectPermutation(call);
}

// Runs of y's last axis, which is x's last axis too.
struct RunsState {
  Merged merged;
  int64_t element, rows, grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const int64_t last = static_cast<int64_t>(merged.sizes.size()) - 1;
    const int64_t run = merged.sizes[last] * element;
    // The two axes before the last one are walked without a division.
    const auto size = [&](int64_t axis) { return axis >= 0 ? merged.sizes[axis] : 1; };
    const auto step = [&](int64_t axis) { return axis >= 0 ? merged.strides[axis] * element : 0; };
    const int64_t middle = size(last - 2), beside = size(last - 1), middle_step = step(last - 2),
                  beside_step = step(last - 1);
    context.pool.ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
      auto* y = static_cast<std::byte*>(out[0]) + begin * run;
      while (begin < end) {
        int64_t j = begin % beside, i = begin / beside % middle, rest = begin / beside / middle;
        const auto* from = static_cast<const std::byte*>(in[0]) + i * middle_step;
        for (int64_t axis = last - 3; axis >= 0; --axis) {
          from += rest % merged.sizes[axis] * step(axis);
          rest /= merged.sizes[axis];
        }
        for (; i < middle && begin < end; ++i, from += middle_step, j = 0) {
          const int64_t n = std::min(end - begin, beside - j);
          const std::byte* x = from + j * beside_step;
          for (int64_t k = 0; k < n; ++k, x += beside_step, y += run) CopyRun(y, x, run);
          begin += n;
        }
      }
    });
  }
};

// Planes of x's last axis (axis `inner` of y) and y's last axis; bands of either cut large planes
// for threads.
struct PlanesState {
  static constexpr int64_t kBand = 256, kRowBand = 4096;  // elements of x's and of y's last axis
  std::vector<int64_t> outer_sizes, outer_x, outer_y;
  int64_t rows, x_stride;     // y's last axis: its size, its stride in x
  int64_t columns, y_stride;  // x's last axis: its size, its stride in y
  int64_t planes, bands, row_bands, grain;
  int element;
  Isa isa;
  std::optional<ByteScale> real;  // y is float32

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto* x = static_cast<const std::byte*>(in[0]);
    auto* y = static_cast<std::byte*>(out[0]);
    const MoveTable& table = MoveTableFor(isa);
    context.pool.ParallelFor(planes * bands * row_bands, grain, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t row = task % row_bands * kRowBand, first = task / row_bands % bands * kBand;
        int64_t rest = task / row_bands / bands, from = row * x_stride + first,
                to = row + first * y_stride;
        for (int64_t i = static_cast<int64_t>(outer_sizes.size()) - 1; i >= 0; --i) {
          from += rest % outer_sizes[i] * outer_x[i];
          to += rest % outer_sizes[i] * outer_y[i];
          rest /= outer_sizes[i];
        }
        const int64_t m = std::min(kRowBand, rows - row), n = std::min(kBand, columns - first);
        if (real) {
          table.dequantize(*real, static_cast<const uint8_t*>(in[0]) + from,
                           static_cast<float*>(out[0]) + to, m, n, x_stride, y_stride);
        } else {
          table.transpose(x + from * element, y + to * element, m, n, x_stride, y_stride, element);
        }
      }
    });
  }
};

int64_t Elements(const std::vector<int64_t>& sizes) {
  int64_t elements = 1;
  for (int64_t size : sizes) elements *= size;
  return elements;
}

// Nothing where y's last axis is x's, or nothing moves.
std::optional<PlanesState> PlanesOf(const std::vector<int64_t>& sizes,
                                    const std::vector<int64_t>& perm, int64_t element,
                                    const BindOptions& options) {
  const int64_t elements = Elements(sizes);
  const Merged merged = Merge(sizes, perm);
  const int64_t last = static_cast<int64_t>(merged.sizes.size()) - 1;
  if (elements == 0 || merged.strides[last] == 1) return std::nullopt;
  PlanesState state;
  const auto y_strides = RowMajorStrides(merged.sizes);
  state.rows = merged.sizes[last];
  state.x_stride = merged.strides[last];
  for (int64_t i = 0; i < last; ++i) {
    if (merged.strides[i] == 1) {
      state.columns = merged.sizes[i];
      state.y_stride = y_strides[i];
    } else {
      state.outer_sizes.push_back(merged.sizes[i]);
      state.outer_x.push_back(merged.strides[i]);
      state.outer_y.push_back(y_strides[i]);
    }
  }
  state.planes = elements / (state.rows * state.columns);
  state.bands = CeilDiv(state.columns, PlanesState::kBand);
  state.row_bands = CeilDiv(state.rows, PlanesState::kRowBand);
  state.element = static_cast<int>(element);
  state.isa = options.isa;
  const double task_ns = static_cast<double>(std::min(state.rows, PlanesState::kRowBand) *
                                             std::min(state.columns, PlanesState::kBand)) *
                         0.4;
  state.grain = Grain(state.planes * state.bands * state.row_bands, task_ns, options.threads);
  return state;
}

}  // namespace

BoundKernel BindPermutation(const std::vector<int64_t>& sizes, const std::vector<int64_t>& perm,
                            int64_t element, const BindOptions& options) {
  if (auto planes = PlanesOf(sizes, perm, element, options))
    return BoundKernel::Of(std::move(*planes), 0, {.method = "planes"});
  const Merged merged = Merge(sizes, perm);
  const int64_t elements = Elements(sizes),
                rows = elements == 0 ? 0 : elements / merged.sizes.back();
  const double row_ns = 5 + CopyNs(merged.sizes.back() * element);
  return BoundKernel::Of(RunsState{merged, element, rows, Grain(rows, row_ns, options.threads)}, 0,
                         {.method = "runs"});
}

namespace {

// Where runs move, they move first; the one thing left is element-wise.
struct RunsThenReal {
  BoundKernel runs;
  ByteScale by;
  Isa isa;
  int64_t elements, grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    void* moved[] = {context.scratch};
    runs.run(runs.state.get(), in, moved, context);
    const auto* q = reinterpret_cast<const uint8_t*>(context.scratch);
    const IntegerKind kind = by.is_signed ? IntegerKind::kInt8 : IntegerKind::kUint8;
    context.pool.ParallelFor(elements, grain, [&](int64_t begin, int64_t end) {
      QuantizeTableFor(isa).dequantize(q + begin, kind, static_cast<float*>(out[0]) + begin,
                                       end - begin, by.scale, by.zero);
    });
  }
};

Result<BoundKernel> BindDequantizing(const KernelCall& call, const BindOptions& options) {
  const TensorType& x = call.inputs[0];
  const std::vector<int64_t> sizes = x.shape.sizes(), perm = *PermOf(call);
  const ByteScale by{ScaleOf(x), ZeroOf(x), x.dtype == DType::kInt8};
  if (auto planes = PlanesOf(sizes, perm, 1, options)) {
    planes->real = by;
    return BoundKernel::Of(std::move(*planes), 0, {.method = "planes"});
  }
  const int64_t elements = Elements(sizes);
  return BoundKernel::Of(RunsThenReal{BindPermutation(sizes, perm, 1, options), by, options.isa,
                                      elements, Grain(elements, 0.1, options.threads)},
                         static_cast<size_t>(elements), {.method = "runs"});
}

Result<BoundKernel> BindTranspose(const KernelCall& call, const BindOptions& options) {
  const TensorType& x = call.inputs[0];
  return BindPermutation(x.shape.sizes(), *PermOf(call), ElementBytes(x.dtype), options);
}

}  // namespace

extern const KernelDef kTransposeKernel = {
    .name = "transpose",
    .op = "Transpose",
    .precision = Precision::kAny,
    .peak = Peak::kMemory,
    .reject = RejectTranspose,
    .bind = BindTranspose,
};
extern const KernelDef kDequantizeTransposeKernel = {
    .name = "dequantize_transpose",
    .op = "DequantizeTranspose",
    .precision = Precision::kInt8,
    .peak = Peak::kMemory,
    .reject = RejectDequantizing,
    .bind = BindDequantizing,
};

}  // namespace evoq
