#include "kernels/conv/conv_taps_int8.h"

#include <bit>
#include <cstring>

#include "base/math.h"
#include "kernels/layout.h"
#include "kernels/parallel.h"

namespace evoq {
namespace {

constexpr int64_t kBandBytes = 1 << 20;  // of p, which all threads compute
constexpr int64_t kPieceNumbers = 2048;  // of a line, that stay in the L1 cache
constexpr int kMostInputs = 8;           // of a product

struct ConvTapsInt8 {
  TapSums sums;
  BoundKernel product;  // of one band
  Int8LinearSpec spec;
  int64_t depth;
  int threads;
  int64_t piece = 1;  // pixels
  // For each number of a piece; slopes and offsets may be empty.
  std::vector<int32_t> bias;
  std::vector<float> multiplier, slopes, offset;
  int64_t grain = 1;

  int64_t band_bytes() const { return RoundUp(4 * sums.rows() * sums.columns(), int64_t{64}); }
  // A thread's sums and, behind them, real numbers.
  int64_t piece_bytes() const { return RoundUp(4 * piece * sums.channels(), int64_t{64}); }
  // Behind those of all threads: multipliers of this run, and what range each thread found.
  int64_t run_bytes() const {
    return (spec.x_scale_input >= 0 ? piece_bytes() : 0) + threads * kRangeBytes;
  }
  size_t scratch_bytes() const {
    return static_cast<size_t>(band_bytes() + 2 * threads * piece_bytes() + run_bytes()) +
           product.scratch_bytes;
  }

  // The multipliers of one run.
  const float* Multipliers(const void* const* in, std::byte* scratch) const {
    if (spec.x_scale_input < 0) return multiplier.data();
    const float scale = *static_cast<const float*>(in[spec.x_scale_input]);
    auto* const scaled = reinterpret_cast<float*>(scratch);
    for (size_t i = 0; i < multiplier.size(); ++i) scaled[i] = scale * multiplier[i];
    return scaled;
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    std::byte* const p = context.scratch;
    std::byte* const pieces = p + band_bytes();
    std::byte* const of_run = pieces + 2 * threads * piece_bytes();
    const RunContext inner{context.pool, of_run + run_bytes()};
    const float* const multipliers = Multipliers(in, of_run);
    std::byte* const ranges = of_run + run_bytes() - threads * kRangeBytes;
    std::memset(ranges, 0, static_cast<size_t>(threads * kRangeBytes));
    const void* x[kMostInputs] = {};
    if (spec.x_zero_input >= 0) x[spec.x_zero_input] = in[spec.x_zero_input];
    for (int64_t i = 0; i < sums.bands(); ++i) {
      const TapSums::Band band = sums.BandOf(i);
      x[0] = static_cast<const std::byte*>(in[0]) + band.first_row * depth;
      void* y[] = {p};
      product.run(product.state.get(), x, y, inner);
      const int64_t per_line = CeilDiv(band.pixels.size(), piece);
      context.pool.ParallelFor(
          band.lines.size() * per_line, grain, [&](int64_t begin, int64_t end, int thread) {
            for (int64_t at = begin; at < end; ++at)
              RunPiece(band, at, p, pieces + 2 * thread * piece_bytes(), multipliers,
                       reinterpret_cast<float*>(ranges + thread * kRangeBytes), in, out);
          });
    }
    if (spec.finish.range) JoinRanges(ranges, kRangeBytes, threads, static_cast<float*>(out[1]));
  }

  void RunPiece(const TapSums::Band& band, int64_t at, const std::byte* p, std::byte* scratch,
                const float* multipliers, float* range, const void* const* in,
                void* const* out) const {
    const int64_t per_line = CeilDiv(band.pixels.size(), piece),
                  line = band.lines.begin + at / per_line,
                  first = band.pixels.begin + at % per_line * piece;
    const TapSums::Span pixels{first, std::min(first + piece, band.pixels.end)};
    const int64_t n = pixels.size() * sums.channels(), place = sums.Place(band, line, first);
    auto* const acc = reinterpret_cast<uint32_t*>(scratch);
    auto* const real = reinterpret_cast<float*>(scratch + piece_bytes());
    for (int64_t i = 0; i < n; ++i) acc[i] = static_cast<uint32_t>(bias[i]);
    sums.Add(band, reinterpret_cast<const uint32_t*>(p), line, pixels, acc);
    for (int64_t i = 0; i < n; ++i)
      real[i] = static_cast<float>(static_cast<int32_t>(acc[i])) * multipliers[i];
    if (!offset.empty()) {
      for (int64_t i = 0; i < n; ++i) real[i] += offset[i];
    }
    AddResidual(in, place, n, real);
    auto* const y = static_cast<uint8_t*>(out[0]) + place * spec.epilogue.y_bytes();
    Finish(real, n, y);
    if (spec.finish.any()) spec.finish.Rows(y, 1, n, n * spec.epilogue.y_bytes(), range);
  }

  void AddResidual(const void* const* in, int64_t place, int64_t n, float* real) const {
    const Int8Epilogue& e = spec.epilogue;
    const auto add = [&](const auto* r) {
      for (int64_t i = 0; i < n; ++i)
        real[i] += static_cast<float>(r[i] - e.residual_zero) * e.residual_multiplier;
    };
    if (e.residual_type == Int8Residual::kNone) return;
    const void* const r = in[e.residual_input];
    switch (e.residual_type) {
      case Int8Residual::kNone: break;
      case Int8Residual::kUint8: return add(static_cast<const uint8_t*>(r) + place);
      case Int8Residual::kInt8: return add(static_cast<const int8_t*>(r) + place);
      case Int8Residual::kFloat32:
        for (int64_t i = 0; i < n; ++i) real[i] += (static_cast<const float*>(r) + place)[i];
    }
  }

  void Finish(float* real, int64_t n, uint8_t* y) const {
    const Int8Epilogue& e = spec.epilogue;
    if (!slopes.empty()) {
      for (int64_t i = 0; i < n; ++i) real[i] = real[i] < 0 ? real[i] * slopes[i] : real[i];
    }
    if (e.clamp) {
      for (int64_t i = 0; i < n; ++i) {
        const float v = e.low > real[i] ? e.low : real[i];
        real[i] = e.high < v ? e.high : v;
      }
    }
    if (e.output == Int8Output::kFloat32) {
      std::memcpy(y, real, static_cast<size_t>(n) * sizeof(float));
      return;
    }
    constexpr float kMagic = 0x1.8p23f;
    // Inside the clamp the sum's last mantissa bits are the rounded integer.
    for (int64_t i = 0; i < n; ++i)
      y[i] = static_cast<uint8_t>(std::bit_cast<int32_t>(real[i] + kMagic) -
                                  std::bit_cast<int32_t>(kMagic) + e.y_zero);
  }
};

// [columns, C, 1]: column t * out + m is the weight of channel m and tap t.
Tensor TapsBeside(const ConvShapeF32& s, bool transposed, const Tensor& plain) {
  const int64_t out = s.channels_out, depth = s.channels_in, taps = s.taps();
  Tensor beside =
      Tensor::Allocate(TensorType(plain.dtype(), Shape({taps * out, depth, int64_t{1}})));
  std::byte* to = beside.mutable_raw();
  for (int64_t column = 0; column < taps * out; ++column) {
    const int64_t t = column / out, m = column % out;
    for (int64_t c = 0; c < depth; ++c)
      *to++ = plain.raw()[(transposed ? c * out + m : m * depth + c) * taps + t];
  }
  return beside;
}

template <typename T>
std::vector<T> Repeated(const std::vector<T>& values, int64_t times) {
  std::vector<T> all;
  for (int64_t i = 0; i < times; ++i) all.insert(all.end(), values.begin(), values.end());
  return all;
}

}  // namespace

bool ChooseTapsInt8(const ConvShapeF32& s, bool transposed, std::string_view variant) {
  constexpr TapSumsCosts kCosts = {.addition = 55, .pixel = 48};  // measured on a Zen 5
  constexpr double kGain = 1.05;
  if (!variant.empty()) return variant == kTapsBeside && FitsTapSums(s, transposed);
  return TapSumsGain(s, transposed, kCosts) > kGain;
}

Result<BoundKernel> BindTapsInt8(const ConvShapeF32& shape, bool transposed, Int8LinearSpec spec,
                                 const Tensor& weight, const BindOptions& options) {
  ConvTapsInt8 c{
      TapSums(shape, transposed, kBandBytes, 1), {}, {}, shape.channels_in, options.threads};
  Int8LinearSpec product;
  product.geometry.in[2] = product.geometry.out[2] = c.sums.rows();
  product.geometry.channels = shape.channels_in;
  product.geometry.out_channels = c.sums.columns();
  product.x_signed = spec.x_signed;
  product.x_zero = spec.x_zero;
  product.x_zero_input = spec.x_zero_input;
  product.w_zero = spec.w_zero.size() > 1 ? Repeated(spec.w_zero, shape.taps()) : spec.w_zero;
  EVOQ_ASSIGN(const Tensor plain, ToPlain(weight));
  product.weights = TapsBeside(shape, transposed, plain);
  BindOptions own = options;
  own.variant = {};
  EVOQ_ASSIGN(product.weights, kLayoutK4N16Conv.pack(product.weights));
  EVOQ_ASSIGN(c.product, BindInt8Linear(std::move(product), own));
  const int64_t channels = shape.channels_out;
  c.piece = std::max<int64_t>(kPieceNumbers / channels, 1);
  if (spec.bias.empty()) spec.bias.assign(static_cast<size_t>(channels), 0);
  c.bias = Repeated(spec.bias, c.piece);
  c.multiplier = Repeated(spec.epilogue.multiplier, c.piece);
  c.slopes = Repeated(spec.epilogue.slopes, c.piece);
  c.offset = Repeated(spec.offset, c.piece);
  c.spec = std::move(spec);
  c.grain = Grain(shape.batch * shape.out[1] * CeilDiv(shape.out[2], c.piece),
                  static_cast<double>(std::min(c.piece, shape.out[2]) * c.sums.columns()) * 0.2,
                  options.threads);
  KernelPlan described = c.product.plan;
  described.method = kTapsBeside;
  const size_t scratch = c.scratch_bytes();
  return BoundKernel::Of(std::move(c), scratch, std::move(described));
}

}  // namespace evoq
