// DFT, STFT, the windows (Hann, Hamming, Blackman) and MelWeightMatrix. Transforms are computed in
// float64.
#include <cmath>
#include <complex>
#include <numbers>

#include "base/budget_scope.h"
#include "base/math.h"
#include "ops/indexing.h"
#include "ops/util.h"

namespace evoq {
namespace {

using Complex = std::complex<double>;
using Signal = std::vector<Complex>;

constexpr int64_t kMaxLength = int64_t{1} << 26;

// Product without the special cases of std::complex for infinities.
Complex Times(const Complex& a, const Complex& b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// e^(-+ 2 pi i k / n)
Complex Root(int64_t k, int64_t n, bool inverse) {
  const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
  return {std::cos(angle), inverse ? std::sin(angle) : -std::sin(angle)};
}

// In place, for a power of two; not scaled.
void TransformPowerOfTwo(Signal& x, bool inverse) {
  const size_t n = x.size();
  for (size_t i = 1, j = 0; i < n; ++i) {
    size_t bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(x[i], x[j]);
  }
  Signal roots(n / 2);
  for (size_t k = 0; k < roots.size(); ++k)
    roots[k] = Root(static_cast<int64_t>(k), static_cast<int64_t>(n), inverse);
  for (size_t half = 1; half < n; half *= 2) {
    for (size_t base = 0; base < n; base += 2 * half) {
      for (size_t k = 0; k < half; ++k) {
        const Complex odd = Times(x[base + half + k], roots[k * (n / (2 * half))]);
        x[base + half + k] = x[base + k] - odd;
        x[base + k] += odd;
      }
    }
  }
}

// X[k] = sum_t x[t] e^(-+ 2 pi i k t / n), not scaled. Other lengths by Bluestein: k t = (k^2 + t^2
// - (k - t)^2) / 2 makes it a convolution, which has a length of a power of two.
void Transform(Signal& x, bool inverse) {
  const int64_t n = static_cast<int64_t>(x.size());
  if (n <= 1) return;
  if ((n & (n - 1)) == 0) return TransformPowerOfTwo(x, inverse);
  size_t padded = 1;
  while (padded < 2 * x.size()) padded *= 2;
  Signal chirp(n), a(padded), b(padded);
  for (int64_t k = 0; k < n; ++k) chirp[k] = Root(k * k % (2 * n), 2 * n, inverse);
  for (int64_t k = 0; k < n; ++k) {
    a[k] = Times(x[k], chirp[k]);
    b[k] = std::conj(chirp[k]);
    if (k > 0) b[padded - k] = b[k];
  }
  TransformPowerOfTwo(a, false);
  TransformPowerOfTwo(b, false);
  for (size_t k = 0; k < padded; ++k) a[k] = Times(a[k], b[k]);
  TransformPowerOfTwo(a, true);
  for (int64_t k = 0; k < n; ++k) x[k] = Times(a[k] / static_cast<double>(padded), chirp[k]);
}

// ---- DFT(x, dft_length?, axis?): x is [..., 1 or 2] (real, or real and imaginary), cut or padded
// with zeros to the length.

struct DftPlan {
  int axis = 0;
  bool inverse = false, onesided = false;
};

Result<DftPlan> DftPlanOf(const Node& node, int64_t axis, int rank) {
  if (rank < 2) return InvalidInput("input 0 has rank {}, expected 2 or more", rank);
  DftPlan plan;
  EVOQ_ASSIGN(plan.axis, NormalizeAxis(axis, rank));
  if (plan.axis == rank - 1) return InvalidInput("axis {} holds real and imaginary parts", axis);
  plan.inverse = node.attrs.Int("inverse") != 0;
  plan.onesided = node.attrs.Int("onesided") != 0;
  return plan;
}

InferResult InferDft(const InferArgs& args) {
  EVOQ_TRY(CheckFloat(args, 0));
  for (const char* name : {"inverse", "onesided"}) EVOQ_TRY(IntAttr(args.node, name, 0));
  for (size_t i : {1, 2}) {
    if (args.has(i)) EVOQ_TRY(CheckIndexType(args, i));
  }
  const TensorType& x = args.inputs[0];
  EVOQ_ASSIGN(const auto length, ConstantInts(args, 1));
  EVOQ_ASSIGN(const auto axis, ConstantInts(args, 2));
  if (!x.shape.ranked()) return SameAsInput0(args);
  if (args.has(2) && (!axis || axis->size() != 1)) {
    if (axis) return InvalidInput("input 2 has {} axes, expected 1", axis->size());
    return std::vector<TensorType>{TensorType(x.dtype, Shape(std::vector<Dim>(x.shape.rank())))};
  }
  EVOQ_ASSIGN(const DftPlan plan, DftPlanOf(args.node, axis ? (*axis)[0] : -2, x.shape.rank()));
  Shape shape = x.shape;
  Dim size = shape[plan.axis];
  if (plan.inverse && plan.onesided && size.known()) size = Dim(2 * (size.value - 1));
  if (args.has(1)) {
    if (length && length->size() != 1)
      return InvalidInput("input 1 has {} lengths, expected 1", length->size());
    size = length ? Dim((*length)[0]) : Dim();
  }
  if (size.known() && (size.value < 1 || size.value > kMaxLength))
    return InvalidInput("a transform of length {}, expected 1 to {}", size.value, kMaxLength);
  if (plan.onesided && !plan.inverse && size.known()) size = Dim(size.value / 2 + 1);
  shape[plan.axis] = size.known() ? size : Dim();
  const Dim& parts = shape[shape.rank() - 1];
  if (parts.known() && parts.value != 1 && parts.value != 2)
    return InvalidInput("input 0 is {}, expected 1 or 2 parts last", x.ToString());
  shape[shape.rank() - 1] = Dim(plan.inverse && plan.onesided ? 1 : 2);
  return std::vector<TensorType>{TensorType(x.dtype, shape)};
}

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
  EVOQ_TRY(SpendMemory(n * 64, "the signal"));
  EVOQ_TRY(SpendWork({from.outer, from.inner, n + 1, 200}, "the transform"));
  return DispatchFloat(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    Signal signal(static_cast<size_t>(n));
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
      Transform(signal, plan.inverse);
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

struct Frames {
  Dim count, length;
};

Result<Frames> FramesOf(const InferArgs& args) {
  Frames frames;
  for (size_t i : {1, 3}) {
    if (args.has(i)) EVOQ_TRY(CheckIndexType(args, i));
  }
  EVOQ_ASSIGN(const auto step, ConstantInts(args, 1));
  EVOQ_ASSIGN(const auto length, ConstantInts(args, 3));
  if (args.has(3)) {
    if (length && !length->empty()) frames.length = Dim((*length)[0]);
  } else if (args.has(2)) {
    EVOQ_TRY(CheckRank(args, 2, 1));
    if (args.inputs[2].shape.ranked()) frames.length = args.inputs[2].shape[0];
  } else {
    return InvalidInput("neither a window nor a frame_length");
  }
  if (frames.length.known() && (frames.length.value < 1 || frames.length.value > kMaxLength))
    return InvalidInput("frames of {} values, expected 1 to {}", frames.length.value, kMaxLength);
  if (step && (step->size() != 1 || (*step)[0] < 1))
    return InvalidInput("frame_step {}, expected at least 1", step->empty() ? 0 : (*step)[0]);
  const Dim& total = args.inputs[0].shape[1];
  if (!step || !total.known() || !frames.length.known()) return frames;
  if (total.value < frames.length.value)
    return InvalidInput("a signal of {} values, shorter than a frame of {}", total.value,
                        frames.length.value);
  frames.count = Dim(1 + (total.value - frames.length.value) / (*step)[0]);
  return frames;
}

InferResult InferStft(const InferArgs& args) {
  EVOQ_TRY(CheckFloat(args, 0));
  EVOQ_TRY(CheckFloat(args, 2));
  EVOQ_ASSIGN(const int64_t onesided, IntAttr(args.node, "onesided", 1));
  const TensorType& x = args.inputs[0];
  if (!x.shape.ranked()) return SameAsInput0(args);
  if (x.shape.rank() != 2 && x.shape.rank() != 3)
    return InvalidInput("input 0 is {}, expected rank 2 or 3", x.ToString());
  if (x.shape.rank() == 3 && x.shape[2].known() && x.shape[2].value != 1 && x.shape[2].value != 2)
    return InvalidInput("input 0 is {}, expected 1 or 2 parts last", x.ToString());
  EVOQ_ASSIGN(const Frames frames, FramesOf(args));
  Dim bins = frames.length;
  if (onesided != 0 && bins.known()) bins = Dim(bins.value / 2 + 1);
  return std::vector<TensorType>{
      TensorType(x.dtype, Shape(std::vector<Dim>{x.shape[0], frames.count, bins, Dim(2)}))};
}

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
    for (int64_t row = 0; row < out[0] * frames; ++row) {
      const int64_t b = row / frames, begin = row % frames * step[0];
      Gather(x.data<T>() + (b * length + begin) * parts, n, parts, parts, signal);
      if (args.has(2)) {
        for (int64_t i = 0; i < n; ++i)
          signal[i] *= static_cast<double>(args.inputs[2].data<T>()[i]);
      }
      Transform(signal, false);
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

Result<DType> OutputType(const Node& node) {
  EVOQ_ASSIGN(const int64_t number, IntAttr(node, "output_datatype", 1));
  const auto dtype =
      number > 0 && number < 128 ? DTypeFromOnnx(static_cast<int>(number)) : std::nullopt;
  if (!dtype || (!IsFloat(*dtype) && !IsInteger(*dtype)) || DTypeBits(*dtype) < 8)
    return Unsupported("attribute output_datatype is {}, expected a number type", number);
  return *dtype;
}

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

InferResult InferWindow(const InferArgs& args) {
  EVOQ_TRY(CheckIndexType(args, 0));
  EVOQ_TRY(IntAttr(args.node, "periodic", 1));
  EVOQ_ASSIGN(const DType dtype, OutputType(args.node));
  EVOQ_ASSIGN(const auto size, ConstantInts(args, 0));
  if (!size) return std::vector<TensorType>{TensorType(dtype, Shape(std::vector<Dim>(1)))};
  if (size->size() != 1 || (*size)[0] < 0 || (*size)[0] > kMaxLength)
    return InvalidInput("input 0 must be one size from 0 to {}", kMaxLength);
  return std::vector<TensorType>{TensorType(dtype, Shape{(*size)[0]})};
}

EvalResult Window(const EvalArgs& args, double a0, double a1, double a2) {
  EVOQ_ASSIGN(const std::vector<int64_t> size, ToInt64s(args.inputs[0]));
  EVOQ_ASSIGN(const DType dtype, OutputType(args.node));
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

Result<std::pair<int64_t, int64_t>> MelSizes(int64_t mels, int64_t length) {
  if (mels < 1 || length < 1 || mels > kMaxLength || length > kMaxLength ||
      CheckedMul(mels, length).value_or(kMaxLength) >= kMaxLength)
    return InvalidInput("{} mel bins of a transform of {}", mels, length);
  return std::pair{length / 2 + 1, mels};
}

InferResult InferMel(const InferArgs& args) {
  for (size_t i : {0, 1, 2}) EVOQ_TRY(CheckIndexType(args, i));
  for (size_t i : {3, 4}) EVOQ_TRY(CheckFloat(args, i));
  EVOQ_ASSIGN(const DType dtype, OutputType(args.node));
  EVOQ_ASSIGN(const auto mels, ConstantInts(args, 0));
  EVOQ_ASSIGN(const auto length, ConstantInts(args, 1));
  if (!mels || !length || mels->size() != 1 || length->size() != 1)
    return std::vector<TensorType>{TensorType(dtype, Shape(std::vector<Dim>(2)))};
  EVOQ_ASSIGN(const auto sizes, MelSizes((*mels)[0], (*length)[0]));
  return std::vector<TensorType>{TensorType(dtype, Shape{sizes.first, sizes.second})};
}

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
  EVOQ_ASSIGN(const DType dtype, OutputType(args.node));
  EVOQ_ASSIGN(Tensor stored, Stored(y, Shape{bins, mels}, dtype));
  return One(std::move(stored));
}

}  // namespace

extern const OpDef kBlackmanWindow = {
    .name = "BlackmanWindow", .infer = InferWindow, .evaluate = EvaluateBlackman};
extern const OpDef kDFT = {
    .name = "DFT", .max_inputs = 3, .infer = InferDft, .evaluate = EvaluateDft};
extern const OpDef kHammingWindow = {
    .name = "HammingWindow", .infer = InferWindow, .evaluate = EvaluateHamming};
extern const OpDef kHannWindow = {
    .name = "HannWindow", .infer = InferWindow, .evaluate = EvaluateHann};
extern const OpDef kMelWeightMatrix = {.name = "MelWeightMatrix",
                                       .min_inputs = 5,
                                       .max_inputs = 5,
                                       .infer = InferMel,
                                       .evaluate = EvaluateMel};
extern const OpDef kSTFT = {
    .name = "STFT", .min_inputs = 2, .max_inputs = 4, .infer = InferStft, .evaluate = EvaluateStft};

}  // namespace evoq
