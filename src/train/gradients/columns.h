// What convolutions read, as matrices: col[k, p] is what tap k = (channel, kernel position) of
// output position p reads of one sample and group.
#pragma once

#include <algorithm>
#include <cstring>

#include "ops/conv.h"
#include "train/gradient.h"

namespace evoq {

// The outputs [begin, end) along the last axis whose tap k lies inside the input.
struct Inside {
  int64_t begin, end, first;  // `first`: what output `begin` reads
};
inline Inside InsideOf(const ConvExtents& s, int d, int64_t tap) {
  const int64_t offset = tap * s.dilation[d] - s.pad[d];
  const int64_t begin = offset >= 0 ? 0 : (-offset + s.stride[d] - 1) / s.stride[d];
  const int64_t last = s.in[d] - 1 - offset;  // of o * stride
  const int64_t end = last < 0 ? 0 : std::min(s.out[d], last / s.stride[d] + 1);
  return {std::min(begin, end), end, begin * s.stride[d] + offset};
}

// Calls row(tap row, output offset, input offset, inside) for every tap and every line of outputs
// along the last axis; outside(...) for lines whose input lies in the padding.
template <typename Line, typename Outside>
void ForLines(const ConvExtents& s, const Line& line, const Outside& outside) {
  int64_t row = 0;
  for (int64_t c = 0; c < s.in_channels; ++c) {
    for (int64_t k0 = 0; k0 < s.kernel[0]; ++k0) {
      for (int64_t k1 = 0; k1 < s.kernel[1]; ++k1) {
        for (int64_t k2 = 0; k2 < s.kernel[2]; ++k2, ++row) {
          const Inside inside = InsideOf(s, 2, k2);
          for (int64_t o0 = 0; o0 < s.out[0]; ++o0) {
            const int64_t i0 = o0 * s.stride[0] + k0 * s.dilation[0] - s.pad[0];
            for (int64_t o1 = 0; o1 < s.out[1]; ++o1) {
              const int64_t i1 = o1 * s.stride[1] + k1 * s.dilation[1] - s.pad[1];
              const int64_t at = row * s.out_size() + (o0 * s.out[1] + o1) * s.out[2];
              if (i0 < 0 || i0 >= s.in[0] || i1 < 0 || i1 >= s.in[1]) {
                outside(at);
              } else {
                line(at, ((c * s.in[0] + i0) * s.in[1] + i1) * s.in[2] + inside.first, inside);
              }
            }
          }
        }
      }
    }
  }
}

// Lines are too short for calls of memcpy.
inline void CopyLine(const float* from, int64_t n, float* to) {
  constexpr int64_t kFloats = 4;
  int64_t i = 0;
  for (; i + kFloats <= n; i += kFloats) std::memcpy(to + i, from + i, kFloats * sizeof(float));
  for (; i < n; ++i) to[i] = from[i];
}

// col [channels * taps, outputs] of x [channels, in...].
inline void ToColumns(const ConvExtents& s, const float* x, float* col) {
  const int64_t width = s.out[2], stride = s.stride[2];
  ForLines(
      s,
      [&](int64_t at, int64_t from, const Inside& inside) {
        float* const y = col + at;
        if (inside.begin > 0) std::fill(y, y + inside.begin, 0.0f);
        if (stride == 1) {
          CopyLine(x + from, inside.end - inside.begin, y + inside.begin);
        } else {
          for (int64_t o = inside.begin; o < inside.end; ++o)
            y[o] = x[from + (o - inside.begin) * stride];
        }
        if (inside.end < width) std::fill(y + inside.end, y + width, 0.0f);
      },
      [&](int64_t at) { std::fill_n(col + at, width, 0.0f); });
}

// Adds each element of dcol to the dx that it stands for.
inline void AddColumns(const ConvExtents& s, const float* dcol, float* dx) {
  const int64_t stride = s.stride[2];
  ForLines(
      s,
      [&](int64_t at, int64_t to, const Inside& inside) {
        for (int64_t o = inside.begin; o < inside.end; ++o)
          dx[to + (o - inside.begin) * stride] += dcol[at + o];
      },
      [](int64_t) {});
}

}  // namespace evoq
