// conv_transpose_int8: ConvTranspose on quantized bytes, channels-last, constant weights, by
// kernels/requant.h.
//
// Output pixels with the same (o + pad) mod stride on each axis (a phase) are an ordinary
// convolution of stride 1 with some of the taps, in reverse (see conv_transpose_f32.cc). Each phase
// runs on the integer engine into scratch, and its pixels are then put where they belong. A
// residual is taken apart into phases first.
#include <numeric>

#include "base/math.h"
#include "base/small_code.h"
#include "kernels/conv/conv_rows_f32.h"
#include "kernels/conv/conv_taps_int8.h"
#include "kernels/gemm/int8_groups.h"
#include "kernels/gemm/layout_k4n16.h"
#include "kernels/parallel.h"
#include "kernels/quantize/axis.h"
#include "kernels/quantize/table.h"
#include "kernels/ways.h"

namespace evoq {
namespace {

std::optional<Reason> RejectTypes(const KernelCall& call, const ConvShapeF32& s) {
  const TensorType &x = call.inputs[0], &w = call.inputs[1], &y = call.outputs[0];
  if (!QuantizedByte(x))
    return Reject("types", "x is {}, expected bytes with one scale", x.ToString());
  if (!QuantizedByte(y) && !PlainFloat(y))
    return Reject("types", "y is {}, expected bytes or float32", y.ToString());
  const bool bytes =
      (w.dtype == DType::kInt8 || w.dtype == DType::kUint8) && w.quantized() && w.quant->block == 0;
  const bool per_channel = bytes && w.quant->axis == 1 &&
                           static_cast<int64_t>(w.quant->scales.size()) == s.columns() &&
                           w.quant->zero_points.size() == w.quant->scales.size();
  if (!bytes || !(w.quant->per_tensor() || per_channel))
    return Reject("types",
                  "w is {}, expected bytes with one scale, or one per output channel of a group",
                  w.ToString());
  if (!call.constant(1)->layout().empty()) return Reject("layout", "w is not plain");
  if (call.has_input(2) && (call.inputs[2].dtype != DType::kInt32 || call.constant(2) == nullptr))
    return Reject("types", "bias is {}, expected constant int32", call.inputs[2].ToString());
  if (call.has_input(3)) {
    const TensorType& r = call.inputs[3];
    if (!QuantizedByte(r) && !(PlainFloat(r) && PlainFloat(y)))
      return Reject("types", "residual is {}, y {}", r.ToString(), y.ToString());
  }
  return RejectTable(call);
}

// Bounds on what phases may need: taps of an axis, bytes of a copied input with its padding, bytes
// of spread weights.
std::optional<Reason> RejectSizes(const ConvShapeF32& s) {
  constexpr int64_t kMaxSpan = int64_t{1} << 16, kMaxBytes = int64_t{1} << 40;
  std::vector<int64_t> padded = {s.batch, RoundUp(s.channels_in, 4)},
                       weights = {s.channels_out, s.depth()};
  for (int a = 0; a < 3; ++a) {
    const int64_t span = s.kernel[a] * s.dilation[a] + std::abs(s.pad[a]) + s.stride[a];
    if (span > kMaxSpan)
      return Reject("attribute", "a window of {} with its padding, expected at most {}", span,
                    kMaxSpan);
    padded.push_back(s.out[a] + 2 * span);
    weights.push_back(2 * span);
  }
  const auto input = CheckedProduct(padded), spread = CheckedProduct(weights);
  if (!input || !spread || *input > kMaxBytes || *spread > kMaxBytes)
    return Reject("shape", "the input is too large with its padding");
  return std::nullopt;
}

std::optional<Reason> RejectConvTranspose(const KernelCall& call) {
  if (call.outputs.size() != 1 || !call.has_input(0) || !call.has_input(1) ||
      call.constant(1) == nullptr)
    return Reject("not-constant", "w is not constant");
  ConvShapeF32 shape;
  if (auto why = ReadConvSizes(call, true, shape)) return why;
  const auto activation = ActivationFromAttrs(call.attrs);
  if (!activation || !IsPiecewiseLinear(activation->kind))
    return Reject("attribute", "activation {}", call.attrs.String("activation"));
  if (auto why = RejectSizes(shape)) return why;
  return RejectTypes(call, shape);
}

// One axis of a phase as a Conv of stride 1: output j reads inputs j + low + t * step for t <
// taps.size() through tap taps[t] of the kernel, or through none (-1).
struct PhaseAxis {
  int64_t low = 0, step = 1;
  std::vector<int64_t> taps;

  explicit PhaseAxis(const ConvAxisF32& axis) {
    int64_t high = 0;  // 0 takes part, so that no pad is negative
    for (int64_t delta : axis.delta) low = std::min(low, delta), high = std::max(high, delta);
    step = -low;
    for (int64_t delta : axis.delta) step = std::gcd(step, delta - low);
    step = std::max<int64_t>(step, 1);
    taps.assign(static_cast<size_t>((high - low) / step + 1), -1);
    for (size_t i = 0; i < axis.tap.size(); ++i)
      taps[static_cast<size_t>((axis.delta[i] - low) / step)] = axis.tap[i];
  }
};

// The weights of a phase as a Conv's [M, C/group, k, k, k]; missing taps hold zero points.
Result<Tensor> PhaseWeights(const ConvShapeF32& s, const Tensor& w, const PhaseAxis (&axes)[3]) {
  const int64_t d = axes[0].taps.size(), h = axes[1].taps.size(), v = axes[2].taps.size();
  const std::vector<int32_t>& zeros = w.type().quant->zero_points;
  Tensor to = Tensor::Allocate(TensorType(w.dtype(), Shape({s.channels_out, s.depth(), d, h, v})));
  const auto* from = w.raw();
  auto* out = to.mutable_raw();
  for (int64_t m = 0; m < s.channels_out; ++m) {
    const int32_t zero = zeros[static_cast<size_t>(m) % zeros.size()];
    const int64_t group = m / s.columns();
    for (int64_t c = 0; c < s.depth(); ++c) {
      const int64_t base = ((group * s.depth() + c) * s.columns() + m % s.columns()) * s.taps();
      for (int64_t t = 0; t < d * h * v; ++t) {
        const int64_t kd = axes[0].taps[t / (h * v)], kh = axes[1].taps[t / v % h],
                      kv = axes[2].taps[t % v];
        const bool missing = kd < 0 || kh < 0 || kv < 0;
        *out++ = missing ? static_cast<std::byte>(zero)
                         : from[base + (kd * s.kernel[1] + kh) * s.kernel[2] + kv];
      }
    }
  }
  return to;
}

struct Phase {
  BoundKernel kernel;
  std::array<int64_t, 3> first, count;
  int64_t pixels(int64_t batch) const { return batch * count[0] * count[1] * count[2]; }
};

struct ConvTransposeInt8 {
  ConvShapeF32 shape;
  std::vector<Phase> phases;
  int64_t y_pixel = 0, r_pixel = 0;  // bytes; no residual: 0
  int64_t y_bytes = 0, r_bytes = 0;  // scratch of the largest phase, in whole cache lines
  int64_t grain = 1;

  // Between a phase's pixels, one after the other, and their places in the output or the residual.
  template <typename Copy>
  void ForLines(const Phase& phase, ThreadPool& pool, const Copy& copy) const {
    pool.ParallelFor(
        shape.batch * phase.count[0] * phase.count[1], grain, [&](int64_t begin, int64_t end) {
          for (int64_t line = begin; line < end; ++line) {
            const int64_t h = line % phase.count[1], d = line / phase.count[1] % phase.count[0],
                          n = line / phase.count[1] / phase.count[0];
            const int64_t row =
                (n * shape.out[0] + phase.first[0] + d * shape.stride[0]) * shape.out[1] +
                phase.first[1] + h * shape.stride[1];
            copy(line * phase.count[2], row * shape.out[2] + phase.first[2]);
          }
        });
  }

  static void CopyPixels(const std::byte* from, int64_t from_step, std::byte* to, int64_t to_step,
                         int64_t count, int64_t bytes) {
    for (int64_t i = 0; i < count; ++i) {
      const std::byte* f = from + i * from_step;
      std::byte* t = to + i * to_step;
      int64_t b = 0;
      for (; b + 64 <= bytes; b += 64) __builtin_memcpy(t + b, f + b, 64);
      if (b < bytes) std::memcpy(t + b, f + b, static_cast<size_t>(bytes - b));
    }
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    std::byte *part = context.scratch, *residual = part + y_bytes;
    const void* inputs[kTableInput] = {in[0], in[1], nullptr, residual};
    void* outputs[] = {part};
    const auto* whole = static_cast<const std::byte*>(r_pixel > 0 ? in[3] : nullptr);
    auto* y = static_cast<std::byte*>(out[0]);
    const RunContext inner = {context.pool, residual + r_bytes};
    for (const Phase& phase : phases) {
      const int64_t n = phase.count[2], step = shape.stride[2];
      if (r_pixel > 0) {
        ForLines(phase, context.pool, [&](int64_t at, int64_t place) {
          CopyPixels(whole + place * r_pixel, step * r_pixel, residual + at * r_pixel, r_pixel, n,
                     r_pixel);
        });
      }
      phase.kernel.run(phase.kernel.state.get(), inputs, outputs, inner);
      ForLines(phase, context.pool, [&](int64_t at, int64_t place) {
        CopyPixels(part + at * y_pixel, y_pixel, y + place * y_pixel, step * y_pixel, n, y_pixel);
      });
    }
  }
};

Result<Int8LinearSpec> CommonSpec(const KernelCall& call, const ConvShapeF32& shape,
                                  const BindOptions& options) {
  Int8LinearSpec spec;
  spec.x_signed = call.inputs[0].dtype == DType::kInt8;
  spec.x_zero = ZeroOf(call.inputs[0]);
  spec.w_zero = call.inputs[1].quant->zero_points;
  // Those of a group's output channels are of every group's.
  const size_t own = spec.w_zero.size();
  for (int64_t m = static_cast<int64_t>(own); own > 1 && m < shape.channels_out; ++m)
    spec.w_zero.push_back(spec.w_zero[static_cast<size_t>(m) - own]);
  if (call.has_input(2))
    spec.bias.assign(call.constant(2)->data<int32_t>(),
                     call.constant(2)->data<int32_t>() + shape.channels_out);
  CallBeforeTable before(call);
  EVOQ_ASSIGN(spec.epilogue, QuantizedEpilogue(before.call, shape.channels_out));
  spec.finish.isa = options.isa;
  spec.finish.table = std::move(before.table);
  spec.geometry.batch = shape.batch;
  spec.geometry.channels = shape.channels_in;
  spec.geometry.out_channels = shape.channels_out;
  spec.geometry.group = shape.group;
  return spec;
}

std::vector<std::string> Variants(const KernelCall& call, const BindOptions&) {
  ConvShapeF32 shape;
  if (ReadConvSizes(call, true, shape) || !ChooseTapsInt8(shape, true, "")) return {};
  return {std::string(kDirectWay), kTapsBeside};
}

EVOQ_SMALL_CODE Result<BoundKernel> BindConvTranspose(const KernelCall& call,
                                                      const BindOptions& options) {
  ConvTransposeInt8 state;
  ConvShapeF32& s = state.shape;
  if (const auto why = ReadConvSizes(call, true, s)) return Unsupported("{}", why->sentence);
  EVOQ_ASSIGN(Int8LinearSpec common, CommonSpec(call, s, options));
  if (ChooseTapsInt8(s, true, options.variant))
    return BindTapsInt8(s, true, std::move(common), *call.constant(1), options);
  state.y_pixel = s.channels_out * common.epilogue.y_bytes();
  if (call.has_input(3)) state.r_pixel = s.channels_out * (PlainFloat(call.inputs[3]) ? 4 : 1);
  size_t inner = 0;
  for (int64_t i = 0; i < s.phases(); ++i) {
    const std::array<ConvAxisF32, 3> outputs = ConvPhaseAxes(s, i);
    const PhaseAxis axes[3] = {PhaseAxis(outputs[0]), PhaseAxis(outputs[1]), PhaseAxis(outputs[2])};
    Int8LinearSpec spec = common;
    Phase phase;
    for (int a = 0; a < 3; ++a) {
      phase.first[a] = outputs[a].first;
      phase.count[a] = spec.geometry.out[a] = outputs[a].count;
      spec.geometry.in[a] = s.in[a];
      spec.geometry.kernel[a] = static_cast<int64_t>(axes[a].taps.size());
      spec.geometry.dilation[a] = axes[a].step;
      spec.geometry.pad[a] = -axes[a].low;
    }
    if (phase.pixels(s.batch) == 0) continue;
    EVOQ_ASSIGN(spec.weights, PhaseWeights(s, *call.constant(1), axes));
    EVOQ_TRY(JoinNarrowGroups(spec, options));
    if (UsesDirect(spec.geometry)) {
      EVOQ_ASSIGN(phase.kernel, BindInt8Direct(std::move(spec), options));
    } else {
      if (spec.weights.layout().empty()) {
        EVOQ_ASSIGN(spec.weights, kLayoutK4N16Conv.pack(spec.weights));
      }
      EVOQ_ASSIGN(phase.kernel, BindInt8Linear(std::move(spec), options));
    }
    state.y_bytes = std::max(state.y_bytes, RoundUp(phase.pixels(s.batch) * state.y_pixel, 64));
    state.r_bytes = std::max(state.r_bytes, RoundUp(phase.pixels(s.batch) * state.r_pixel, 64));
    inner = std::max(inner, phase.kernel.scratch_bytes);
    state.phases.push_back(std::move(phase));
  }
  state.grain = Grain(s.batch * s.out[0] * s.out[1],
                      static_cast<double>(s.out[2] * state.y_pixel) * 0.01 + 5, options.threads);
  const size_t scratch = static_cast<size_t>(state.y_bytes + state.r_bytes) + inner;
  KernelPlan plan;
  if (!state.phases.empty()) plan = state.phases[0].kernel.plan;
  return BoundKernel::Of(std::move(state), scratch, std::move(plan));
}

}  // namespace

extern const KernelDef kConvTransposeInt8;
const KernelDef kConvTransposeInt8 = {
    .name = "conv_transpose_int8",
    .op = "ConvTranspose",
    .precision = Precision::kInt8,
    .peak = Peak::kInt8,
    .reject = RejectConvTranspose,
    .bind = BindConvTranspose,
    .variants = Variants,
};

}  // namespace evoq
