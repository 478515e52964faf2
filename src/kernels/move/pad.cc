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
  if (values->size() != 2 * axes.size())
    return InvalidInput("{} pads for {} axes", values->size(), axes.size());
  Pads pads{std::vector<int64_t>(static_cast<size_t>(rank), 0),
            std::vector<int64_t>(static_cast<size_t>(rank), 0)};
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

std::optional<Reason> RejectPad(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (auto rejection = RejectUnlessSame(call, 0)) return rejection;
  // What is rounded to more bits overflows on the way (requant.h).
  if (call.inputs[0].quantized() && DTypeBits(call.inputs[0].dtype) > 16)
    return Reject("types", "the input is {}", call.inputs[0].ToString());
  const auto pads = PadsOf(call);
  if (!pads) return Reject("not-constant", "{}", pads.error().message());
  const Shape &x = call.inputs[0].shape, &y = call.outputs[0].shape;
  const std::string mode = call.attrs.String("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap")
    return Reject("attribute", "mode {}", mode);
  for (int i = 0; i < x.rank(); ++i) {
    constexpr int64_t kLimit = int64_t{1} << 40;
    if (std::abs(pads->before[i]) > kLimit || std::abs(pads->after[i]) > kLimit ||
        y[i].value != x[i].value + pads->before[i] + pads->after[i] ||
        (x[i].value == 0 && mode != "constant")) {
      return Reject("shape", "{} -> {} with pads {} and {} on axis {}", x.ToString(), y.ToString(),
                    pads->before[i], pads->after[i], i);
    }
  }
  if (call.has_input(2)) {
    if (ElementsOf(call.inputs[2]) != 1)
      return Reject("shape", "the value is {}", call.inputs[2].ToString());
    if (call.inputs[0].quantized() && call.constant(2) == nullptr)
      return Reject("not-constant", "the value is computed at run time");
    if (!call.inputs[0].quantized() && call.inputs[2].dtype != call.inputs[0].dtype) {
      return Reject("types", "the value is {}, the input {}", call.inputs[2].ToString(),
                    call.inputs[0].ToString());
    }
  }
  return std::nullopt;
}

// A run of bytes of a row: of x from `from`, or of the fill value where that is -1.
struct Piece {
  int64_t to, from, bytes;
};

struct Axis {
  int64_t size = 0, stride = 0;  // of y; of x, in bytes
  std::vector<int64_t> sources;  // the source index of each position; empty: the position itself
};

// Axes up to the last padded one are walked, neighbours that are not padded as one; what lies below
// moves in blocks.
struct PadState {
  static constexpr size_t kPattern = 64;

  std::vector<Axis> outer;    // the walked axes but the last
  std::vector<Piece> pieces;  // of the last one
  int64_t element = 1;        // bytes
  int64_t row_bytes = 0;      // of y
  int64_t rows = 1, grain = 1;
  std::array<std::byte, 8> fill{};
  bool fill_input = false;

  static void Fill(std::byte* y, int64_t bytes, const std::byte* pattern) {
    constexpr auto kBytes = static_cast<int64_t>(kPattern);
    for (; bytes > kBytes; y += kBytes, bytes -= kBytes) std::memcpy(y, pattern, kPattern);
    CopyRun(y, pattern, bytes);
  }

  void Row(const std::byte* x, std::byte* y, const std::byte* pattern, int64_t row) const {
    int64_t rest = row, at = 0;
    bool outside = false;
    for (size_t i = outer.size(); i-- > 0;) {
      const Axis& axis = outer[i];
      const int64_t p = i == 0 ? rest : rest % axis.size,
                    from = axis.sources.empty() ? p : axis.sources[p];
      outside = outside || from < 0;
      at += from * axis.stride;
      rest /= axis.size;
    }
    y += row * row_bytes;
    if (outside) return Fill(y, row_bytes, pattern);
    for (const Piece& piece : pieces) {
      if (piece.from < 0) {
        Fill(y + piece.to, piece.bytes, pattern);
      } else {
        CopyRun(y + piece.to, x + at + piece.from, piece.bytes);
      }
    }
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const std::byte* value = fill_input ? static_cast<const std::byte*>(in[2]) : fill.data();
    std::byte pattern[kPattern];
    for (size_t i = 0; i < kPattern; i += static_cast<size_t>(element))
      std::memcpy(pattern + i, value, static_cast<size_t>(element));
    context.pool.ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        Row(static_cast<const std::byte*>(in[0]), static_cast<std::byte*>(out[0]), pattern, row);
      }
    });
  }
};

// Neighbouring positions whose sources are neighbours, or the fill value, are one piece.
std::vector<Piece> PiecesOf(const std::vector<int64_t>& sources, int64_t block) {
  std::vector<Piece> pieces;
  for (size_t p = 0; p < sources.size(); ++p) {
    const int64_t from = sources[p] < 0 ? -1 : sources[p] * block;
    if (!pieces.empty()) {
      Piece& last = pieces.back();
      if (from < 0 ? last.from < 0 : last.from >= 0 && last.from + last.bytes == from) {
        last.bytes += block;
        continue;
      }
    }
    pieces.push_back({static_cast<int64_t>(p) * block, from, block});
  }
  return pieces;
}

Result<BoundKernel> BindPad(const KernelCall& call, const BindOptions& options) {
  EVOQ_ASSIGN(const Pads pads, PadsOf(call));
  const TensorType& x = call.inputs[0];
  const auto in = x.shape.sizes(), out = call.outputs[0].shape.sizes(),
             strides = RowMajorStrides(in);
  const std::string mode = call.attrs.String("mode", "constant");
  PadState state;
  state.element = ElementBytes(x.dtype);
  int64_t block = state.element;
  const auto padded = [&](size_t i) { return pads.before[i] != 0 || pads.after[i] != 0; };
  size_t last = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    if (padded(i)) last = i;
  }
  for (size_t i = last + 1; i < in.size(); ++i) block *= in[i];
  std::vector<int64_t> row = {0};
  for (size_t i = 0; i <= last && i < in.size(); ++i) {
    std::vector<int64_t> sources;
    for (int64_t p = 0; (i == last || padded(i)) && p < out[i]; ++p)
      sources.push_back(SourceIndex(p - pads.before[i], in[i], mode));
    if (i == last) {
      row = std::move(sources);
      break;
    }
    state.rows *= out[i];
    if (!padded(i) && !state.outer.empty() && state.outer.back().sources.empty()) {
      state.outer.back() = {state.outer.back().size * out[i], strides[i] * state.element, {}};
    } else {
      state.outer.push_back({out[i], strides[i] * state.element, std::move(sources)});
    }
  }
  state.pieces = PiecesOf(row, block);
  state.row_bytes = static_cast<int64_t>(row.size()) * block;
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
  if (state.row_bytes == 0) state.rows = 0;
  state.grain = Grain(state.rows, 10 + CopyNs(state.row_bytes), options.threads);
  return BoundKernel::Of(std::move(state));
}

}  // namespace

extern const KernelDef kPadKernel = {
    .name = "pad",
    .op = "Pad",
    .precision = Precision::kAny,
    .peak = Peak::kMemory,
    .reject = RejectPad,
    .bind = BindPad,
};

}  // namespace evoq
