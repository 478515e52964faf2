#include "kernels/conv/conv_taps_f32.h"

#include "base/aligned.h"
#include "base/math.h"
#include "kernels/gemm/gemm_bf16.h"

namespace evoq {
namespace {

constexpr int64_t kBandBytes = 256 << 10;  // of p: half of a small L2 cache

struct ConvTapsF32 {
  TapSums sums;
  ConvEnds ends;
  int64_t units;          // of a pixel: its channels, or pairs of them
  AlignedBuffer weights;  // [columns / 16][units][16]
  Activation activation;
  CurveF32 curve;
  bool has_bias, has_residual;
  GemmPlan plan;  // of one band

  int64_t band_floats() const { return RoundUp(sums.rows() * sums.columns(), int64_t{16}); }
  // Of a line of y, and of its residual, as float32.
  int64_t line_floats() const {
    return ends.bf16 == nullptr ? 0 : RoundUp(sums.line() * sums.channels(), int64_t{16});
  }
  int64_t thread_floats() const { return band_floats() + 2 * line_floats(); }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    context.pool.ParallelFor(sums.bands(), 1, [&](int64_t begin, int64_t end, int thread) {
      float* const p = reinterpret_cast<float*>(context.scratch) + thread * thread_floats();
      for (int64_t i = begin; i < end; ++i) RunBand(sums.BandOf(i), in, out, p);
    });
  }

  void RunBand(const TapSums::Band& band, const void* const* in, void* const* out, float* p) const {
    const DenseRowsF32 rows = {static_cast<const float*>(in[0]) + band.first_row * units, units,
                               sums.columns(), kPanelF32};
    GemmJob job = {};
    job.source = &rows;
    job.fill = DenseRowsF32::Fill;
    job.b = reinterpret_cast<const float*>(weights.data());
    job.column_end = sums.columns();
    job.y = p;
    for (int64_t i = 0; i < plan.tasks(); ++i) RunGemmTask(plan, job, i);
    float* const wide = p + band_floats();
    for (int64_t line = band.lines.begin; line < band.lines.end; ++line) {
      const int64_t place = sums.Place(band, line, band.pixels.begin),
                    n = band.pixels.size() * sums.channels();
      float* const row = ends.y_bf16 ? wide : static_cast<float*>(out[0]) + place;
      for (int64_t i = 0; i < n; ++i)
        row[i] = has_bias ? static_cast<const float*>(in[2])[i % sums.channels()] : 0.0f;
      sums.Add(band, p, line, band.pixels, row);
      Finish(has_residual ? Residual(in[3], place, n, wide + line_floats()) : nullptr, row, n);
      if (ends.y_bf16) ends.bf16->narrow(row, static_cast<uint16_t*>(out[0]) + place, n);
    }
  }

  const float* Residual(const void* residual, int64_t place, int64_t n, float* wide) const {
    if (!ends.residual_bf16) return static_cast<const float*>(residual) + place;
    ends.bf16->widen(static_cast<const uint16_t*>(residual) + place, wide, n);
    return wide;
  }

  void Finish(const float* residual, float* row, int64_t n) const {
    if (residual != nullptr) {
      for (int64_t i = 0; i < n; ++i) row[i] += residual[i];
    }
    const float low = activation.alpha, high = activation.beta;
    switch (activation.kind) {
      case ActivationKind::kNone: break;
      case ActivationKind::kRelu:
        for (int64_t i = 0; i < n; ++i) row[i] = row[i] < 0 ? 0 : row[i];
        break;
      case ActivationKind::kClip:
        for (int64_t i = 0; i < n; ++i) {
          const float v = row[i] < low ? low : row[i];
          row[i] = v > high ? high : v;
        }
        break;
      case ActivationKind::kLeakyRelu:
        for (int64_t i = 0; i < n; ++i) row[i] = row[i] < 0 ? row[i] * low : row[i];
        break;
      default: curve(row, n);
    }
  }
};

// Column t * out + m is the weight's column m of tap t.
AlignedBuffer TapsBeside(const ConvShapeF32& s, const float* panels) {
  const int64_t depth = s.channels_in, columns = s.taps() * s.channels_out,
                lines = CeilDiv(columns, int64_t{kPanelF32}) * depth;
  AlignedBuffer beside =
      AlignedBuffer::Zeros(static_cast<size_t>(lines * kPanelF32) * sizeof(float));
  auto* const to = reinterpret_cast<float*>(beside.data());
  for (int64_t column = 0; column < columns; ++column) {
    const int64_t tap = column / s.channels_out, m = column % s.channels_out;
    const float* from =
        panels + (m / kPanelF32 * s.taps() + tap) * depth * kPanelF32 + m % kPanelF32;
    float* at = to + column / kPanelF32 * depth * kPanelF32 + column % kPanelF32;
    for (int64_t k = 0; k < depth; ++k) at[k * kPanelF32] = from[k * kPanelF32];
  }
  return beside;
}

// The same in pairs of bfloat16, [columns / 16][depth / 2][16][2]: the upper halves.
AlignedBuffer InPairs(const AlignedBuffer& floats) {
  AlignedBuffer pairs(floats.size() / 2);
  const auto* const from = reinterpret_cast<const uint16_t*>(floats.data());
  auto* const to = reinterpret_cast<uint16_t*>(pairs.data());
  const auto count = static_cast<int64_t>(pairs.size() / sizeof(uint16_t));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t line = i / (2 * kPanelF32) * 2 + i % 2, column = i / 2 % kPanelF32;
    to[i] = from[2 * (line * kPanelF32 + column) + 1];
  }
  return pairs;
}

}  // namespace

bool ChooseTapsF32(const ConvShapeF32& s, bool transposed, std::string_view variant, bool winograd,
                   double speed) {
  // Measured on a Zen 5, as all here.
  const TapSumsCosts costs = {.addition = 26 * speed, .pixel = 0};
  constexpr double kGain = 1.15, kWinogradGain = 2.3;
  if (!variant.empty()) return variant == kTapsBeside && FitsTapSums(s, transposed);
  return TapSumsGain(s, transposed, costs) > (winograd ? kWinogradGain : kGain);
}

BoundKernel BindTapsF32(const ConvShapeF32& shape, bool transposed, const float* panels,
                        const Activation& activation, bool has_bias, bool has_residual,
                        const BindOptions& options, const ConvEnds& ends) {
  const TapSums sums(shape, transposed, kBandBytes, options.threads);
  const bool pairs = ends.bf16 != nullptr;
  const int64_t units = shape.channels_in / (pairs ? 2 : 1);
  GemmSizes sizes;
  sizes.rows = sums.rows();
  sizes.columns = sums.columns();
  sizes.taps = 1;
  sizes.depth = units;
  sizes.panel_stride = units * kPanelF32;
  sizes.row_bytes = units * static_cast<int64_t>(sizeof(float));
  BindOptions alone = options;
  alone.threads = 1;
  alone.variant = {};
  AlignedBuffer weights = TapsBeside(shape, panels);
  if (pairs) weights = InPairs(weights);
  const GemmTypes types = pairs ? GemmTypesBf16(options.isa) : GemmTypesF32(options.isa);
  ConvTapsF32 c{sums,
                ends,
                units,
                std::move(weights),
                activation,
                CurveForF32(activation, options.isa),
                has_bias,
                has_residual,
                PlanGemm(sizes, types, Activation(), alone)};
  KernelPlan described = c.plan.Describe();
  described.method = kTapsBeside;
  const auto scratch = static_cast<size_t>(options.threads * c.thread_floats()) * sizeof(float);
  return BoundKernel::Of(std::move(c), scratch, std::move(described));
}

}  // namespace evoq
