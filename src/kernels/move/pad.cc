// Pad(x, pads, value?, axes?): modes constant, edge, reflect and wrap; negative counts crop.
#include "kernels/move/move_call.h"
#include "kernels/requant.h"

namespace evoq {
namespace {

struct Pads {
  std::vector<int64_t> before, after;
};

Result<Pads> PadsOf(const KernelCall& call) {
  const int rank = call.inputs[0].shape.rank();
  const auto values = ConstantInts(call, 1);
  if (!values) return Unsupported("the pads are computed at run time");
  std::vector<int64_t> axes;
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  if (call.has_input(3)) {
    const auto named = ConstantInts(call, 3);
    if (!named) return Unsupported("the axes are computed at run time");
    axes = *named;
  }
  if (values->size() != 2 * axes.size()) return InvalidInput("{} pads for {} axes", values->size(), axes.size());
  Pads pads{std::vector<int64_t>(static_cast<size_t>(rank), 0), std::vector<int64_t>(static_cast<size_t>(rank), 0)};
  for (size_t i = 0; i < axes.size(); ++i) {
    EVOQ_ASSIGN(const int axis, NormalizeAxis(axes[i], rank));
    pads.before[axis] = (*values)[i];
    pads.after[axis] = (*values)[i + axes.size()];
  }
  return pads;
}

// The element of an axis of `size` that position i (x at [0, size)) shows; -1 for the fill value.
int64_t SourceIndex(int64_t i, int64_t size, const std::string& mode) {
  if (i >= 0 && i < size) return i;
  if (mode == "edge") return i < 0 ? 0 : size - 1;
  if (mode == "wrap") return (i % size + size) % size;
  if (mode != "reflect") return -1;
  if (size == 1) return 0;
  const int64_t period = 2 * (size - 1), m = (i % period + period) % period;
  return m < size ? m : period - m;
}

std::optional<Rejection> RejectPad(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (auto rejection = RejectUnlessSame(call, 0)) return rejection;
  const auto pads = PadsOf(call);
  if (!pads) return Reject("not-constant", "{}", pads.error().message());
  const Shape &x = call.inputs[0].shape, &y = call.outputs[0].shape;
  const std::string mode = call.attrs.String("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap") return Reject("attribute", "mode {}", mode);
  for (int i = 0; i < x.rank(); ++i) {
    constexpr int64_t kLimit = int64_t{1} << 40;
    if (std::abs(pads->before[i]) > kLimit || std::abs(pads->after[i]) > kLimit ||
        y[i].value != x[i].value + pads->before[i] + pads->after[i] || (x[i].value == 0 && mode != "constant")) {
      return Reject("shape", "{} -> {} with pads {} and {} on axis {}", x.ToString(), y.ToString(), pads->before[i], pads->after[i], i);
    }
  }
  if (call.has_input(2)) {
    if (ElementsOf(call.inputs[2]) != 1) return Reject("shape", "the value is {}", call.inputs[2].ToString());
    if (call.inputs[0].quantized() && call.constant(2) == nullptr) return Reject("not-constant", "the value is computed at run time");
    if (!call.inputs[0].quantized() && call.inputs[2].dtype != call.inputs[0].dtype) {
      return Reject("types", "the value is {}, the input {}", call.inputs[2].ToString(), call.inputs[0].ToString());
    }
  }
  return std::nullopt;
}

// Axes up to the last padded one are walked; what lies below it moves in blocks.
struct PadState {
  std::vector<std::vector<int64_t>> sources;  // per walked axis: the source index of each position
  std::vector<int64_t> strides;               // of x, per walked axis, in bytes
  int64_t element = 1, block = 1;             // bytes
  int64_t middle_begin = 0, middle_end = 0;   // positions of the last walked axis that are x itself
  int64_t rows = 1, grain = 1;
  std::array<std::byte, 8> fill{};
  bool fill_input = false;

  void Fill(std::byte* y, int64_t bytes, const std::byte* value) const {
    for (int64_t i = 0; i < bytes; i += element) std::memcpy(y + i, value, static_cast<size_t>(element));
  }

  void Row(const std::byte* x, std::byte* y, const std::byte* value, int64_t row) const {
    const std::vector<int64_t>& last = sources.back();
    const int64_t n = static_cast<int64_t>(last.size());
    int64_t rest = row, at = 0;
    bool outside = false;
    for (size_t i = sources.size() - 1; i-- > 0;) {
      const int64_t size = static_cast<int64_t>(sources[i].size()), from = sources[i][rest % size];
      outside = outside || from < 0;
      at += from * strides[i];
      rest /= size;
    }
    y += row * n * block;
    if (outside) return Fill(y, n * block, value);
    for (int64_t p = 0; p < n; ++p) {
      if (p == middle_begin && middle_end > middle_begin) {
        std::memcpy(y + p * block, x + at + last[p] * block, static_cast<size_t>((middle_end - middle_begin) * block));
        p = middle_end - 1;
      } else if (last[p] < 0) {
        Fill(y + p * block, block, value);
      } else {
        std::memcpy(y + p * block, x + at + last[p] * block, static_cast<size_t>(block));
      }
    }
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const std::byte* value = fill_input ? static_cast<const std::byte*>(in[2]) : fill.data();
    context.pool.ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        Row(static_cast<const std::byte*>(in[0]), static_cast<std::byte*>(out[0]), value, row);
      }
    });
  }
};

Result<BoundKernel> BindPad(const KernelCall& call, const BindOptions& options) {
  EVOQ_ASSIGN(const Pads pads, PadsOf(call));
  const TensorType& x = call.inputs[0];
  const auto in = x.shape.sizes(), out = call.outputs[0].shape.sizes(), strides = RowMajorStrides(in);
  const std::string mode = call.attrs.String("mode", "constant");
  PadState state;
  state.element = state.block = ElementBytes(x.dtype);
  size_t last = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    if (pads.before[i] != 0 || pads.after[i] != 0) last = i;
  }
  for (size_t i = last + 1; i < in.size(); ++i) state.block *= in[i];
  for (size_t i = 0; i <= last && i < in.size(); ++i) {
    std::vector<int64_t> sources;
    for (int64_t p = 0; p < out[i]; ++p) sources.push_back(SourceIndex(p - pads.before[i], in[i], mode));
    state.sources.push_back(std::move(sources));
    state.strides.push_back(strides[i] * state.element);
    if (i < last) state.rows *= out[i];
  }
  if (in.empty()) state.sources = {{0}}, state.strides = {state.element};
  const int64_t begin = in.empty() ? 0 : pads.before[last], size = in.empty() ? 1 : in[last];
  const int64_t n = static_cast<int64_t>(state.sources.back().size());
  state.middle_begin = std::clamp<int64_t>(begin, 0, n);
  state.middle_end = std::clamp<int64_t>(begin + size, 0, n);
  if (x.quantized()) {
    float value = 0;
    if (call.has_input(2)) {
      EVOQ_ASSIGN(const Tensor real, ToFloat32(*call.constant(2)));
      value = real.data<float>()[0];
    }
    const auto low = static_cast<int32_t>(std::max<int64_t>(IntegerMin(x.dtype), INT32_MIN));
    const auto high = static_cast<int32_t>(std::min<int64_t>(IntegerMax(x.dtype), INT32_MAX));
    const int32_t q = QuantizeValue(value, ScaleOf(x), ZeroOf(x), low, high);
    std::memcpy(state.fill.data(), &q, std::min<size_t>(4, static_cast<size_t>(state.element)));
  } else {
    state.fill_input = call.has_input(2);
  }
  if (n == 0 || state.block == 0) state.rows = 0;
  state.grain = Grain(state.rows, 10 + CopyNs(n * state.block), options.threads);
  return BoundKernel::Of(std::move(state));
}

}  // namespace

extern const KernelDef kPadKernel = {"pad", "Pad", "any", Peak::kMemory, RejectPad, nullptr, BindPad};

}  // namespace evoq
