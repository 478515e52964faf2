#include "kernels/resize/resize.h"

#include <cstring>

#include "kernels/parallel.h"
#include "kernels/quantize/axis.h"
#include "kernels/resize/taps.h"

namespace evoq {
namespace {

std::optional<Reason> RejectPlan(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (auto fits = CheckResize(call); !fits)
    return Reject("attribute", "{}", fits.error().message());
  return std::nullopt;
}

// ---- nearest: elements move; equal types

std::optional<Reason> RejectNearest(const KernelCall& call) {
  const TensorType& x = call.inputs[0];
  TensorType as_y = x;
  as_y.shape = call.outputs[0].shape;
  const int bits = DTypeBits(x.dtype);
  if (!(as_y == call.outputs[0]) || bits % 8 != 0 || (x.quantized() && !x.quant->per_tensor())) {
    return Reject("types", "{} -> {}: nearest keeps the elements", x.ToString(),
                  call.outputs[0].ToString());
  }
  if (call.attrs.String("mode", "nearest") != "nearest")
    return Reject("attribute", "mode {}", call.attrs.String("mode"));
  return RejectPlan(call);
}

// index[o] = o / 2: every element twice.
bool IsDoubling(const AxisTaps& taps) {
  for (int64_t o = 0; o < taps.out; ++o) {
    if (taps.keep || taps.index[o] != o / 2) return false;
  }
  return taps.out == 2 * taps.in;
}

template <typename T>
void PickElements(const void* x, void* y, const std::vector<int64_t>& index) {
  for (size_t o = 0; o < index.size(); ++o)
    static_cast<T*>(y)[o] = static_cast<const T*>(x)[index[o]];
}

// Each of n elements twice, 16 bytes at a time; the last 16 overlap those before. The same `again`
// bytes behind y, unless that is 0.
template <typename T>
void DoubleElements(const std::byte* x, std::byte* y, int64_t n, int64_t again) {
  constexpr int kStep = 16 / sizeof(T);
  typedef T V __attribute__((vector_size(16)));
  const auto step = [&](int64_t i) {
    V v, low, high;
    std::memcpy(&v, x + i * static_cast<int64_t>(sizeof(T)), 16);
    if constexpr (kStep == 4) {
      low = __builtin_shufflevector(v, v, 0, 0, 1, 1),
      high = __builtin_shufflevector(v, v, 2, 2, 3, 3);
    } else {
      low = __builtin_shufflevector(v, v, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
      high =
          __builtin_shufflevector(v, v, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15);
    }
    std::byte* const to = y + 2 * i * static_cast<int64_t>(sizeof(T));
    std::memcpy(to, &low, 16);
    std::memcpy(to + 16, &high, 16);
    std::memcpy(to + again, &low, 16);
    std::memcpy(to + again + 16, &high, 16);
  };
  if (n < kStep) {
    for (int64_t i = 0; i < 2 * n; ++i) {
      const T v = reinterpret_cast<const T*>(x)[i / 2];
      reinterpret_cast<T*>(y)[i] = v, reinterpret_cast<T*>(y + again)[i] = v;
    }
    return;
  }
  for (int64_t i = 0; i + kStep < n; i += kStep) step(i);
  step(n - kStep);
}

struct NearestState {
  ResizePlan plan;
  int64_t pixel, element, grain = 1;             // pixel: bytes of its channels
  bool doubling = false, doubling_rows = false;  // along w of single elements, and along h too

  // To y, and where rows are doubled to `again` bytes behind it.
  void Row(const std::byte* x, std::byte* y, int64_t again = 0) const {
    if (plan.w.keep) {
      std::memcpy(y, x, static_cast<size_t>(plan.w.in * pixel));
    } else if (plan.channels == 1 && element == 1) {
      doubling ? DoubleElements<uint8_t>(x, y, plan.w.in, again)
               : PickElements<uint8_t>(x, y, plan.w.index);
    } else if (plan.channels == 1 && element == 4) {
      doubling ? DoubleElements<uint32_t>(x, y, plan.w.in, again)
               : PickElements<uint32_t>(x, y, plan.w.index);
    } else {
      for (int64_t o = 0; o < plan.w.out; ++o)
        std::memcpy(y + o * pixel, x + plan.w.index[o] * pixel, static_cast<size_t>(pixel));
    }
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const int64_t rows = plan.images * plan.d.out * plan.h.out, x_row = plan.w.in * pixel,
                  y_row = plan.w.out * pixel;
    context.pool.ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
      auto* y = static_cast<std::byte*>(out[0]);
      int64_t previous = -1, oh = begin % plan.h.out, od = begin / plan.h.out % plan.d.out,
              image = begin / plan.h.out / plan.d.out;
      for (int64_t row = begin; row < end; ++row) {
        const int64_t ih = plan.h.keep ? oh : plan.h.index[oh],
                      id = plan.d.keep ? od : plan.d.index[od];
        const int64_t from = (image * plan.d.in + id) * plan.h.in + ih;
        if (doubling_rows && oh % 2 == 0 && row + 1 < end) {
          Row(static_cast<const std::byte*>(in[0]) + from * x_row, y + row * y_row, y_row);
          ++row, ++oh;
        } else if (from == previous) {
          std::memcpy(y + row * y_row, y + (row - 1) * y_row, static_cast<size_t>(y_row));
        } else {
          Row(static_cast<const std::byte*>(in[0]) + from * x_row, y + row * y_row);
        }
        previous = from;
        if (++oh < plan.h.out) continue;
        oh = 0;
        if (++od < plan.d.out) continue;
        od = 0, ++image;
      }
    });
  }
};

Result<BoundKernel> BindNearest(const KernelCall& call, const BindOptions& options) {
  NearestState state;
  EVOQ_ASSIGN(state.plan, PlanResize(call));
  state.element = DTypeBits(call.inputs[0].dtype) / 8;
  state.pixel = state.plan.channels * state.element;
  state.doubling = IsDoubling(state.plan.w);
  state.doubling_rows = state.doubling && state.plan.channels == 1 &&
                        (state.element == 1 || state.element == 4) && IsDoubling(state.plan.h);
  const int64_t rows = state.plan.images * state.plan.d.out * state.plan.h.out;
  if (state.pixel == 0) state.plan.images = 0;
  state.grain = Grain(
      rows, static_cast<double>(state.plan.w.out) * (2 + 0.05 * static_cast<double>(state.pixel)),
      options.threads);
  return BoundKernel::Of(std::move(state));
}

// ---- linear: float32, or uint8 with one scale on either side

std::optional<Reason> RejectLinear(const KernelCall& call) {
  const TensorType &x = call.inputs[0], &y = call.outputs[0];
  if (!(PlainFloat(x) && PlainFloat(y)) && !(QuantizedU8(x) && QuantizedU8(y))) {
    return Reject("types", "{} -> {}, expected float32 or uint8 with one scale", x.ToString(),
                  y.ToString());
  }
  if (call.attrs.String("mode", "nearest") != "linear")
    return Reject("attribute", "mode {}", call.attrs.String("mode", "nearest"));
  return RejectPlan(call);
}

struct LinearState {
  ResizePlan plan;
  bool bytes = false;
  float scale_x = 1;
  Divisor by;
  int32_t zero_x = 0, zero_y = 0;
  Isa isa = Isa::kScalar;
  int64_t pieces = 1;
  std::vector<LineBlock> line;  // along w, of planes

  int64_t row_floats() const { return plan.w.in * plan.channels; }
  // Pixels of an output row that are quantized while they are in the nearest cache.
  int64_t pixels() const {
    if (!line.empty()) return plan.w.out;
    return std::max<int64_t>(1, 1024 / std::max<int64_t>(1, plan.channels));
  }
  // A blended row, `real` and, of bytes, a part of an output row.
  int64_t slot_floats() const { return 3 * row_floats() + (bytes ? pixels() * plan.channels : 0); }

  // x's row blended along d: into `to`, or where it lies already.
  const float* BlendedD(const void* x, int64_t image, int64_t od, int64_t ih, float* to) const {
    const int64_t n = row_floats();
    const auto at = [&](int64_t id) { return ((image * plan.d.in + id) * plan.h.in + ih) * n; };
    const int64_t d0 = plan.d.keep ? od : plan.d.index[2 * od],
                  d1 = plan.d.keep ? od : plan.d.index[2 * od + 1];
    if (bytes) {
      const auto* q = static_cast<const uint8_t*>(x);
      if (plan.d.keep) {
        QuantizeTableFor(isa).dequantize(q + at(d0), IntegerKind::kUint8, to, n, scale_x, zero_x);
      } else {
        ResizeTableFor(isa).blend_bytes(q + at(d0), q + at(d1), plan.d.weight[2 * od],
                                        plan.d.weight[2 * od + 1], scale_x, zero_x, to, n);
      }
      return to;
    }
    const auto* f = static_cast<const float*>(x);
    if (plan.d.keep) return f + at(d0);
    ResizeTableFor(isa).blend(f + at(d0), f + at(d1), plan.d.weight[2 * od],
                              plan.d.weight[2 * od + 1], to, n);
    return to;
  }

  // Rows of bytes as floats, which neighbouring output rows share.
  struct RealRows {
    float* row[2];
    int64_t number[2] = {-1, -1};  // of the image's rows, over all images
  };
  const float* Real(const uint8_t* x, int64_t number, int64_t other, RealRows& rows) const {
    for (int k : {0, 1}) {
      if (rows.number[k] == number) return rows.row[k];
    }
    const int k = rows.number[0] == other ? 1 : 0;
    rows.number[k] = number;
    QuantizeTableFor(isa).dequantize(x + number * row_floats(), IntegerKind::kUint8, rows.row[k],
                                     row_floats(), scale_x, zero_x);
    return rows.row[k];
  }

  // Where an output row lies.
  struct RowPlace {
    int64_t image, od, oh;
  };
  RowPlace PlaceOf(int64_t row) const {
    return {row / plan.h.out / plan.d.out, row / plan.h.out % plan.d.out, row % plan.h.out};
  }
  void Next(RowPlace& at) const {
    if (++at.oh < plan.h.out) return;
    at.oh = 0;
    if (++at.od < plan.d.out) return;
    at.od = 0, ++at.image;
  }

  // What of x an output row is made of along w: in `to`, or where it lies already.
  const float* Blended(const void* x, const RowPlace& at, float* to, RealRows& real) const {
    const auto [image, od, oh] = at;
    if (plan.h.keep) return BlendedD(x, image, od, oh, to);
    const auto blend = ResizeTableFor(isa).blend;
    const int64_t h0 = plan.h.index[2 * oh], h1 = plan.h.index[2 * oh + 1];
    const float w0 = plan.h.weight[2 * oh], w1 = plan.h.weight[2 * oh + 1];
    const float *p0, *p1;
    if (bytes && plan.d.keep) {
      const int64_t first = (image * plan.d.in + od) * plan.h.in;
      p0 = Real(static_cast<const uint8_t*>(x), first + h0, first + h1, real);
      p1 = Real(static_cast<const uint8_t*>(x), first + h1, first + h0, real);
    } else {
      p0 = BlendedD(x, image, od, h0, to);
      p1 = BlendedD(x, image, od, h1, real.row[0]);
    }
    blend(p0, p1, w0, w1, to, row_floats());
    return to;
  }

  // `part` holds a part of an output row of bytes.
  void Finish(const float* blended, void* y, int64_t row, float* part) const {
    const int64_t out_floats = plan.w.out * plan.channels;
    if (bytes) return ByteRow(blended, static_cast<uint8_t*>(y) + row * out_floats, part);
    float* to = static_cast<float*>(y) + row * out_floats;
    if (plan.w.keep) {
      std::memcpy(to, blended, static_cast<size_t>(out_floats) * sizeof(float));
    } else {
      AlongW(blended, 0, plan.w.out, to);
    }
  }

  // `count` pixels of an output row from the first on: all of them where there are blocks.
  void AlongW(const float* blended, int64_t first, int64_t count, float* to) const {
    const ResizeTable& table = ResizeTableFor(isa);
    if (!line.empty())
      return table.blend_line(blended, line.data(), static_cast<int64_t>(line.size()), to);
    table.blend_pixels(blended, plan.w.index.data() + 2 * first, plan.w.weight.data() + 2 * first,
                       to, count, plan.channels);
  }

  // What is left to do of a row behind the blending along d and h; `part` holds pixels().
  void ByteRow(const float* blended, uint8_t* y, float* part) const {
    const auto quantize = QuantizeTableFor(isa).quantize;
    const int64_t c = plan.channels;
    if (plan.w.keep) return quantize(blended, y, plan.w.out * c, by, zero_y, IntegerRange{});
    for (int64_t o = 0; o < plan.w.out; o += pixels()) {
      const int64_t count = std::min(pixels(), plan.w.out - o);
      AlongW(blended, o, count, part);
      quantize(part, y + o * c, count * c, by, zero_y, IntegerRange{});
    }
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const int64_t rows = plan.images * plan.d.out * plan.h.out, n = row_floats();
    auto* slots = reinterpret_cast<float*>(context.scratch);
    context.pool.ParallelFor(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        float* const slot = slots + piece * slot_floats();
        RealRows real{{slot + n, slot + 2 * n}};
        int64_t row = rows * piece / pieces;
        for (RowPlace at = PlaceOf(row); row < rows * (piece + 1) / pieces; ++row, Next(at))
          Finish(Blended(in[0], at, slot, real), out[0], row, slot + 3 * n);
      }
    });
  }
};

Result<BoundKernel> BindLinear(const KernelCall& call, const BindOptions& options) {
  const TensorType &x = call.inputs[0], &y = call.outputs[0];
  LinearState state;
  EVOQ_ASSIGN(state.plan, PlanResize(call));
  state.bytes = x.quantized();
  if (state.bytes) {
    state.scale_x = ScaleOf(x), state.zero_x = ZeroOf(x);
    state.by = Divisor::Of(ScaleOf(y)), state.zero_y = ZeroOf(y);
  }
  state.isa = options.isa;
  if (state.plan.channels == 1 && ResizeTableFor(state.isa).blend_line != nullptr)
    state.line = LineBlocks(state.plan.w);
  const int64_t rows = state.plan.images * state.plan.d.out * state.plan.h.out;
  const int64_t grain =
      Grain(rows, static_cast<double>(state.plan.w.out * state.plan.channels) * 0.5 + 10,
            options.threads);
  state.pieces = std::clamp<int64_t>(CeilDiv(rows, grain), 1, 4 * options.threads);
  const size_t scratch = static_cast<size_t>(state.pieces * state.slot_floats()) * sizeof(float);
  return BoundKernel::Of(std::move(state), scratch);
}

}  // namespace

extern const KernelDef kResizeNearest = {
    .name = "resize_nearest",
    .op = "Resize",
    .precision = Precision::kAny,
    .peak = Peak::kMemory,
    .reject = RejectNearest,
    .bind = BindNearest,
};
extern const KernelDef kResizeLinear = {
    .name = "resize_linear",
    .op = "Resize",
    .precision = Precision::kAny,
    .peak = Peak::kMemory,
    .reject = RejectLinear,
    .bind = BindLinear,
};

}  // namespace evoq
