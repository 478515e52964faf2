#include "kernels/conv/tap_sums.h"

#include <algorithm>
#include <map>

#include "base/math.h"
#include "kernels/gemm/gemm_float_tile.h"

namespace evoq {
namespace {

constexpr int64_t kMostTaps = 256, kMostChannels = 4;  // whose results are added up at once

// to[i * to_step + m] += the sum of p[offsets[j] + i * from_step + m] over j, one after the other.
template <int kChannels, typename T>
void AddPixels(const T* p, const int64_t* offsets, int taps, T* to, int64_t to_step,
               int64_t from_step, int64_t count) {
  for (int64_t i = 0; i < count; ++i, p += from_step, to += to_step) {
    T sum[kChannels];
    for (int m = 0; m < kChannels; ++m) sum[m] = to[m];
    for (int j = 0; j < taps; ++j) {
      for (int m = 0; m < kChannels; ++m) sum[m] += p[offsets[j] + m];
    }
    for (int m = 0; m < kChannels; ++m) to[m] = sum[m];
  }
}
template <typename T>
void AddPixels(int64_t channels, const T* p, const int64_t* offsets, int taps, T* to,
               int64_t to_step, int64_t from_step, int64_t count) {
  switch (channels) {
    case 1: return AddPixels<1>(p, offsets, taps, to, to_step, from_step, count);
    case 2: return AddPixels<2>(p, offsets, taps, to, to_step, from_step, count);
    case 3: return AddPixels<3>(p, offsets, taps, to, to_step, from_step, count);
    default: return AddPixels<4>(p, offsets, taps, to, to_step, from_step, count);
  }
}

}  // namespace

bool FitsTapSums(const ConvShapeF32& s, bool transposed) {
  return s.group == 1 && s.taps() > 1 && s.kernel[0] == 1 && s.in[0] == 1 && s.out[0] == 1 &&
         s.pad[0] == 0 && s.channels_in > 0 && s.channels_out > 0 && s.in[1] > 0 && s.in[2] > 0 &&
         s.out[1] > 0 && s.out[2] > 0 && (!transposed || s.stride[0] == 1);
}

double TapSumsGain(const ConvShapeF32& s, bool transposed, const TapSumsCosts& costs) {
  if (!FitsTapSums(s, transposed)) return 0;
  const auto lanes = [](int64_t columns) {
    return static_cast<double>(RoundUp(columns, int64_t{kPanelF32}));
  };
  const auto pixels = [](const std::array<int64_t, 3>& sizes) {
    return static_cast<double>(sizes[1]) * static_cast<double>(sizes[2]);
  };
  const double depth = static_cast<double>(s.channels_in),
               sums = (transposed ? pixels(s.in) : pixels(s.out)) * static_cast<double>(s.taps());
  return sums * depth * lanes(s.channels_out) /
         (pixels(s.in) * (depth + costs.pixel) * lanes(s.taps() * s.channels_out) +
          costs.addition * sums * static_cast<double>(s.channels_out));
}

TapSums::Axis::Walk TapSums::Axis::Of(int64_t k, Span outs) const {
  const int64_t delta = k * dilation - pad;
  // How many of 0, stride, 2 stride, ... are below `end`, and those from which on they are `begin`
  // or more.
  const auto below = [&](int64_t end) { return end <= 0 ? 0 : (end - 1) / stride + 1; };
  const auto from = [&](int64_t begin) { return CeilDiv(std::max<int64_t>(begin, 0), stride); };
  if (!transposed) {
    const int64_t low = std::max(outs.begin, from(-delta)),
                  high = std::min(outs.end, below(in - delta));
    return {low, 1, low * stride + delta, stride, std::max<int64_t>(high - low, 0)};
  }
  const int64_t low = from(outs.begin - delta), high = std::min(in, below(outs.end - delta));
  return {low * stride + delta, stride, low, 1, std::max<int64_t>(high - low, 0)};
}

TapSums::Span TapSums::Axis::ReadBy(Span outs) const {
  Span all{in, 0};
  for (int64_t k = 0; k < taps; ++k) {
    const Walk walk = Of(k, outs);
    if (walk.count == 0) continue;
    all.begin = std::min(all.begin, walk.from);
    all.end = std::max(all.end, walk.from + (walk.count - 1) * walk.from_step + 1);
  }
  return all.begin < all.end ? all : Span{0, 0};
}

TapSums::Axis TapSums::AxisOf(const ConvShapeF32& s, int axis, bool transposed) {
  return {s.in[axis],       s.out[axis], s.kernel[axis], s.stride[axis],
          s.dilation[axis], s.pad[axis], transposed};
}

TapSums::TapSums(const ConvShapeF32& shape, bool transposed, int64_t band_bytes, int bands_of)
    : y_(AxisOf(shape, 1, transposed)),
      x_(AxisOf(shape, 2, transposed)),
      batch_(shape.batch),
      channels_(shape.channels_out) {
  std::map<int64_t, Phase> phases;  // by the distance from a multiple of the stride
  for (int64_t k = 0; k < x_.taps; ++k)
    phases[transposed ? k * x_.dilation % x_.stride : 0].push_back(k);
  for (auto& phase : phases) phases_.push_back(std::move(phase.second));
  by_lines_ = y_.out > 1 || y_.in > 1;
  // As many outputs as read inputs whose p fills a band; more where neighbouring bands would share
  // most of their inputs, whose products each computes.
  constexpr int64_t kElement = 4, kLargeBand = 4 << 20;
  const int64_t place_bytes = kElement * line_in() * columns(), middle = cut().out / 2,
                shared = cut().ReadBy({middle, middle + 1}).size() - 1,
                places = std::max<int64_t>(
                    {band_bytes / place_bytes, std::min(3 * shared, kLargeBand / place_bytes), 1});
  bands_ = CeilDiv(cut().out, std::clamp<int64_t>(places * cut().out / cut().in, 1, cut().out));
  if (bands_ * batch_ % bands_of != 0)
    bands_ = std::min(RoundUp(bands_, int64_t{bands_of}), cut().out);
  band_ = CeilDiv(cut().out, bands_);
  bands_ = CeilDiv(cut().out, band_);
  for (int64_t i = 0; i < bands_; ++i)
    band_in_ =
        std::max(band_in_, cut().ReadBy({i * band_, std::min((i + 1) * band_, cut().out)}).size());
}

TapSums::Band TapSums::BandOf(int64_t i) const {
  Band band;
  band.n = i / bands_;
  const Span outs{i % bands_ * band_, std::min((i % bands_ + 1) * band_, cut().out)};
  // A product has as many rows in every band.
  band.first_in = std::min(cut().ReadBy(outs).begin, cut().in - band_in_);
  band.first_row = band.n * y_.in * x_.in + band.first_in * line_in();
  band.lines = by_lines_ ? outs : Span{0, y_.out};
  band.pixels = by_lines_ ? Span{0, x_.out} : outs;
  return band;
}

template <typename T>
void TapSums::Add(const Band& band, const T* p, int64_t line, Span pixels, T* row) const {
  for (const Phase& phase : phases_) AddPhase(phase, band, p, line, pixels, row);
}
template void TapSums::Add(const Band&, const float*, int64_t, Span, float*) const;
template void TapSums::Add(const Band&, const uint32_t*, int64_t, Span, uint32_t*) const;

// Pixels that all taps of the phase reach are added up at once, those beside them tap by tap, in
// the same order.
template <typename T>
void TapSums::AddPhase(const Phase& phase, const Band& band, const T* p, int64_t line, Span pixels,
                       T* row) const {
  Axis::Walk inner = x_.Of(phase[0], pixels);
  int64_t end = inner.first + inner.count * inner.step;
  for (int64_t k : phase) {
    const Axis::Walk walk = x_.Of(k, pixels);
    inner.first = std::max(inner.first, walk.first);
    end = std::min(end, walk.first + walk.count * walk.step);
  }
  inner.count = CeilDiv(std::max<int64_t>(end - inner.first, 0), inner.step);
  const bool at_once = inner.count > 0 && channels_ <= kMostChannels &&
                       y_.taps * static_cast<int64_t>(phase.size()) <= kMostTaps;
  // From the input's pixel 0 of its line first_in, or 0, on.
  const T* const origin = by_lines_ ? p : p - band.first_in * columns();
  int64_t offsets[kMostTaps];
  int count = 0;
  for (int64_t ky = 0; ky < y_.taps; ++ky) {
    const Axis::Walk walk = y_.Of(ky, {line, line + 1});
    if (walk.count == 0) continue;
    const int64_t from = (walk.from - (by_lines_ ? band.first_in : 0)) * x_.in * columns() +
                         ky * x_.taps * channels_;
    for (int64_t k : phase) {
      const T* const tap = origin + from + k * channels_;
      if (at_once) {
        AddTap(k, {pixels.begin, inner.first}, tap, pixels.begin, row);
        AddTap(k, {end, pixels.end}, tap, pixels.begin, row);
        offsets[count++] = from + k * channels_ + x_.FromOf(k, inner.first) * columns();
      } else {
        AddTap(k, pixels, tap, pixels.begin, row);
      }
    }
  }
  if (count > 0)
    AddPixels(channels_, origin, offsets, count, row + (inner.first - pixels.begin) * channels_,
              inner.step * channels_, inner.from_step * columns(), inner.count);
}

// One tap at these pixels of y; `p`: of the input's pixel 0.
template <typename T>
void TapSums::AddTap(int64_t k, Span pixels, const T* p, int64_t row_begin, T* row) const {
  const Axis::Walk walk = x_.Of(k, pixels);
  const T* from = p + walk.from * columns();
  T* to = row + (walk.first - row_begin) * channels_;
  const int64_t from_step = walk.from_step * columns(), to_step = walk.step * channels_;
  for (int64_t i = 0; i < walk.count; ++i, from += from_step, to += to_step) {
    for (int64_t m = 0; m < channels_; ++m) to[m] += from[m];
  }
}

}  // namespace evoq
