// conv_bf16 and conv_transpose_bf16: y = activation(conv(x, w) + bias + residual) of bfloat16
// values, channels-last, any group, weights constant. Pixels are read in place as pairs of channels
// where a group has an even number of them; else the rows of a tile are copied, taps beside each
// other as the packed weights are, or the input is widened as a whole and multiplied in float32.
#include <algorithm>
#include <cstring>

#include "base/math.h"
#include "base/small_code.h"
#include "kernels/call_util.h"
#include "kernels/conv/conv_rows_f32.h"
#include "kernels/conv/conv_taps_f32.h"
#include "kernels/conv/conv_ways.h"
#include "kernels/conv/winograd_f32.h"
#include "kernels/gemm/gemm_bf16.h"
#include "kernels/gemm/pack_bf16.h"
#include "kernels/gemm/pack_f32.h"

namespace evoq {
namespace {

// The shape with pairs of channels in the place of channels, for the row sources of float32. Needs
// an even depth.
ConvShapeF32 InPairs(ConvShapeF32 shape) {
  shape.channels_in /= 2;
  return shape;
}

using CopyRuns = decltype(PairLayout::copy_runs);

struct CopySource {
  const ConvShapeF32* shape;
  CopyRuns copy;
  const uint16_t* x;  // at the group's first channel
};

bool Within(int64_t i, int64_t size) {
  return static_cast<uint64_t>(i) < static_cast<uint64_t>(size);
}

// All of K for the output pixel whose window starts at `at` (z, y, x): line by line of the window.
void CopyWindow(const ConvShapeF32& s, CopyRuns copy, const uint16_t* image, const int64_t (&at)[3],
                uint16_t* to) {
  const int64_t depth = s.depth(), line = s.kernel[2] * depth, step = s.dilation[2] * s.channels_in;
  const int64_t line_step = s.dilation[1] * s.in[2] * s.channels_in;
  const bool inside = at[2] >= 0 && at[2] + (s.kernel[2] - 1) * s.dilation[2] < s.in[2];
  const bool run =
      inside && s.group == 1 && s.dilation[2] == 1;  // a line's pixels lie side by side
  for (int64_t kz = 0; kz < s.kernel[0]; ++kz) {
    const int64_t z = at[0] + kz * s.dilation[0];
    for (int64_t ky = 0; ky < s.kernel[1]; ++ky, to += line) {
      const int64_t y = at[1] + ky * s.dilation[1];
      const uint16_t* from = image + ((z * s.in[1] + y) * s.in[2] + at[2]) * s.channels_in;
      if (!Within(z, s.in[0]) || !Within(y, s.in[1])) {
        std::memset(to, 0, static_cast<size_t>(line) * sizeof(uint16_t));
      } else if (run) {
        int64_t lines = 1;  // those of the window that follow inside the input
        while (ky + lines < s.kernel[1] && Within(y + lines * s.dilation[1], s.in[1])) ++lines;
        copy(from, line_step, lines, line, to);
        ky += lines - 1, to += (lines - 1) * line;
      } else if (inside) {
        copy(from, step, s.kernel[2], depth, to);
      } else {
        for (int64_t kx = 0; kx < s.kernel[2]; ++kx) {
          if (Within(at[2] + kx * s.dilation[2], s.in[2])) {
            copy(from + kx * step, 0, 1, depth, to + kx * depth);
          } else {
            std::memset(to + kx * depth, 0, static_cast<size_t>(depth) * sizeof(uint16_t));
          }
        }
      }
    }
  }
}

// Elements [begin, end) of K alone.
void CopyPart(const ConvShapeF32& s, CopyRuns copy, const uint16_t* image, const int64_t (&at)[3],
              int64_t begin, int64_t end, uint16_t* to) {
  const int64_t depth = s.depth();
  for (int64_t k = begin; k < end;) {
    const int64_t t = k / depth, n = std::min(depth - k % depth, end - k);
    const int64_t z = at[0] + t / (s.kernel[1] * s.kernel[2]) * s.dilation[0];
    const int64_t y = at[1] + t / s.kernel[2] % s.kernel[1] * s.dilation[1],
                  x = at[2] + t % s.kernel[2] * s.dilation[2];
    if (Within(z, s.in[0]) && Within(y, s.in[1]) && Within(x, s.in[2])) {
      copy(image + ((z * s.in[1] + y) * s.in[2] + x) * s.channels_in + k % depth, 0, 1, n, to);
    } else {
      std::memset(to, 0, static_cast<size_t>(n) * sizeof(uint16_t));
    }
    k += n, to += n;
  }
}

void FillCopies(const void* source, int64_t first, int count, const GemmSegment& segment,
                GemmRows& tile) {
  const CopySource& c = *static_cast<const CopySource*>(source);
  const ConvShapeF32& s = *c.shape;
  const int64_t all = s.taps() * s.depth(), begin = 2 * segment.k,
                end = std::min(begin + 2 * segment.depth, all);
  const int64_t image = s.in[0] * s.in[1] * s.in[2] * s.channels_in;
  int64_t x = first % s.out[2], y = first / s.out[2], z = y / s.out[1], n = z / s.out[0];
  y %= s.out[1], z %= s.out[0];
  for (int r = 0; r < count; ++r) {
    const int64_t at[3] = {z * s.stride[0] - s.pad[0], y * s.stride[1] - s.pad[1],
                           x * s.stride[2] - s.pad[2]};
    float* to = tile.copy + r * kRowCopyUnits;
    if (segment.depth > 0) to[segment.depth - 1] = 0;
    if (begin == 0 && end == all) {
      CopyWindow(s, c.copy, c.x + n * image, at, reinterpret_cast<uint16_t*>(to));
    } else {
      CopyPart(s, c.copy, c.x + n * image, at, begin, end, reinterpret_cast<uint16_t*>(to));
    }
    tile.rows[r] = to;
    tile.row_offset[r] = (first + r) * s.channels_out;
    if (++x < s.out[2]) continue;
    x = 0;
    if (++y < s.out[1]) continue;
    y = 0;
    if (++z < s.out[0]) continue;
    z = 0, ++n;
  }
  tile.row_stride = 0;
  tile.taps[0] = {0, segment.k * kPanelF32};
  tile.tap_count = segment.taps;
  tile.depth = segment.depth;
}

// The outputs of a Conv, or of one phase of a ConvTranspose.
struct Phase {
  ConvRowsF32 map;  // in pairs; of no use where rows are copied
  GemmPlan plan;
};

struct ConvBf16 {
  ConvShapeF32 shape;
  bool transposed = false, copied = false;
  std::vector<Phase> phases;
  const PairLayout* layout = nullptr;
  const float* weights = nullptr;
  std::shared_ptr<const AlignedBuffer> float_weights;  // not null: the products are of float32
  ConvShapeF32 narrow;                                 // whose input is widened into scratch then
  void (*widen)(const uint16_t* x, float* y, int64_t n) = nullptr;
  bool has_bias = false, has_residual = false;

  bool in_float32() const { return float_weights != nullptr; }
  size_t scratch_bytes() const {
    const ConvShapeF32& s = shape;
    return in_float32() ? sizeof(float) * static_cast<size_t>(s.batch * s.in[0] * s.in[1] *
                                                              s.in[2] * s.channels_in)
                        : 0;
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const void* x = in[0];
    if (in_float32()) {
      auto* const wide = reinterpret_cast<float*>(context.scratch);
      PadInput(narrow, x, wide, context.pool, widen);
      x = wide;
    }
    for (const Phase& phase : phases) {
      const int64_t tasks = phase.plan.tasks();
      context.pool.ParallelFor(shape.group * tasks, phase.plan.grain,
                               [&](int64_t begin, int64_t end) {
                                 for (int64_t i = begin; i < end; ++i)
                                   RunTask(phase, i / tasks, i % tasks, x, in, out);
                               });
    }
  }

  // Groups share panels of Conv's weights; those of ConvTranspose lie behind each other along K.
  void RunTask(const Phase& phase, int64_t group, int64_t task, const void* x,
               const void* const* in, void* const* out) const {
    const GemmPlan& plan = phase.plan;
    const void* const first_channel = OffsetBf16(x, !in_float32(), group * shape.depth());
    const ConvRowsSourceF32 units = {&phase.map, static_cast<const float*>(first_channel)};
    const CopySource copies = {&shape, layout->copy_runs,
                               static_cast<const uint16_t*>(first_channel)};
    const int64_t column = group * shape.columns(), first = transposed ? 0 : column,
                  moved = transposed ? column : 0;
    const GemmJob job = {
        copied ? static_cast<const void*>(&copies) : &units,
        copied ? FillCopies : FillConvRows,
        weights + (transposed ? group * shape.depth() / 2 * kPanelF32 : 0),
        first,
        first + shape.columns(),
        OffsetBf16(out[0], plan.types.y_bf16, moved),
        has_bias ? static_cast<const float*>(in[2]) + moved : nullptr,
        has_residual ? OffsetBf16(in[3], plan.types.residual_bf16, moved) : nullptr};
    RunGemmTask(plan, job, task);
  }
};

std::optional<Reason> ReadShape(const KernelCall& call, bool transposed, ConvShapeF32& shape) {
  if (auto why = RejectTypesBf16(call)) return why;
  if (call.constant(1) == nullptr) return Reject("not-constant", "the weight is computed");
  if (auto unknown = RejectUnknownShapes(call)) return unknown;  // names bfloat16
  const WideCall wide(call);
  if (auto why = ReadConvShape(wide.call, transposed, shape)) return why;
  if (!transposed) return std::nullopt;
  if (shape.depth() % 2 != 0)
    return Reject("shape", "{} input channels in a group, expected an even number", shape.depth());
  return std::nullopt;
}

template <bool kTransposed>
std::optional<Reason> RejectConv(const KernelCall& call) {
  ConvShapeF32 shape;
  return ReadShape(call, kTransposed, shape);
}

template <bool kTransposed>
Result<Tensor> PackConv(const KernelCall& call, size_t input) {
  if (input != 1) return Tensor();
  return PackWeightBf16(kTransposed ? kConvTransposeLayoutBf16 : kConvLayoutBf16,
                        call.constant(input));
}

// Adds the outputs that `axes` describe, if there are any.
void AddPhase(const KernelCall& call, const BindOptions& options, const Activation& activation,
              std::array<ConvAxisF32, 3> axes, ConvBf16& state) {
  const ConvShapeF32& s = state.shape;
  const int64_t unit = state.in_float32() ? 1 : 2;
  const ConvShapeF32 units = state.copied || state.in_float32() ? s : InPairs(s);
  // Channels that the weights of a tap have in memory: of all groups in a ConvTranspose.
  const int64_t tap_channels = state.transposed ? s.channels_in : s.depth();
  ConvRowsF32 map(units, std::move(axes), tap_channels / unit * kPanelF32);
  if (map.rows() == 0) return;
  GemmSizes sizes;
  sizes.rows = map.rows();
  sizes.columns = s.columns();
  sizes.taps = state.copied ? 1 : map.taps();
  sizes.depth = state.copied ? CeilDiv(s.taps() * s.depth(), unit) : units.depth();
  sizes.panel_stride = state.in_float32() ? s.taps() * tap_channels * kPanelF32
                                          : PairPanelStride(s.taps() * tap_channels);
  sizes.row_bytes = s.channels_in * (state.transposed ? 1 : s.stride[2]) * 4 / unit;
  sizes.jobs = s.group;
  sizes.taps_in_order = !state.transposed;
  GemmTypes types = GemmTypesBf16(call, state.copied, options.isa);
  if (state.in_float32()) {
    types.kernels = GemmTypesF32(options.isa).kernels;
    types.writes_bf16 = false;
  }
  GemmPlan plan = PlanGemm(sizes, types, activation, options);
  state.phases.push_back({std::move(map), std::move(plan)});
}

const GemmKernels& KernelsFor(Isa isa) { return *RowFor(kGemmRowsBf16, isa).table; }

int64_t Pixels(const std::array<int64_t, 3>& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

// Whether windows that would be copied are multiplied in float32 sooner.
bool SoonerInFloat32(const ConvShapeF32& s, const GemmKernels& kernels) {
  // The input has a copy with its border, which is to be no larger than what is read and written.
  const std::array<int64_t, 3> padded = OverPadded(s).in;
  const double copy = static_cast<double>(padded[0]) * static_cast<double>(padded[1]) *
                      static_cast<double>(padded[2] * s.channels_in);
  if (std::ranges::min(s.pad) < 0 || std::ranges::min(s.out) < 1 ||
      copy > 2.0 * static_cast<double>(Pixels(s.in) * s.channels_in) +
                 static_cast<double>(Pixels(s.out) * s.channels_out))
    return false;
  // Cycles. Two register tiles of 16 multiply-adds of float32 begin in each; what a window's copy
  // takes beside each of its lines.
  constexpr double kProductsOfCycle = 32, kWindow = 15, kLine = 8;
  const double products =
      static_cast<double>(s.taps() * s.depth() * RoundUp(s.columns(), int64_t{kPanelF32}));
  const double saved = products / kProductsOfCycle * (1 - 1.0 / kernels.speed);
  return saved < kWindow + kLine * static_cast<double>(s.kernel[0] * s.kernel[1]);
}

// What float32's kernels compute of bfloat16 values as they do of their own, if they do.
Result<std::optional<BoundKernel>> BindByFloat32(const KernelCall& call, bool transposed,
                                                 const Activation& activation,
                                                 const BindOptions& options,
                                                 const ConvShapeF32& shape) {
  const double speed = KernelsFor(options.isa).speed;
  ConvWay way;
  if (!transposed) {
    way = ConvWayOf(shape, options.variant, speed);
  } else {
    way.taps_beside = ChooseTapsF32(shape, true, options.variant, false, speed);
  }
  way.taps_beside = way.taps_beside && shape.depth() % 2 == 0;
  if (!way.taps_beside && way.winograd == 0) return std::nullopt;
  const ConvEnds ends = ConvEnds::OfBf16(call, options.isa);
  std::shared_ptr<const AlignedBuffer> owned;
  EVOQ_ASSIGN(const float* const weights,
              PanelsOfConstant(*call.constant(1),
                               transposed ? kConvTransposeLayoutF32 : kConvLayoutF32, owned));
  if (way.taps_beside)
    return BindTapsF32(shape, transposed, weights, activation, call.has_input(2), call.has_input(3),
                       options, ends);
  BoundKernel bound = BindWinogradF32(shape, way.winograd, *call.constant(1), weights, activation,
                                      call.has_input(2), call.has_input(3), options, ends);
  bound.plan.widened = true;
  return bound;
}

std::vector<std::string> ConvVariants(const KernelCall& call, const BindOptions& options) {
  ConvShapeF32 shape;
  if (ReadShape(call, false, shape)) return {};
  return ConvVariantsOf(shape, KernelsFor(options.isa).speed);
}

EVOQ_SMALL_CODE Result<BoundKernel> BindEither(const KernelCall& call, bool transposed,
                                               const BindOptions& options) {
  ConvBf16 state;
  if (const auto why = ReadShape(call, transposed, state.shape))
    return Unsupported("{}", why->sentence);
  const ConvShapeF32& s = state.shape;
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(call.attrs));
  EVOQ_ASSIGN(std::optional<BoundKernel> by_float32,
              BindByFloat32(call, transposed, activation, options, s));
  if (by_float32) return *std::move(by_float32);
  EVOQ_ASSIGN(state.weights, PairPanelsOf(*call.constant(1),
                                          transposed ? kConvTransposeLayoutBf16 : kConvLayoutBf16));
  state.transposed = transposed;
  state.copied = s.depth() % 2 != 0;
  if (state.copied && SoonerInFloat32(s, KernelsFor(options.isa))) {
    state.copied = false;
    EVOQ_ASSIGN(state.weights,
                PanelsOfConstant(*call.constant(1), kConvLayoutF32, state.float_weights));
    state.widen = Bf16TableFor(options.isa).widen;
    state.narrow = s;
    state.shape = OverPadded(s);
  }
  state.has_bias = call.has_input(2);
  state.has_residual = call.has_input(3);
  if (transposed) {
    for (int64_t i = 0; i < s.phases(); ++i)
      AddPhase(call, options, activation, ConvPhaseAxes(s, i), state);
  } else {
    AddPhase(call, options, activation, ConvAxes(s), state);
  }
  state.layout = &PairLayoutFor(options.isa);
  KernelPlan plan;
  if (!state.phases.empty()) plan = state.phases[0].plan.Describe();
  plan.widened = state.in_float32();
  if (plan.widened) plan.method = kInFloat32;
  const size_t scratch = state.scratch_bytes();
  return BoundKernel::Of(std::move(state), scratch, std::move(plan));
}

template <bool kTransposed>
Result<BoundKernel> BindConv(const KernelCall& call, const BindOptions& options) {
  return BindEither(call, kTransposed, options);
}

}  // namespace

extern const KernelDef kConvBf16;
const KernelDef kConvBf16 = {
    .name = "conv_bf16",
    .op = "Conv",
    .precision = Precision::kBf16,
    .peak = Peak::kBf16,
    .reject = RejectConv<false>,
    .pack = PackConv<false>,
    .bind = BindConv<false>,
    .variants = ConvVariants,
};
extern const KernelDef kConvTransposeBf16;
const KernelDef kConvTransposeBf16 = {
    .name = "conv_transpose_bf16",
    .op = "ConvTranspose",
    .precision = Precision::kBf16,
    .peak = Peak::kBf16,
    .reject = RejectConv<true>,
    .pack = PackConv<true>,
    .bind = BindConv<true>,
};

}  // namespace evoq
