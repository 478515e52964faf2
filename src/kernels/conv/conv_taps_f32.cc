#include "kernels/conv/conv_taps_f32.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

#include "base/aligned.h"
#include "base/math.h"
#include "kernels/gemm/gemm_float.h"
#include "kernels/parallel.h"

namespace evoq {
namespace {

constexpr int64_t kBandBytes = 256 << 10;  // of p: half of a small L2 cache

// Places [begin, end) of one axis.
struct Span {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// One axis. Output o reads input i by tap k where i = o * stride + k * dilation - pad; of a
// transposed convolution where o = i * stride + k * dilation - pad.
struct Axis {
  int64_t in = 1, out = 1, taps = 1, stride = 1, dilation = 1, pad = 0;
  bool transposed = false;

  // What tap k adds: to outputs first, first + step, ..., `count` of them inside `outs`, from
  // inputs from, from + from_step, ...
  struct Walk {
    int64_t first, step, from, from_step, count;
  };
  Walk Of(int64_t k, Span outs) const {
    const int64_t delta = k * dilation - pad;
    if (!transposed) {
      const int64_t low = std::max(outs.begin, CeilDiv(std::max<int64_t>(-delta, 0), stride)),
                    high = in - 1 - delta < 0 ? outs.begin
                                              : std::min(outs.end, (in - 1 - delta) / stride + 1);
      return {low, 1, low * stride + delta, stride, std::max<int64_t>(high - low, 0)};
    }
    const int64_t low = CeilDiv(std::max<int64_t>(outs.begin - delta, 0), stride),
                  high = outs.end - 1 - delta < 0
                             ? 0
                             : std::min(in, (outs.end - 1 - delta) / stride + 1);
    return {low * stride + delta, stride, low, 1, std::max<int64_t>(high - low, 0)};
  }
  // The input that output o, which tap k reaches, reads by it.
  int64_t FromOf(int64_t k, int64_t o) const {
    const int64_t delta = k * dilation - pad;
    return transposed ? (o - delta) / stride : o * stride + delta;
  }
  // The taps that reach pixels of one distance from a multiple of the stride: all, where it is not
  // transposed.
  int64_t PhaseOf(int64_t k) const {
    return transposed ? ((k * dilation - pad) % stride + stride) % stride : 0;
  }
  // The inputs that any of these outputs reads.
  Span ReadBy(Span outs) const {
    Span all{in, 0};
    for (int64_t k = 0; k < taps; ++k) {
      const Walk walk = Of(k, outs);
      if (walk.count == 0) continue;
      all.begin = std::min(all.begin, walk.from);
      all.end = std::max(all.end, walk.from + (walk.count - 1) * walk.from_step + 1);
    }
    return all.begin < all.end ? all : Span{0, 0};
  }
};

constexpr int64_t kMostTaps = 256;  // whose results are added up at once

// to[i * to_step + m] += the sum of p[offsets[j] + i * from_step + m] over j, one after the other.
using AddAtOnce = void (*)(const float* p, const int64_t* offsets, int taps, float* to,
                           int64_t to_step, int64_t from_step, int64_t count);
template <int kChannels>
void AddPixels(const float* p, const int64_t* offsets, int taps, float* to, int64_t to_step,
               int64_t from_step, int64_t count) {
  for (int64_t i = 0; i < count; ++i, p += from_step, to += to_step) {
    float sum[kChannels];
    for (int m = 0; m < kChannels; ++m) sum[m] = to[m];
    for (int j = 0; j < taps; ++j) {
      for (int m = 0; m < kChannels; ++m) sum[m] += p[offsets[j] + m];
    }
    for (int m = 0; m < kChannels; ++m) to[m] = sum[m];
  }
}
constexpr AddAtOnce kAddAtOnce[] = {nullptr, AddPixels<1>, AddPixels<2>, AddPixels<3>,
                                    AddPixels<4>};

// Taps along a line that reach the same pixels of y, every stride-th one where it is transposed.
struct Phase {
  std::vector<int64_t> taps;
  AddAtOnce adds = nullptr;
};

struct ConvTapsF32 {
  ConvShapeF32 shape;
  Axis y, x;
  std::vector<Phase> phases;
  AlignedBuffer weights;  // [columns / 16][channels in][16]
  Activation activation;
  CurveF32 curve = nullptr;
  bool has_bias = false, has_residual = false;
  bool by_lines = false;                     // bands are of lines, not of pixels of the only one
  int64_t band = 1, bands = 1, band_in = 1;  // places along the axis that is cut, and bands
  GemmPlan plan;                             // of one band

  int64_t columns() const { return y.taps * x.taps * shape.channels_out; }
  int64_t line_in() const { return by_lines ? x.in : 1; }  // pixels to a place of a band
  int64_t band_floats() const { return RoundUp(band_in * line_in() * columns(), int64_t{16}); }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    context.pool.ParallelFor(shape.batch * bands, 1, [&](int64_t begin, int64_t end, int thread) {
      float* const p = reinterpret_cast<float*>(context.scratch) + thread * band_floats();
      for (int64_t i = begin; i < end; ++i) RunBand(i / bands, i % bands, in, out, p);
    });
  }

  void RunBand(int64_t n, int64_t at, const void* const* in, void* const* out, float* p) const {
    const Axis& cut = by_lines ? y : x;
    const Span outs{at * band, std::min((at + 1) * band, cut.out)};
    Span ins = cut.ReadBy(outs);
    // A product has as many rows in every band.
    ins.begin = std::min(ins.begin, cut.in - band_in);
    const int64_t first = n * y.in * x.in + ins.begin * line_in();
    const DenseRowsF32 rows = {static_cast<const float*>(in[0]) + first * shape.channels_in,
                               shape.channels_in, columns(), kPanelF32};
    GemmJob job = {};
    job.source = &rows;
    job.fill = DenseRowsF32::Fill;
    job.b = reinterpret_cast<const float*>(weights.data());
    job.column_end = columns();
    job.y = p;
    for (int64_t i = 0; i < plan.tasks(); ++i) RunGemmTask(plan, job, i);

    const Span lines = by_lines ? outs : Span{0, y.out}, pixels = by_lines ? Span{0, x.out} : outs;
    for (int64_t line = lines.begin; line < lines.end; ++line) {
      const int64_t to = ((n * y.out + line) * x.out + pixels.begin) * shape.channels_out;
      float* const row = static_cast<float*>(out[0]) + to;
      Start(in, row, pixels.size());
      // From the input's pixel 0 of the first line in p.
      const float* const from = by_lines ? p : p - ins.begin * columns();
      for (const Phase& phase : phases)
        AddPhase(phase, from, by_lines ? ins.begin : 0, line, pixels, row);
      Finish(has_residual ? static_cast<const float*>(in[3]) + to : nullptr, row,
             pixels.size() * shape.channels_out);
    }
  }

  void Start(const void* const* in, float* row, int64_t pixels) const {
    const auto* const bias = has_bias ? static_cast<const float*>(in[2]) : nullptr;
    for (int64_t i = 0; i < pixels; ++i) {
      for (int64_t m = 0; m < shape.channels_out; ++m)
        row[i * shape.channels_out + m] = bias == nullptr ? 0.0f : bias[m];
    }
  }

  // Adds what taps of a phase give to a line of y. Pixels that all of its taps along the line reach
  // are added up at once, those beside them tap by tap, in the same order.
  void AddPhase(const Phase& phase, const float* p, int64_t first_line, int64_t line, Span pixels,
                float* row) const {
    Axis::Walk inner = x.Of(phase.taps[0], pixels);
    int64_t end = inner.first + inner.count * inner.step;
    for (int64_t k : phase.taps) {
      const Axis::Walk walk = x.Of(k, pixels);
      inner.first = std::max(inner.first, walk.first);
      end = std::min(end, walk.first + walk.count * walk.step);
    }
    inner.count = CeilDiv(std::max<int64_t>(end - inner.first, 0), inner.step);
    const bool at_once = inner.count > 0 && phase.adds != nullptr;
    int64_t offsets[kMostTaps];
    int count = 0;
    for (int64_t ky = 0; ky < y.taps; ++ky) {
      const Axis::Walk lines = y.Of(ky, {line, line + 1});
      if (lines.count == 0) continue;
      const int64_t from =
          (lines.from - first_line) * x.in * columns() + ky * x.taps * shape.channels_out;
      for (int64_t k : phase.taps) {
        const float* const tap = p + from + k * shape.channels_out;
        if (at_once) {
          AddTap(k, {pixels.begin, inner.first}, tap, pixels.begin, row);
          AddTap(k, {end, pixels.end}, tap, pixels.begin, row);
          offsets[count++] = from + k * shape.channels_out + x.FromOf(k, inner.first) * columns();
        } else {
          AddTap(k, pixels, tap, pixels.begin, row);
        }
      }
    }
    if (count > 0)
      phase.adds(p, offsets, count, row + (inner.first - pixels.begin) * shape.channels_out,
                 inner.step * shape.channels_out, inner.from_step * columns(), inner.count);
  }

  // One tap at these pixels of y; `p`: of the input's pixel 0.
  void AddTap(int64_t k, Span pixels, const float* p, int64_t row_begin, float* row) const {
    const int64_t channels = shape.channels_out;
    const Axis::Walk walk = x.Of(k, pixels);
    const float* from = p + walk.from * columns();
    float* to = row + (walk.first - row_begin) * channels;
    const int64_t from_step = walk.from_step * columns(), to_step = walk.step * channels;
    for (int64_t i = 0; i < walk.count; ++i, from += from_step, to += to_step) {
      for (int64_t m = 0; m < channels; ++m) to[m] += from[m];
    }
  }

  void Finish(const float* residual, float* row, int64_t n) const {
    if (residual != nullptr) {
      for (int64_t i = 0; i < n; ++i) row[i] += residual[i];
    }
    if (curve != nullptr) {
      curve(row, n);
    } else if (activation.kind != ActivationKind::kNone) {
      for (int64_t i = 0; i < n; ++i) row[i] = Apply(activation, row[i]);
    }
  }
};

Axis AxisOf(const ConvShapeF32& s, int axis, bool transposed) {
  return {s.in[axis],       s.out[axis], s.kernel[axis], s.stride[axis],
          s.dilation[axis], s.pad[axis], transposed};
}

}  // namespace

bool FitsTapsF32(const ConvShapeF32& s, bool transposed) {
  return s.group == 1 && s.taps() > 1 && s.kernel[0] == 1 && s.in[0] == 1 && s.out[0] == 1 &&
         s.pad[0] == 0 && s.channels_in > 0 && s.channels_out > 0 && s.in[1] > 0 && s.in[2] > 0 &&
         s.out[1] > 0 && s.out[2] > 0 && (!transposed || s.stride[0] == 1);
}

bool ChooseTapsF32(const ConvShapeF32& s, bool transposed, std::string_view variant,
                   bool winograd) {
  if (!FitsTapsF32(s, transposed)) return false;
  if (!variant.empty()) return variant == kTapsBeside;
  const auto lanes = [](int64_t columns) {
    return static_cast<double>(RoundUp(columns, int64_t{kPanelF32}));
  };
  // Multiply-adds of whole registers, each sum counted as so many (measured on a Zen 5).
  constexpr double kAddition = 26, kGain = 1.15, kWinogradGain = 2.3;
  const auto pixels = [](const std::array<int64_t, 3>& sizes) {
    return static_cast<double>(sizes[1]) * static_cast<double>(sizes[2]);
  };
  const double taps = static_cast<double>(s.taps()), depth = static_cast<double>(s.channels_in),
               sums = (transposed ? pixels(s.in) : pixels(s.out)) * taps;
  return (winograd ? kWinogradGain : kGain) *
             (pixels(s.in) * depth * lanes(s.taps() * s.channels_out) +
              kAddition * sums * static_cast<double>(s.channels_out)) <
         sums * depth * lanes(s.channels_out);
}

BoundKernel BindTapsF32(const ConvShapeF32& shape, bool transposed, const float* panels,
                        const Activation& activation, bool has_bias, bool has_residual,
                        const BindOptions& options) {
  ConvTapsF32 c;
  c.shape = shape;
  c.y = AxisOf(shape, 1, transposed), c.x = AxisOf(shape, 2, transposed);
  c.activation = activation;
  c.curve = CurveForF32(activation, options.isa);
  c.has_bias = has_bias, c.has_residual = has_residual;
  const int64_t columns = c.columns(), depth = shape.channels_in, out = shape.channels_out;
  c.weights = AlignedBuffer::Zeros(
      static_cast<size_t>(CeilDiv(columns, int64_t{kPanelF32}) * depth * kPanelF32) *
      sizeof(float));
  auto* const to = reinterpret_cast<float*>(c.weights.data());
  for (int64_t column = 0; column < columns; ++column) {
    const int64_t tap = column / out, m = column % out;
    const float* from =
        panels + (m / kPanelF32 * shape.taps() + tap) * depth * kPanelF32 + m % kPanelF32;
    float* at = to + column / kPanelF32 * depth * kPanelF32 + column % kPanelF32;
    for (int64_t k = 0; k < depth; ++k) at[k * kPanelF32] = from[k * kPanelF32];
  }
  std::map<int64_t, std::vector<int64_t>> phases;
  for (int64_t k = 0; k < c.x.taps; ++k) phases[c.x.PhaseOf(k)].push_back(k);
  for (auto& [place, taps] : phases) {
    const bool few = out < static_cast<int64_t>(std::size(kAddAtOnce)) &&
                     c.y.taps * static_cast<int64_t>(taps.size()) <= kMostTaps;
    c.phases.push_back({std::move(taps), few ? kAddAtOnce[out] : nullptr});
  }
  c.by_lines = c.y.out > 1 || c.y.in > 1;
  const Axis& cut = c.by_lines ? c.y : c.x;
  // As many outputs as read inputs whose p fills a band, and enough bands for all threads.
  const int64_t in_places = std::max<int64_t>(
      kBandBytes / static_cast<int64_t>(sizeof(float)) / (c.line_in() * columns), 1);
  c.band = std::clamp<int64_t>(in_places * cut.out / cut.in, 1, cut.out);
  c.bands = CeilDiv(cut.out, c.band);
  if (options.threads > 1 && c.bands * shape.batch % options.threads != 0) {
    c.bands = std::min(RoundUp(c.bands, int64_t{options.threads}), cut.out);
  }
  c.band = CeilDiv(cut.out, c.bands);
  c.bands = CeilDiv(cut.out, c.band);
  for (int64_t i = 0; i < c.bands; ++i)
    c.band_in =
        std::max(c.band_in, cut.ReadBy({i * c.band, std::min((i + 1) * c.band, cut.out)}).size());
  GemmSizes sizes;
  sizes.rows = c.band_in * c.line_in();
  sizes.columns = columns;
  sizes.taps = 1;
  sizes.depth = depth;
  sizes.panel_stride = depth * kPanelF32;
  sizes.row_bytes = depth * static_cast<int64_t>(sizeof(float));
  BindOptions alone = options;
  alone.threads = 1;
  alone.variant = {};
  c.plan = PlanGemm(sizes, GemmTypesF32(options.isa), Activation(), alone);
  KernelPlan described = c.plan.Describe();
  described.method = kTapsBeside;
  const auto scratch = static_cast<size_t>(options.threads * c.band_floats()) * sizeof(float);
  return BoundKernel::Of(std::move(c), scratch, std::move(described));
}

}  // namespace evoq
