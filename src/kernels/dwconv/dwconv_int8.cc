#include "kernels/dwconv/dwconv_int8.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "kernels/parallel.h"
#include "kernels/quantize/table.h"

namespace evoq {
namespace {

// The first of the two int8 parts of a weight.
int FirstPart(int w) { return std::clamp(w, -128, 127); }

// Whether kernels/dwconv/dwconv_walk.inl.h takes this shape.
bool UsesRing(const DwInt8Args& args, Isa isa) {
  const int lanes = DwTableFor(isa).ring_lanes;
  return (lanes == 16 ? args.parts == 1 : lanes == 64 && args.parts > 0) &&
         RingKernel(args.shape) > 0;
}

// Whether the rows take it as a square kernel, in float32.
bool UsesSquares(const DwInt8Args& args, Isa isa) {
  const DwShape& shape = args.shape;
  return DwTableFor(isa).squares && shape.h.kernel == shape.w.kernel && RingKernel(shape) > 0;
}

}  // namespace

int64_t DwRingChannel(const DwInt8Args& args, int64_t i) {
  const DwRingBlock block = args.block(i / 64);
  const int64_t j = i % 64 / 16, e = i % 16, lane = 16 * (e / 4) + 4 * j + e % 4,
                at = lane % block.lanes();
  return at < block.channels ? block.channel + at : -1;
}

// Per lane of 64: int8 weights, and bias and multiplier in the order of the lanes.
void DwInt8State::SetRing64() {
  const DwShape& shape = args.shape;
  const int64_t kernel = shape.w.kernel, quads = shape.quads(), padded = shape.blocks() * kDwBlock;
  const int64_t blocks = CeilDiv(shape.channels, 64), part = blocks * kernel * quads * 256;
  ring = AlignedBuffer(static_cast<size_t>(args.parts * part));
  ring_bias = AlignedBuffer(static_cast<size_t>(blocks) * 64 * sizeof(int32_t));
  ring_multiplier = AlignedBuffer(static_cast<size_t>(blocks) * 64 * sizeof(float));
  auto* weights = reinterpret_cast<int8_t*>(ring.data());
  auto* biases = reinterpret_cast<int32_t*>(ring_bias.data());
  auto* multipliers = reinterpret_cast<float*>(ring_multiplier.data());
  ring_wide = AlignedBuffer(static_cast<size_t>(blocks));
  auto* wide = reinterpret_cast<uint8_t*>(ring_wide.data());
  std::fill_n(wide, blocks, uint8_t{0});
  for (int64_t i = 0; i < blocks * 64; ++i) {
    const int64_t c = DwRingChannel(args, i), j = i % 64 / 16, e = i % 16;
    const bool real = c >= 0;
    biases[i] = real ? args.bias[c] : 0;
    multipliers[i] = real ? args.multiplier[c] : 0;
    for (int64_t kx = 0; kx < kernel; ++kx) {
      for (int64_t ky = 0; ky < 4 * quads; ++ky) {
        const int64_t to =
            ((((i / 64 * kernel + kx) * quads + ky / 4) * 4 + j) * 16 + e) * 4 + ky % 4;
        const int w = real && ky < kernel ? args.taps[(ky * kernel + kx) * padded + c] : 0;
        const int first = FirstPart(w);
        weights[to] = static_cast<int8_t>(first);
        if (args.parts == 2) weights[part + to] = static_cast<int8_t>(w - first);
        if (first != w) wide[i / 64] = 1;
      }
    }
  }
  args.ring_bias = biases;
  args.ring_multiplier = multipliers;
  args.ring_wide = wide;
}

void DwInt8State::SetRing16() {
  const int64_t kernel = args.shape.w.kernel, quads = args.shape.quads(),
                padded = args.shape.blocks() * kDwBlock;
  args.ring_lanes = kDwBlock;
  ring = AlignedBuffer(static_cast<size_t>(padded * kernel * quads * 4));
  ring_bias = AlignedBuffer(static_cast<size_t>(padded) * sizeof(int32_t));
  auto* weights = reinterpret_cast<int8_t*>(ring.data());
  auto* lack = reinterpret_cast<int32_t*>(ring_bias.data());
  for (int64_t c = 0; c < padded; ++c) {
    int32_t sum = 0;
    for (int64_t kx = 0; kx < kernel; ++kx) {
      for (int64_t ky = 0; ky < 4 * quads; ++ky) {
        const int w = ky < kernel ? args.taps[(ky * kernel + kx) * padded + c] : 0;
        weights[(((c / kDwBlock * kernel + kx) * quads + ky / 4) * kDwBlock + c % kDwBlock) * 4 +
                ky % 4] = static_cast<int8_t>(w);
        sum += w;
      }
    }
    lack[c] = 128 * sum;
  }
  args.ring_bias = lack;
}

// A square kernel, whose taps beyond those that there are weigh nothing.
void DwInt8State::FillUp(int64_t kernel) {
  const WindowDim &h = args.shape.h, &w = args.shape.w;
  if (h.kernel == kernel && w.kernel == kernel) return;
  const int64_t padded = args.shape.blocks() * kDwBlock;
  AlignedBuffer filled(static_cast<size_t>(kernel * kernel * padded) * sizeof(int16_t));
  auto* to = reinterpret_cast<int16_t*>(filled.data());
  std::fill_n(to, kernel * kernel * padded, int16_t{0});
  for (int64_t i = 0; i < h.kernel; ++i)
    std::copy_n(args.taps + i * w.kernel * padded, w.kernel * padded, to + i * kernel * padded);
  for (WindowDim* d : {&args.shape.h, &args.shape.w}) {
    if (d->kernel == 1) d->dilation = 1;  // of one tap it may be anything
    d->kernel = kernel;
  }
  taps = std::move(filled);
  args.taps = to;
}

void DwInt8State::SetRing() {
  const DwShape& shape = args.shape;
  double largest = 0;
  for (int64_t c = 0; c < shape.channels; ++c) {
    const double sum = 255.0 * 255.0 * static_cast<double>(shape.taps()) +
                       std::abs(static_cast<double>(args.bias[c]));
    largest = std::max(largest, sum * static_cast<double>(std::abs(args.multiplier[c])));
  }
  args.plain =
      !args.float_output && !args.has_residual && args.slopes == nullptr && largest < 0x1p30;
  args.square = UsesSquares(args, isa);
  if (!args.square && !UsesRing(args, isa)) return;
  FillUp(RingKernel(args.shape));
  if (args.square) {
    SetFloatTaps();
  } else {
    DwTableFor(isa).ring_lanes == 64 ? SetRing64() : SetRing16();
    args.ring = ring.data();
  }
  const size_t row = static_cast<size_t>(shape.w.in * shape.channels + kDwBlock);
  padding_row = AlignedBuffer(row);
  std::fill_n(padding_row.data(), row, padding.data()[0]);
  args.padding_row = reinterpret_cast<const uint8_t*>(padding_row.data());
  args.real =
      args.ring != nullptr && args.ring_lanes == 64 && args.float_output && args.slopes == nullptr;
}

void DwInt8State::SetSlopes(const ProductActivation& product) {
  const bool leaky = product.activation.kind == ActivationKind::kLeakyRelu;
  if (!leaky && product.slopes.empty()) return;
  const int64_t padded = args.shape.blocks() * kDwBlock;
  slopes = AlignedBuffer(static_cast<size_t>(padded) * sizeof(float));
  auto* slope = reinterpret_cast<float*>(slopes.data());
  std::fill_n(slope, padded, leaky ? product.activation.alpha : 1.0f);
  std::ranges::copy(product.slopes, slope);
  args.slopes = slope;
}

void DwInt8State::SetGrain(int threads) {
  const DwShape& shape = args.shape;
  const auto count = static_cast<double>(shape.taps());
  const bool ring = args.ring != nullptr;
  const double block_ns = ring && args.ring_lanes == 64 ? 0.4 + 0.07 * count
                          : ring || args.square         ? 1.0 + 0.25 * count
                                                        : 2.0 + 0.2 * count;
  const double row_ns = static_cast<double>(shape.w.out * shape.blocks()) * block_ns;
  grain = RoundUp(Grain(shape.batch * shape.h.out, row_ns, threads), 4);
}

void DwInt8State::SetPairs() {
  constexpr int64_t kTaps = 2;
  const DwShape& shape = args.shape;
  const int64_t padded = shape.blocks() * kDwBlock, kw = shape.w.kernel,
                across = shape.down() ? kw : shape.h.kernel,
                count = CeilDiv(shape.down() ? shape.h.kernel : kw, kTaps),
                all = padded * across * count * kTaps;
  pairs = AlignedBuffer(static_cast<size_t>(all) * sizeof(int16_t));
  auto* to = reinterpret_cast<int16_t*>(pairs.data());
  std::fill_n(to, all, int16_t{0});
  for (int64_t i = 0; i < shape.taps() * padded; ++i) {
    const int64_t c = i % padded, ky = i / padded / kw, kx = i / padded % kw,
                  along = shape.down() ? ky : kx, other = shape.down() ? kx : ky;
    to[(((c / kDwBlock * across + other) * count + along / kTaps) * kDwBlock + c % kDwBlock) *
           kTaps +
       along % kTaps] = args.taps[i];
  }
  args.pairs = to;
}

// A sum of products is below 2^24 in each of its parts, whatever the bytes are.
void DwInt8State::SetFloatTaps() {
  const DwShape& shape = args.shape;
  const int64_t padded = shape.blocks() * kDwBlock, row = shape.w.kernel * padded,
                count = shape.taps() * padded;
  int64_t largest = 1;  // of a row of the kernel
  for (int64_t i = 0; i < shape.h.kernel; ++i) {
    for (int64_t c = 0; c < padded; ++c) {
      int64_t sum = 0;
      for (int64_t at = i * row + c; at < (i + 1) * row; at += padded)
        sum += std::abs(static_cast<int64_t>(args.taps[at]));
      largest = std::max(largest, sum);
    }
  }
  args.exact_rows = (int64_t{1} << 24) / (255 * largest);
  float_taps = AlignedBuffer(static_cast<size_t>(count) * sizeof(float));
  auto* to = reinterpret_cast<float*>(float_taps.data());
  std::copy_n(args.taps, count, to);
  args.float_taps = to;
}

void DwInt8State::SetWeights(const TensorType& type, const std::byte* packed) {
  const QuantParams& quant = *type.quant;
  const DwShape& shape = args.shape;
  const int64_t padded = shape.blocks() * kDwBlock;
  taps = AlignedBuffer(static_cast<size_t>(shape.taps() * padded) * sizeof(int16_t));
  auto* tap = reinterpret_cast<int16_t*>(taps.data());
  int lowest = 0, highest = 0;
  for (int64_t i = 0; i < shape.taps() * padded; ++i) {
    const int64_t c = i % padded;
    const int q = type.dtype == DType::kInt8 ? static_cast<int>(static_cast<int8_t>(packed[i]))
                                             : static_cast<int>(packed[i]);
    const int w = c < shape.channels ? q - quant.zero_points[quant.per_tensor() ? 0 : c] : 0;
    tap[i] = static_cast<int16_t>(w);
    lowest = std::min(lowest, w);
    highest = std::max(highest, w);
  }
  args.taps = tap;
  args.parts = highest > 254 ? 0 : lowest < -128 || highest > 127 ? 2 : 1;
  if (UsesRing(args, isa) || UsesSquares(args, isa)) return;
  if (DwTableFor(isa).pair_lines) SetPairs();
  if (DwTableFor(isa).float_lines) SetFloatTaps();
}

namespace {

std::optional<Reason> RejectInt8(const KernelCall& call) {
  if (!QuantizedU8(call.inputs[0])) {
    return Reject("types", "input 0 is {}, expected uint8 with one scale",
                  call.inputs[0].ToString());
  }
  const TensorType &w = call.inputs[1], &y = call.outputs[0];
  const bool bytes = w.dtype == DType::kInt8 || w.dtype == DType::kUint8;
  if (!bytes || !w.quantized() || w.quant->block != 0 ||
      (!w.quant->per_tensor() && w.quant->axis != 0)) {
    return Reject("types",
                  "weights are {}, expected int8 or uint8 with scales per tensor or on axis 0",
                  w.ToString());
  }
  if (!QuantizedU8(y) && !PlainFloat(y))
    return Reject("types", "output is {}, expected uint8 with one scale or float32", y.ToString());
  if (call.has_input(2) && (call.inputs[2].dtype != DType::kInt32 || call.inputs[2].quantized())) {
    return Reject("types", "bias is {}, expected plain int32", call.inputs[2].ToString());
  }
  if (call.has_input(3) &&
      (y.quantized() ? !QuantizedU8(call.inputs[3]) : !PlainFloat(call.inputs[3]))) {
    return Reject("types", "residual is {} for an output {}", call.inputs[3].ToString(),
                  y.ToString());
  }
  if (auto rejection = RejectTable(call)) return rejection;
  if (auto rejection = RejectUnlessInt8Depthwise(call)) return rejection;
  const auto product = ProductActivationFromAttrs(call.attrs);
  if (!product) return Reject("attribute", "{}", product.error().message());
  const ActivationKind kind = product->activation.kind;
  if (auto wrong = product->WhyNot(call.inputs[1].shape[0].value))
    return Reject("attribute", "{}", *wrong);
  if (!IsPiecewiseLinear(kind)) {
    return Reject("attribute", "activation {} is not piecewise linear: it takes a table step",
                  ActivationName(kind));
  }
  return std::nullopt;
}

struct Int8State : DwInt8State {
  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto rows = DwTableFor(isa).int8_rows;
    const auto* x = static_cast<const uint8_t*>(in[0]);
    const void* residual = args.has_residual ? in[3] : nullptr;
    const int64_t row_bytes = args.shape.w.out * args.shape.channels;
    context.pool.ParallelFor(args.shape.batch * args.shape.h.out, grain,
                             [&](int64_t begin, int64_t end) {
                               if (!finish.any())
                                 return rows(args, x, residual, out[0], begin, end);
                               for (int64_t row = begin; row < end; row += 4) {
                                 const int64_t count = std::min<int64_t>(4, end - row);
                                 rows(args, x, residual, out[0], row, row + count);
                                 finish.Rows(static_cast<uint8_t*>(out[0]) + row * row_bytes, count,
                                             row_bytes, row_bytes, nullptr);
                               }
                             });
  }
};

void PrepareChannels(Int8State& state, const KernelCall& call) {
  const DwShape& shape = state.args.shape;
  const int64_t padded = shape.blocks() * kDwBlock;
  const QuantParams& quant = *call.inputs[1].quant;
  const int32_t zero_x = ZeroOf(call.inputs[0]);
  const float scale_y = call.outputs[0].quantized() ? ScaleOf(call.outputs[0]) : 1;
  state.bias = AlignedBuffer(static_cast<size_t>(padded) * sizeof(int32_t));
  state.multiplier = AlignedBuffer(static_cast<size_t>(padded) * sizeof(float));
  state.padding = AlignedBuffer(static_cast<size_t>(padded));
  auto* bias = reinterpret_cast<int32_t*>(state.bias.data());
  auto* multiplier = reinterpret_cast<float*>(state.multiplier.data());
  std::fill(state.padding.data(), state.padding.data() + padded, static_cast<std::byte>(zero_x));
  for (int64_t c = 0; c < padded; ++c) {
    const bool real = c < shape.channels;
    uint32_t sum =
        real && call.has_input(2) ? static_cast<uint32_t>(call.constant(2)->data<int32_t>()[c]) : 0;
    for (int64_t t = 0; t < shape.taps(); ++t)
      sum -= static_cast<uint32_t>(zero_x * state.args.taps[t * padded + c]);
    bias[c] = static_cast<int32_t>(sum);
    multiplier[c] = real ? LinearMultiplier(ScaleOf(call.inputs[0]),
                                            quant.scales[quant.per_tensor() ? 0 : c], scale_y)
                         : 0;
  }
  state.args.bias = bias;
  state.args.multiplier = multiplier;
  state.args.padding = reinterpret_cast<const uint8_t*>(state.padding.data());
}

Result<BoundKernel> BindInt8(const KernelCall& with_table, const BindOptions& options) {
  EVOQ_TRY(CheckTaps(with_table));
  CallBeforeTable before(with_table);
  const KernelCall& call = before.call;
  Int8State state;
  state.isa = state.finish.isa = options.isa;
  state.finish.table = std::move(before.table);
  EVOQ_ASSIGN(state.args.shape, DwShapeOf(call));
  state.SetWeights(call.inputs[1], call.constant(1)->raw());
  PrepareChannels(state, call);
  EVOQ_ASSIGN(const ProductActivation product, ProductActivationFromAttrs(call.attrs));
  const Activation& activation = product.activation;
  state.SetSlopes(product);
  const TensorType& y = call.outputs[0];
  state.args.float_output = !y.quantized();
  state.args.bounds = y.quantized()
                          ? OutputBounds::Integer(activation, ScaleOf(y), ZeroOf(y), 0, 255)
                          : OutputBounds::Real(activation);
  state.args.has_residual = call.has_input(3);
  if (state.args.has_residual && y.quantized()) {
    state.args.residual_multiplier = ScaleRatio(ScaleOf(call.inputs[3]), ScaleOf(y));
    state.args.residual_zero = ZeroOf(call.inputs[3]);
  }
  state.SetRing();
  state.SetGrain(options.threads);
  return BoundKernel::Of(std::move(state));
}

}  // namespace

extern const KernelDef kDwConvInt8 = {
    .name = "dwconv_int8",
    .op = "Conv",
    .precision = Precision::kInt8,
    .peak = Peak::kInt8,
    .reject = RejectInt8,
    .pack = PackDepthwise,
    .bind = BindInt8,
};

}  // namespace evoq
