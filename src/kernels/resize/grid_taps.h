// Where GridSample looks along one axis: shared by its definition and its kernel.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/result.h"
#include "tensor/attrs.h"

namespace evoq {

enum class GridPadding { kZeros, kBorder, kReflection };
enum class GridMode { kNearest, kLinear, kCubic };

struct GridSampling {
  GridMode mode = GridMode::kLinear;
  GridPadding padding = GridPadding::kZeros;
  bool align_corners = false;
};

// Errors: kInvalidInput for a mode or a padding that ONNX does not have.
Result<GridSampling> GridSamplingOf(const Attrs& attrs);

// `at` mirrored into [low, high] at both ends.
template <typename T>
T Reflected(T at, T low, T high) {
  const T span = high - low;
  if (span <= 0) return 0;
  const T distance = std::fabs(at - low), turns = std::floor(distance / span);
  const T rest = distance - turns * span;
  return std::fmod(turns, T{2}) == 0 ? rest + low : high - rest;
}

// The first `count` of up to four taps of one axis; an index of -1 stands for a zero.
template <typename T>
struct GridTaps {
  int count = 1;
  int64_t index[4] = {};
  T weight[4] = {1, 0, 0, 0};
};

// `at` mirrored at both ends of an axis of n places.
template <typename T>
T Mirrored(const GridSampling& s, T at, T n) {
  return s.align_corners ? Reflected<T>(at, 0, n - 1) : Reflected<T>(at, -T{0.5}, n - T{0.5});
}

template <typename T>
int64_t Inside(const GridSampling& s, T at, int64_t size) {
  if (s.padding == GridPadding::kReflection)
    at = std::nearbyint(Mirrored(s, at, static_cast<T>(size)));
  const T last = static_cast<T>(size - 1);
  if (s.padding == GridPadding::kZeros && !(at >= 0 && at <= last)) return -1;
  const T low = at > 0 ? at : 0;  // of NaN too
  return static_cast<int64_t>(low < last ? low : last);
}

// std::floor, which older instruction sets have a call for.
template <typename T>
T Floored(T v) {
  constexpr T kWhole = T{1 << 23};  // floats beyond have no fraction
  if (!(v > -kWhole && v < kWhole)) return std::floor(v);
  const T whole = static_cast<T>(static_cast<int32_t>(v));
  return whole > v ? whole - 1 : whole;
}

template <typename T>
GridTaps<T> TapsAt(const GridSampling& s, T coordinate, int64_t size) {
  GridTaps<T> taps;
  const T n = static_cast<T>(size);
  T at = s.align_corners ? (coordinate + 1) / 2 * (n - 1) : ((coordinate + 1) * n - 1) / 2;
  if (s.mode == GridMode::kNearest) at = std::nearbyint(at);
  if (s.mode != GridMode::kCubic && s.padding == GridPadding::kBorder)
    at = std::fmin(std::fmax(at, T{0}), n - 1);
  if (s.mode != GridMode::kCubic && s.padding == GridPadding::kReflection) at = Mirrored(s, at, n);
  const T base = Floored(at), t = at - base;
  if (s.mode == GridMode::kNearest) {
    taps.index[0] = Inside(s, std::nearbyint(at), size);
  } else if (s.mode == GridMode::kLinear) {
    taps.count = 2;
    for (int k = 0; k < 2; ++k) taps.index[k] = Inside(s, base + static_cast<T>(k), size);
    taps.weight[0] = 1 - t;
    taps.weight[1] = t;
  } else {
    constexpr T a = -0.75;
    taps.count = 4;
    for (int k = 0; k < 4; ++k) {
      const T d = std::fabs(static_cast<T>(k - 1) - t);
      taps.weight[k] =
          d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
      taps.index[k] = Inside(s, base + static_cast<T>(k - 1), size);
    }
  }
  return taps;
}

}  // namespace evoq
