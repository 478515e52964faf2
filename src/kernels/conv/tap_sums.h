// Convolutions and transposed ones of few output channels. A product of their pixels with one tap
// leaves most columns of a register tile empty; instead all taps stand beside one another as
// columns of one product of the input's pixels, whose results are then added up at the pixels of y:
//   p[i, t, m] = sum over c of x[i, c] * w[t, c, m]
//   y[o, m]    = sum over taps t of p[input pixel of o and t, t, m]
// Taps outside the input are left out. y is computed in bands, each from a product of as many input
// pixels. A pixel's taps are added in order: nothing depends on bands, pieces or threads.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/conv/conv_shape_f32.h"

namespace evoq {

inline constexpr char kTapsBeside[] = "taps beside";  // the name of the variant

// Whether the method takes such a shape: one or two axes, one group.
bool FitsTapSums(const ConvShapeF32& shape, bool transposed);
// In multiply-adds of one column: what an addition to y costs, and what a pixel of the product does
// besides its channels.
struct TapSumsCosts {
  double addition, pixel;
};
// The ratio of what both ways cost; 0 where the method does not fit.
double TapSumsGain(const ConvShapeF32& shape, bool transposed, const TapSumsCosts& costs);

class TapSums {
 public:
  // Places [begin, end) of one axis.
  struct Span {
    int64_t begin, end;
    int64_t size() const { return end - begin; }
  };
  // A band's product takes `rows()` pixels of the input from `first_row` on; its sums are pixels
  // `pixels` of lines `lines` of batch item n.
  struct Band {
    int64_t n, first_row, first_in;  // first_in: the place of its first pixel along the cut axis
    Span lines, pixels;
  };

  // `shape` is one that FitsTapSums takes; `bands_of`: the number of bands is a multiple of it
  // where there are so many places.
  TapSums(const ConvShapeF32& shape, bool transposed, int64_t band_bytes, int bands_of);

  int64_t columns() const { return y_.taps * x_.taps * channels_; }  // of p
  int64_t rows() const { return band_in_ * line_in(); }
  int64_t bands() const { return batch_ * bands_; }
  int64_t channels() const { return channels_; }
  int64_t line() const { return x_.out; }  // pixels of a line of y
  Band BandOf(int64_t i) const;
  // The first channel of a pixel of y, of all.
  int64_t Place(const Band& band, int64_t line, int64_t pixel) const {
    return ((band.n * y_.out + line) * x_.out + pixel) * channels_;
  }
  // Adds the band's p to pixels `pixels` of a line: to row[(pixel - pixels.begin) * channels + m].
  template <typename T>
  void Add(const Band& band, const T* p, int64_t line, Span pixels, T* row) const;

 private:
  // Output o reads input i by tap k where i = o * stride + k * dilation - pad; of a transposed
  // convolution where o = i * stride + k * dilation - pad.
  struct Axis {
    int64_t in = 1, out = 1, taps = 1, stride = 1, dilation = 1, pad = 0;
    bool transposed = false;

    // What tap k adds: to outputs first, first + step, ..., `count` of them inside `outs`, from
    // inputs from, from + from_step, ...
    struct Walk {
      int64_t first, step, from, from_step, count;
    };
    Walk Of(int64_t k, Span outs) const;
    // The input that output o, which tap k reaches, reads by it.
    int64_t FromOf(int64_t k, int64_t o) const {
      const int64_t delta = k * dilation - pad;
      return transposed ? (o - delta) / stride : o * stride + delta;
    }
    // The inputs that any of these outputs reads.
    Span ReadBy(Span outs) const;
  };
  // Taps along a line that reach the same pixels of y: of every stride-th one where the convolution
  // is transposed, else all.
  using Phase = std::vector<int64_t>;

  static Axis AxisOf(const ConvShapeF32& shape, int axis, bool transposed);
  const Axis& cut() const { return by_lines_ ? y_ : x_; }
  int64_t line_in() const { return by_lines_ ? x_.in : 1; }  // pixels to a place of a band
  template <typename T>
  void AddPhase(const Phase& phase, const Band& band, const T* p, int64_t line, Span pixels,
                T* row) const;
  template <typename T>
  void AddTap(int64_t k, Span pixels, const T* p, int64_t row_begin, T* row) const;

  Axis y_, x_;
  int64_t batch_, channels_;
  std::vector<Phase> phases_;
  bool by_lines_ = false;                       // bands are of lines, not of pixels of the only one
  int64_t band_ = 1, bands_ = 1, band_in_ = 1;  // places along the axis that is cut, and bands
};

}  // namespace evoq
