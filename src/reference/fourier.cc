// DFT, STFT, the windows (Hann, Hamming, Blackman) and MelWeightMatrix. Transforms are computed in
// float64.
#include "ops/fourier.h"

#include <cmath>
#include <complex>
#include <numbers>
#include <optional>

#include "base/budget_scope.h"
#include "reference/definition.h"
#include "reference/util.h"

namespace evoq {
namespace {

using Complex = std::complex<double>;
using Signal = std::vector<Complex>;

// Product without the special cases of std::complex for infinities.
Complex Times(const Complex& a, const Complex& b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// e^(-+ 2 pi i k / n)
Complex Root(int64_t k, int64_t n, bool inverse) {
  const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
  return {std::cos(angle), inverse ? std::sin(angle) : -std::sin(angle)};
}

// The transforms of one length, not scaled: X[k] = sum_t x[t] e^(-+ 2 pi i k t / n).
class Fourier {
 public:
  Fourier(int64_t n, bool inverse) : n_(n), inverse_(inverse) {
    if ((n & (n - 1)) == 0) {
      AddRoots(n, inverse, roots_);
    } else {
      MakeChirp();
    }
  }

  void Run(Signal& x) {
    if (n_ <= 1) return;
    if (chirp_.empty()) return InPowersOfTwo(x, roots_);
    for (int64_t k = 0; k < n_; ++k) padded_[k] = Times(x[k], chirp_[k]);
    std::fill(padded_.begin() + n_, padded_.end(), Complex{});
    InPowersOfTwo(padded_, roots_);
    for (size_t k = 0; k < padded_.size(); ++k) padded_[k] = Times(padded_[k], filter_[k]);
    InPowersOfTwo(padded_, inverse_roots_);
    const auto scale = static_cast<double>(padded_.size());
    for (int64_t k = 0; k < n_; ++k) x[k] = Times(padded_[k] / scale, chirp_[k]);
  }

 private:
  // Roots in the order of their use: of each pass the first half of its roots of unity.
  static void AddRoots(int64_t n, bool inverse, Signal& roots) {
    for (int64_t half = 1; half < n; half *= 2) {
      for (int64_t k = 0; k < half; ++k) roots.push_back(Root(k, 2 * half, inverse));
    }
  }

  static void InPowersOfTwo(Signal& x, const Signal& roots) {
    const size_t n = x.size();
    for (size_t i = 1, j = 0; i < n; ++i) {
      size_t bit = n >> 1;
      for (; j & bit; bit >>= 1) j ^= bit;
      j ^= bit;
      if (i < j) std::swap(x[i], x[j]);
    }
    const Complex* root = roots.data();
    for (size_t half = 1; half < n; root += half, half *= 2) {
      for (size_t base = 0; base < n; base += 2 * half) {
        Complex *low = x.data() + base, *high = low + half;
        for (size_t k = 0; k < half; ++k) {
          const Complex odd = Times(high[k], root[k]);
          high[k] = low[k] - odd;
          low[k] += odd;
        }
      }
    }
  }

  // Other lengths by Bluestein: k t = (k^2 + t^2 - (k - t)^2) / 2 makes the transform a
  // convolution, which has a length of a power of two.
  void MakeChirp() {
    size_t padded = 1;
    while (padded < 2 * static_cast<size_t>(n_)) padded *= 2;
    chirp_.resize(static_cast<size_t>(n_));
    padded_.resize(padded);
    filter_.resize(padded);
    AddRoots(static_cast<int64_t>(padded), false, roots_);
    AddRoots(static_cast<int64_t>(padded), true, inverse_roots_);
    for (int64_t k = 0; k < n_; ++k) {
      chirp_[k] = Root(k * k % (2 * n_), 2 * n_, inverse_);
      filter_[k] = std::conj(chirp_[k]);
      if (k > 0) filter_[padded - k] = filter_[k];
    }
    InPowersOfTwo(filter_, roots_);
  }

  int64_t n_;
  bool inverse_;
  Signal roots_, inverse_roots_;
  Signal chirp_, filter_, padded_;  // empty for a power of two
};

// The first half, n / 2 + 1 numbers, of the transform of n real ones by one of n / 2 complex ones:
// z[t] = x[2 t] + i x[2 t + 1] has Z[k] = E[k] + i O[k], the transforms of even and odd places, and
// X[k] = E[k] + e^(-2 pi i k / n) O[k].
class RealFourier {
 public:
  explicit RealFourier(int64_t n) : half_(n / 2, false), z_(static_cast<size_t>(n / 2)) {
    for (int64_t k = 0; k < n / 2; ++k) roots_.push_back(Root(k, n, false));
    roots_.emplace_back(-1, 0);
  }

  void Run(Signal& x) {
    const size_t m = z_.size();
    for (size_t t = 0; t < m; ++t) z_[t] = {x[2 * t].real(), x[2 * t + 1].real()};
    half_.Run(z_);
    for (size_t k = 0; k <= m; ++k) {
      const Complex a = z_[k % m], b = std::conj(z_[(m - k) % m]);
      const Complex odd = Times(roots_[k], {(a - b).imag() / 2, (b - a).real() / 2});
      x[k] = (a + b) / 2.0 + odd;
    }
  }

 private:
  Fourier half_;
  Signal z_, roots_;
};

// The transforms of rows of one kind. Of real numbers only the first half is made.
class RowTransform {
 public:
  RowTransform(int64_t n, bool inverse, bool half) {
    if (half && n > 1 && n % 2 == 0) {
      real_.emplace(n);
    } else {
      all_.emplace(n, inverse);
    }
  }
  void Run(Signal& x) { real_ ? real_->Run(x) : all_->Run(x); }

 private:
  std::optional<RealFourier> real_;
  std::optional<Fourier> all_;
};

// ---- DFT(x, dft_length?, axis?): x is [..., 1 or 2] (real, or real and imaginary), cut or padded
// with zeros to the length.

// Reads `count` complex numbers, `stride` elements apart; the imaginary part follows the real one
// where there are 2 parts.
template <typename T>
void Gather(const T* x, int64_t count, int64_t stride, int64_t parts, Signal& signal) {
  std::fill(signal.begin(), signal.end(), Complex{});
  for (int64_t i = 0; i < count && i < static_cast<int64_t>(signal.size()); ++i)
    signal[i] = {static_cast<double>(x[i * stride]),
                 parts == 2 ? static_cast<double>(x[i * stride + 1]) : 0.0};
}

EvalResult EvaluateDft(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const std::vector<int64_t> axes,
              args.has(2) ? ToInt64s(args.inputs[2])
                          : Result<std::vector<int64_t>>(std::vector<int64_t>{-2}));
  EVOQ_ASSIGN(const DftPlan plan, DftPlanOf(args.node, axes.at(0), x.shape().rank()));
  EVOQ_ASSIGN(Tensor y, AllocateOutput(args.output_types[0]));
  const std::vector<int64_t> in = x.sizes(), out = y.sizes();
  const AxisSplit from = SplitAt(in, plan.axis), to = SplitAt(out, plan.axis);
  int64_t n = plan.onesided && plan.inverse ? 2 * (in[plan.axis] - 1) : in[plan.axis];
  if (args.has(1)) {
    EVOQ_ASSIGN(const std::vector<int64_t> lengths, ToInt64s(args.inputs[1]));
    n = lengths.at(0);
  }
  const int64_t parts = in.back(), out_parts = out.back();
  EVOQ_TRY(SpendMemory(n * 384, "the signal"));
  EVOQ_TRY(SpendWork({from.outer, from.inner, n + 1, 200}, "the transform"));
  return DispatchFloat(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    Signal signal(static_cast<size_t>(n));
    RowTransform transform(n, plan.inverse, parts == 1 && plan.onesided && !plan.inverse);
    for (int64_t row = 0; row < from.outer * (from.inner / parts); ++row) {
      const int64_t outer = row / (from.inner / parts), inner = row % (from.inner / parts);
      Gather(x.data<T>() + outer * from.size * from.inner + inner * parts,
             plan.inverse && plan.onesided ? std::min(from.size, n / 2 + 1) : from.size, from.inner,
             parts, signal);
      if (plan.inverse && plan.onesided) {
        for (int64_t k = n / 2 + 1; k < n; ++k) signal[k] = std::conj(signal[n - k]);
        signal[0].imag(0);
        if (n % 2 == 0) signal[n / 2].imag(0);
      }
      transform.Run(signal);
      T* at = y.mutable_data<T>() + outer * to.size * to.inner + inner * out_parts;
      for (int64_t k = 0; k < to.size; ++k) {
        const Complex v = plan.inverse ? signal[k] / static_cast<double>(n) : signal[k];
        at[k * to.inner] = static_cast<T>(v.real());
        if (out_parts == 2) at[k * to.inner + 1] = static_cast<T>(v.imag());
      }
    }
    return One(std::move(y));
  });
}

// ---- STFT(signal, frame_step, window?, frame_length?): transforms of frames, `frame_step` apart,
// times the window.

EvalResult EvaluateStft(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const std::vector<int64_t> step, ToInt64s(args.inputs[1]));
  EVOQ_ASSIGN(Tensor y, AllocateOutput(args.output_types[0]));
  const std::vector<int64_t> out = y.sizes();
  const int64_t length = x.sizes()[1], parts = x.shape().rank() == 3 ? x.sizes()[2] : 1,
                frames = out[1], bins = out[2];
  int64_t n = args.has(2) ? args.inputs[2].elements() : 0;
  if (args.has(3)) {
    EVOQ_ASSIGN(const std::vector<int64_t> given, ToInt64s(args.inputs[3]));
    n = given.at(0);
  }
  if (args.has(2) && args.inputs[2].elements() != n)
    return InvalidInput("a window of {} values for frames of {}", args.inputs[2].elements(), n);
  if (args.has(2) && args.inputs[2].dtype() != x.dtype())
    return InvalidInput("input 2 is {}, expected the type of input 0",
                        DTypeName(args.inputs[2].dtype()));
  EVOQ_TRY(SpendWork({out[0], frames, n + 1, 200}, "the transforms"));
  return DispatchFloat(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    Signal signal(static_cast<size_t>(n));
    RowTransform transform(n, false, parts == 1 && bins <= n / 2 + 1);
    for (int64_t row = 0; row < out[0] * frames; ++row) {
      const int64_t b = row / frames, begin = row % frames * step[0];
      Gather(x.data<T>() + (b * length + begin) * parts, n, parts, parts, signal);
      if (args.has(2)) {
        for (int64_t i = 0; i < n; ++i)
          signal[i] *= static_cast<double>(args.inputs[2].data<T>()[i]);
      }
      transform.Run(signal);
      for (int64_t k = 0; k < bins; ++k) {
        y.mutable_data<T>()[(row * bins + k) * 2] = static_cast<T>(signal[k].real());
        y.mutable_data<T>()[(row * bins + k) * 2 + 1] = static_cast<T>(signal[k].imag());
      }
    }
    return One(std::move(y));
  });
}

// ---- windows of `size` values: w[k] = a0 - a1 cos(2 pi k / n) + a2 cos(4 pi k / n), n = size
// (periodic) or size - 1.

// float64 values as `dtype`.
Result<Tensor> Stored(const std::vector<double>& values, Shape shape, DType dtype) {
  if (dtype == DType::kFloat16 || dtype == DType::kBfloat16 || IsTinyFloat(dtype)) {
    Tensor wide = Tensor::FromValues<float>(std::move(shape),
                                            std::vector<float>(values.begin(), values.end()));
    return FromFloat32(wide, dtype);
  }
  return DispatchNumber(dtype, [&](auto tag) -> Result<Tensor> {
    using T = decltype(tag);
    Tensor y = Tensor::Allocate(TensorType(dtype, std::move(shape)));
    for (size_t i = 0; i < values.size(); ++i) y.mutable_data<T>()[i] = static_cast<T>(values[i]);
    return y;
  });
}

EvalResult Window(const EvalArgs& args, double a0, double a1, double a2) {
  EVOQ_ASSIGN(const std::vector<int64_t> size, ToInt64s(args.inputs[0]));
  EVOQ_ASSIGN(const DType dtype, SpectrumType(args.node));
  const double n =
      static_cast<double>(size.at(0)) - (args.node.attrs.Int("periodic", 1) != 0 ? 0 : 1);
  std::vector<double> w;
  for (int64_t k = 0; k < size[0]; ++k) {
    const double angle = n > 0 ? 2 * std::numbers::pi * static_cast<double>(k) / n : 0;
    w.push_back(a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle));
  }
  EVOQ_ASSIGN(Tensor y, Stored(w, Shape{size[0]}, dtype));
  return One(std::move(y));
}

EvalResult EvaluateBlackman(const EvalArgs& args) { return Window(args, 0.42, 0.5, 0.08); }
EvalResult EvaluateHamming(const EvalArgs& args) { return Window(args, 25.0 / 46, 21.0 / 46, 0); }
EvalResult EvaluateHann(const EvalArgs& args) { return Window(args, 0.5, 0.5, 0); }

// ---- MelWeightMatrix(num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz):
// triangles over the bins of a spectrum, whose corners are evenly spaced in mel, 2595 log10(1 + f /
// 700).

EvalResult EvaluateMel(const EvalArgs& args) {
  for (const Tensor& t : args.inputs) {
    if (t.elements() != 1) return InvalidInput("input {}, expected one value", t.type().ToString());
  }
  int64_t numbers[3];
  double edges[2];
  for (size_t i = 0; i < 3; ++i) {
    EVOQ_ASSIGN(const std::vector<int64_t> v, ToInt64s(args.inputs[i]));
    numbers[i] = v[0];
  }
  for (size_t i = 0; i < 2; ++i) {
    EVOQ_ASSIGN(const Tensor v, ToFloat32(args.inputs[3 + i]));
    edges[i] = 2595 * std::log10(1 + static_cast<double>(v.data<float>()[0]) / 700);
  }
  EVOQ_ASSIGN(const auto sizes, MelSizes(numbers[0], numbers[1]));
  const auto [bins, mels] = sizes;
  if (numbers[2] < 1) return InvalidInput("a sample rate of {}", numbers[2]);
  const double step = (edges[1] - edges[0]) / static_cast<double>(mels + 2);
  std::vector<int64_t> corners;
  for (int64_t i = 0; i < mels + 2; ++i) {
    const double hertz =
        700 * (std::pow(10.0, (static_cast<double>(i) * step + edges[0]) / 2595) - 1);
    const double bin =
        std::floor(static_cast<double>(numbers[1] + 1) * hertz / static_cast<double>(numbers[2]));
    if (!(bin >= 0 && bin < static_cast<double>(bins)))
      return InvalidInput("edges beyond the spectrum's {} bins", bins);
    corners.push_back(static_cast<int64_t>(bin));
  }
  std::vector<double> y(static_cast<size_t>(bins * mels));
  for (int64_t m = 0; m < mels; ++m) {
    const int64_t low = corners[m], centre = corners[m + 1], high = corners[m + 2];
    if (centre == low) y[centre * mels + m] = 1;
    for (int64_t j = low; centre != low && j <= centre; ++j)
      y[j * mels + m] = static_cast<double>(j - low) / static_cast<double>(centre - low);
    for (int64_t j = centre; j < high; ++j)
      y[j * mels + m] = static_cast<double>(high - j) / static_cast<double>(high - centre);
  }
  EVOQ_ASSIGN(const DType dtype, SpectrumType(args.node));
  EVOQ_ASSIGN(Tensor stored, Stored(y, Shape{bins, mels}, dtype));
  return One(std::move(stored));
}

}  // namespace

namespace reference {

extern const Definition kBlackmanWindow = {.name = "BlackmanWindow", .evaluate = EvaluateBlackman};
extern const Definition kDFT = {.name = "DFT", .evaluate = EvaluateDft};
extern const Definition kHammingWindow = {.name = "HammingWindow", .evaluate = EvaluateHamming};
extern const Definition kHannWindow = {.name = "HannWindow", .evaluate = EvaluateHann};
extern const Definition kMelWeightMatrix = {.name = "MelWeightMatrix", .evaluate = EvaluateMel};
extern const Definition kSTFT = {.name = "STFT", .evaluate = EvaluateStft};

}  // namespace reference
}  // namespace evoq
