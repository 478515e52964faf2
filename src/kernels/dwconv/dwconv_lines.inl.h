// int8 depthwise rows for kernels of any size, on the vectors of an instruction set. Included by
// dwconv_ISA.cc.
//
// Taps are taken along the kernel's longer side, M::kTaps at a time: the bytes of so many pixels of
// a line beside each other are an operand of a dot product. An operand serves every output whose
// window holds those pixels in whole groups: with stride 1 that is one of M::kTaps outputs, each at
// another of its groups. So operands of a stretch of a line are made first.
#include "kernels/dwconv/dwconv.h"

namespace evoq::EVOQ_ISA {
namespace {

// Where operands and outputs of one dimension lie. Output o of a class begins at operand o *
// `output`, its groups of taps are `group` operands apart; operand i begins at the class's pixel i
// * `operand`, its taps are `tap` pixels apart. Pixels are `unit` pixels of x.
struct LineSteps {
  int64_t classes;  // of outputs, whose pixels are apart from those of others
  int64_t output, group, operand, tap, unit;

  LineSteps(const WindowDim& d, int64_t taps) {
    const int64_t dilation = d.kernel == 1 ? 1 : d.dilation;  // of one tap it may be anything
    if (d.stride == 1) {
      classes = unit = dilation;
      output = operand = tap = 1;
      group = taps;
      return;
    }
    int64_t a = d.stride, b = taps * dilation;
    while (b != 0) {
      const int64_t rest = a % b;
      a = b, b = rest;
    }
    classes = unit = 1;
    operand = a;
    output = d.stride / a;
    group = taps * dilation / a;
    tap = dilation;
  }
};

// A machine M has constants kTaps, kVectors (of 16 channels) and
//   Operands(pixels, step, c, n, x)     the vectors of an operand: channels c to c + n - 1 of kTaps
//                                       pixels, `step` pointers apart
//   Bias(c, j)                          of vector j
//   Load(p), Keep(p, v), Dot(acc, x, w)
//   Store(acc, c, n, at, residual, y)   finishes the n channels of an output
template <typename M>
class Lines {
 public:
  static constexpr int kOutputs = 4;  // that share weights
  static constexpr int64_t kMostOutputs = 64, kMostOperands = 384, kMostPixels = 1024;

  Lines(const M& machine, const DwInt8Args& args, const uint8_t* x, const void* residual, void* y)
      : machine_(machine),
        args_(args),
        shape_(args.shape),
        along_(shape_.down() ? shape_.h : shape_.w),
        across_(shape_.down() ? shape_.w : shape_.h),
        steps_(along_, M::kTaps),
        groups_((along_.kernel + M::kTaps - 1) / M::kTaps),
        x_(x),
        residual_(residual),
        y_(y) {
    const int64_t row = shape_.w.in * shape_.channels;
    along_bytes_ = shape_.down() ? row : shape_.channels;
    across_bytes_ = shape_.down() ? shape_.channels : row;
    // Lines whose operands have room beside each other, and the outputs of a stretch.
    constexpr int64_t kFew = 16;
    lines_ = Within(kMostOperands / OperandsOf(kFew), kMostPixels / PixelsOf(OperandsOf(kFew)));
    lines_ = lines_ < 1 ? 1 : Within(lines_, across_.kernel);
    most_ = kMostOutputs;
    while (most_ > 0 && (lines_ * OperandsOf(most_) > kMostOperands ||
                         lines_ * PixelsOf(OperandsOf(most_)) > kMostPixels))
      --most_;
  }

  // Whether a stretch has a few outputs at least.
  bool fits() const { return most_ >= kOutputs; }

  // Output rows [begin, end) of batch * OH.
  void Rows(int64_t begin, int64_t end) {
    const int64_t rows = shape_.h.out, columns = shape_.w.out;
    for (int64_t row = begin; row < end;) {
      const int64_t image = row / rows, first = row % rows,
                    last = rows < first + end - row ? rows : first + end - row;
      image_ = x_ + image * shape_.h.in * shape_.w.in * shape_.channels;
      const int64_t at = image * rows * columns * shape_.channels;
      if (shape_.down()) {
        for (int64_t column = 0; column < columns; ++column)
          Line(column, first, last, at + column * shape_.channels, columns * shape_.channels);
      } else {
        for (int64_t r = first; r < last; ++r)
          Line(r, 0, columns, at + r * columns * shape_.channels, shape_.channels);
      }
      row += last - first;
    }
  }

 private:
  using V = typename M::V;

  static int64_t Within(int64_t a, int64_t b) { return a < b ? a : b; }
  int64_t OperandsOf(int64_t outputs) const {
    return (outputs - 1) * steps_.output + (groups_ - 1) * steps_.group + 1;
  }
  int64_t PixelsOf(int64_t operands) const {
    return (operands - 1) * steps_.operand + (M::kTaps - 1) * steps_.tap + 1;
  }

  // Outputs [first, last) along a line, `at` and `step`: where output 0 is in y, and from one to
  // the next.
  void Line(int64_t across_output, int64_t first, int64_t last, int64_t at, int64_t step) {
    for (int64_t k = 0; k < steps_.classes && first + k < last; ++k) {
      const int64_t count = (last - first - k + steps_.classes - 1) / steps_.classes;
      for (int64_t begin = 0; begin < count; begin += most_) {
        const int64_t n = count - begin < most_ ? count - begin : most_,
                      output = first + k + begin * steps_.classes;
        Stretch(across_output, output, n, at + output * step, steps_.classes * step);
      }
    }
  }

  // n outputs of a class from `output` on.
  void Stretch(int64_t across_output, int64_t output, int64_t n, int64_t at, int64_t step) {
    const int64_t operands = OperandsOf(n), pixels = PixelsOf(operands), channels = shape_.channels;
    for (int64_t c = 0; c < channels; c += kDwBlock) {
      const int64_t left = Within(channels - c, kDwBlock);
      for (int64_t first = 0; first < across_.kernel; first += lines_) {
        const int64_t last = Within(first + lines_, across_.kernel);
        for (int64_t j = first; j < last; ++j) {
          const uint8_t** from = pixels_ + (j - first) * pixels;
          if (c == 0 || lines_ < across_.kernel)
            Point(across_output * across_.stride - across_.pad + j * across_.dilation, output,
                  pixels, from);
          V* to = operands_ + (j - first) * operands * M::kVectors;
          for (int64_t i = 0; i < operands; ++i, from += steps_.operand, to += M::kVectors)
            machine_.Operands(from, steps_.tap, c, left, to);
        }
        for (int64_t o = 0; o < n; o += kOutputs)
          Outputs({first, last}, o, static_cast<int>(Within(n - o, kOutputs)), operands, c, left,
                  at + o * step + c, step);
      }
    }
  }

  // The pixels of line i that a class's outputs from `output` on read.
  void Point(int64_t i, int64_t output, int64_t count, const uint8_t** to) const {
    const bool inside = i >= 0 && i < across_.in;
    const uint8_t* const line = image_ + i * across_bytes_;
    int64_t pixel = output * along_.stride - along_.pad;
    for (int64_t p = 0; p < count; ++p, pixel += steps_.unit)
      to[p] =
          inside && pixel >= 0 && pixel < along_.in ? line + pixel * along_bytes_ : args_.padding;
  }

  // `count` outputs of a stretch, of n channels from c on; the sums of some of the lines of taps.
  struct Taps {
    int64_t first, last;
  };
  void Outputs(Taps lines, int64_t o, int count, int64_t operands, int64_t c, int64_t n, int64_t at,
               int64_t step) {
    const V* from[kOutputs];
    for (int t = 0; t < kOutputs; ++t)
      from[t] = operands_ + (o + (t < count ? t : count - 1)) * steps_.output * M::kVectors;
    V* const kept = sums_ + o * M::kVectors;
    V acc[kOutputs][M::kVectors];
#pragma GCC unroll 4
    for (int t = 0; t < kOutputs; ++t) {
#pragma GCC unroll 2
      for (int v = 0; v < M::kVectors; ++v)
        acc[t][v] = lines.first == 0 ? machine_.Bias(c, v) : M::Load(kept + t * M::kVectors + v);
    }
    const int64_t line = groups_ * M::kVectors;
    const V* w =
        static_cast<const V*>(args_.pairs) + (c / kDwBlock * across_.kernel + lines.first) * line;
    for (int64_t j = 0; j < lines.last - lines.first; ++j) {
      int64_t i = j * operands * M::kVectors;
      for (int64_t g = 0; g < groups_; ++g, i += steps_.group * M::kVectors, w += M::kVectors) {
#pragma GCC unroll 2
        for (int v = 0; v < M::kVectors; ++v) {
          const V weight = M::Load(w + v);
#pragma GCC unroll 4
          for (int t = 0; t < kOutputs; ++t)
            acc[t][v] = M::Dot(acc[t][v], M::Load(from[t] + i + v), weight);
        }
      }
    }
    if (lines.last == across_.kernel) {
      for (int t = 0; t < count; ++t) machine_.Store(acc[t], c, n, at + t * step, residual_, y_);
      return;
    }
    for (int t = 0; t < kOutputs; ++t) {
      for (int v = 0; v < M::kVectors; ++v) M::Keep(kept + t * M::kVectors + v, acc[t][v]);
    }
  }

  const M& machine_;
  const DwInt8Args& args_;
  const DwShape& shape_;
  const WindowDim &along_, &across_;
  const LineSteps steps_;
  const int64_t groups_;  // of taps
  const uint8_t* const x_;
  const void* const residual_;
  void* const y_;
  int64_t along_bytes_, across_bytes_;
  int64_t lines_, most_;  // of taps and of outputs that are taken together
  const uint8_t* image_ = nullptr;
  const uint8_t* pixels_[kMostPixels];
  alignas(64) V operands_[kMostOperands * M::kVectors];
  V sums_[kMostOutputs * M::kVectors];
};

}  // namespace
}  // namespace evoq::EVOQ_ISA
