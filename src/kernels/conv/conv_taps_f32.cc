#include "kernels/conv/conv_taps_f32.h"

#include "base/aligned.h"
#include "base/math.h"
#include "kernels/gemm/gemm_float.h"

namespace evoq {
namespace {

constexpr int64_t kBandBytes = 256 << 10;  // of p: half of a small L2 cache

struct ConvTapsF32 {
  TapSums sums;
  int64_t depth;
  AlignedBuffer weights;  // [columns / 16][depth][16]
  Activation activation;
  CurveF32 curve;
  bool has_bias, has_residual;
  GemmPlan plan;  // of one band

  int64_t band_floats() const { return RoundUp(sums.rows() * sums.columns(), int64_t{16}); }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    context.pool.ParallelFor(sums.bands(), 1, [&](int64_t begin, int64_t end, int thread) {
      float* const p = reinterpret_cast<float*>(context.scratch) + thread * band_floats();
      for (int64_t i = begin; i < end; ++i) RunBand(sums.BandOf(i), in, out, p);
    });
  }

  void RunBand(const TapSums::Band& band, const void* const* in, void* const* out, float* p) const {
    const DenseRowsF32 rows = {static_cast<const float*>(in[0]) + band.first_row * depth, depth,
                               sums.columns(), kPanelF32};
    GemmJob job = {};
    job.source = &rows;
    job.fill = DenseRowsF32::Fill;
    job.b = reinterpret_cast<const float*>(weights.data());
    job.column_end = sums.columns();
    job.y = p;
    for (int64_t i = 0; i < plan.tasks(); ++i) RunGemmTask(plan, job, i);
    for (int64_t line = band.lines.begin; line < band.lines.end; ++line) {
      const int64_t place = sums.Place(band, line, band.pixels.begin),
                    n = band.pixels.size() * sums.channels();
      float* const row = static_cast<float*>(out[0]) + place;
      for (int64_t i = 0; i < n; ++i)
        row[i] = has_bias ? static_cast<const float*>(in[2])[i % sums.channels()] : 0.0f;
      sums.Add(band, p, line, band.pixels, row);
      Finish(has_residual ? static_cast<const float*>(in[3]) + place : nullptr, row, n);
    }
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

}  // namespace

bool ChooseTapsF32(const ConvShapeF32& s, bool transposed, std::string_view variant,
                   bool winograd) {
  constexpr TapSumsCosts kCosts = {.addition = 26, .pixel = 0};  // measured on a Zen 5, as all here
  constexpr double kGain = 1.15, kWinogradGain = 2.3;
  if (!variant.empty()) return variant == kTapsBeside && FitsTapSums(s, transposed);
  return TapSumsGain(s, transposed, kCosts) > (winograd ? kWinogradGain : kGain);
}

BoundKernel BindTapsF32(const ConvShapeF32& shape, bool transposed, const float* panels,
                        const Activation& activation, bool has_bias, bool has_residual,
                        const BindOptions& options) {
  const TapSums sums(shape, transposed, kBandBytes, options.threads);
  const int64_t depth = shape.channels_in;
  GemmSizes sizes;
  sizes.rows = sums.rows();
  sizes.columns = sums.columns();
  sizes.taps = 1;
  sizes.depth = depth;
  sizes.panel_stride = depth * kPanelF32;
  sizes.row_bytes = depth * static_cast<int64_t>(sizeof(float));
  BindOptions alone = options;
  alone.threads = 1;
  alone.variant = {};
  ConvTapsF32 c{sums,
                depth,
                TapsBeside(shape, panels),
                activation,
                CurveForF32(activation, options.isa),
                has_bias,
                has_residual,
                PlanGemm(sizes, GemmTypesF32(options.isa), Activation(), alone)};
  KernelPlan described = c.plan.Describe();
  described.method = kTapsBeside;
  const auto scratch = static_cast<size_t>(options.threads * c.band_floats()) * sizeof(float);
  return BoundKernel::Of(std::move(c), scratch, std::move(described));
}

}  // namespace evoq
