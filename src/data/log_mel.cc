#include "data/log_mel.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/budget_scope.h"

namespace evoq {
namespace {

// The mel scale is straight up to 1000 Hz, which are 15 mel, and logarithmic from there on: 27 mel
// make a factor of 6.4.
constexpr double kBreakHz = 1000, kBreakMel = 15, kFactor = 6.4, kMelOfFactor = 27;

double ToMel(double hz) {
  if (hz < kBreakHz) return hz * kBreakMel / kBreakHz;
  return kBreakMel + std::log(hz / kBreakHz) * kMelOfFactor / std::log(kFactor);
}
double ToHz(double mel) {
  if (mel < kBreakMel) return mel * kBreakHz / kBreakMel;
  return kBreakHz * std::exp((mel - kBreakMel) * std::log(kFactor) / kMelOfFactor);
}

// Weights of one bin's frequencies [begin, begin + weights.size()).
struct Triangle {
  size_t begin = 0;
  std::vector<double> weights;
};

std::vector<Triangle> Triangles(const LogMel& o) {
  constexpr double kMostHz = 8000;
  const double top = ToMel(kMostHz), half = static_cast<double>(o.rate / 2);
  const auto corner = [&](int64_t i) {
    return ToHz(top * static_cast<double>(i) / static_cast<double>(o.bins + 1));
  };
  std::vector<Triangle> triangles(static_cast<size_t>(o.bins));
  for (int64_t b = 0; b < o.bins; ++b) {
    const double left = corner(b), peak = corner(b + 1), right = corner(b + 2);
    Triangle& triangle = triangles[static_cast<size_t>(b)];
    for (int64_t k = 0; k <= o.window / 2; ++k) {
      const double hz = half * static_cast<double>(k) / static_cast<double>(o.window / 2);
      const double weight = std::min((hz - left) / (peak - left), (right - hz) / (right - peak));
      if (weight <= 0) continue;
      if (triangle.weights.empty()) triangle.begin = static_cast<size_t>(k);
      triangle.weights.push_back(weight * 2 / (right - left));
    }
  }
  return triangles;
}

// |X|^2 of a frame of real numbers: cosines of what is even, sines of what is odd around its
// middle.
class Spectrum {
 public:
  explicit Spectrum(size_t window)
      : window_(window),
        half_(window / 2),
        hann_(window),
        cosines_((half_ + 1) * (half_ + 1)),
        sines_((half_ + 1) * (half_ + 1)),
        real_(half_ + 1),
        imaginary_(half_ + 1) {
    const double turn = 2 * std::numbers::pi / static_cast<double>(window);
    for (size_t n = 0; n < window; ++n) hann_[n] = 0.5 - 0.5 * std::cos(turn * double(n));
    for (size_t n = 0; n <= half_; ++n) {
      for (size_t k = 0; k <= half_; ++k) {
        const double angle = turn * static_cast<double>(n * k % window);
        cosines_[n * (half_ + 1) + k] = std::cos(angle);
        sines_[n * (half_ + 1) + k] = std::sin(angle);
      }
    }
  }

  // `at`: n -> the sample.
  template <typename At>
  const std::vector<double>& Energies(const At& at) {
    std::ranges::fill(real_, 0.0);
    std::ranges::fill(imaginary_, 0.0);
    const auto add = [&](size_t n, double even, double odd) {
      const double *const c = &cosines_[n * (half_ + 1)], *const s = &sines_[n * (half_ + 1)];
      for (size_t k = 0; k <= half_; ++k) {
        real_[k] += even * c[k];
        imaginary_[k] += odd * s[k];
      }
    };
    add(0, hann_[0] * at(0), 0);
    add(half_, hann_[half_] * at(half_), 0);
    for (size_t n = 1; n < half_; ++n) {
      const double a = hann_[n] * at(n), b = hann_[window_ - n] * at(window_ - n);
      if (a != 0 || b != 0) add(n, a + b, a - b);
    }
    for (size_t k = 0; k <= half_; ++k)
      real_[k] = real_[k] * real_[k] + imaginary_[k] * imaginary_[k];
    return real_;
  }

 private:
  size_t window_, half_;
  std::vector<double> hann_, cosines_, sines_, real_, imaginary_;
};

}  // namespace

Result<Tensor> LogMelOf(std::span<const float> samples, const LogMel& o) {
  EVOQ_CHECK(o.window >= 2 && o.window % 2 == 0 && o.hop >= 1 && o.bins >= 1 && o.frames >= 1 &&
                 o.rate >= 1,
             "{} {} {} {} {}", o.window, o.hop, o.bins, o.frames, o.rate);
  EVOQ_TRY(SpendMemory(o.frames * o.bins * 4 + 8 * o.window * o.window, "features of a sound"));
  const int64_t length = o.frames * o.hop, half = o.window / 2;
  const std::vector<Triangle> triangles = Triangles(o);
  Spectrum spectrum(static_cast<size_t>(o.window));
  Tensor out = Tensor::Allocate(TensorType(DType::kFloat32, Shape{o.frames, o.bins}));
  float* to = out.mutable_data<float>();
  double largest = -HUGE_VAL;
  for (int64_t t = 0; t < o.frames; ++t) {
    const auto& energies = spectrum.Energies([&](size_t n) {
      int64_t at = t * o.hop - half + static_cast<int64_t>(n);
      if (at < 0) at = -at;
      if (at >= length) at = 2 * (length - 1) - at;
      return at >= 0 && at < std::ssize(samples) ? static_cast<double>(samples[at]) : 0.0;
    });
    for (const Triangle& triangle : triangles) {
      double sum = 0;
      for (size_t i = 0; i < triangle.weights.size(); ++i)
        sum += triangle.weights[i] * energies[triangle.begin + i];
      constexpr double kLeast = 1e-10;
      const double e = std::log10(std::max(kLeast, sum));
      largest = std::max(largest, e);
      *to++ = static_cast<float>(e);
    }
  }
  constexpr double kRange = 8, kMove = 4, kDivisor = 4;
  float* const all = out.mutable_data<float>();
  for (int64_t i = 0; i < out.elements(); ++i)
    all[i] = static_cast<float>((std::max<double>(all[i], largest - kRange) + kMove) / kDivisor);
  return out;
}

}  // namespace evoq
