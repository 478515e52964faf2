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

// Each tap's outputs are the input, moved by so many places: 2-D, stride 1, outputs of the input's
// size.
inline bool IsMove(const ConvExtents& s) {
  return s.in[0] == 1 && s.out[0] == 1 && s.kernel[0] == 1 && s.pad[0] == 0 && s.stride[1] == 1 &&
         s.stride[2] == 1 && s.out[1] == s.in[1] && s.out[2] == s.in[2];
}

// Where IsMove, a tap's outputs [first, end) of a plane read the input's [first + moved, end +
// moved); but for those where a line ends, which lie outside.
struct Moved {
  Inside lines, inside;  // of the axes
  int64_t first, end, moved;
};
inline Moved MovedBy(const ConvExtents& s, int64_t k1, int64_t k2) {
  const int64_t width = s.out[2];
  Moved m{InsideOf(s, 1, k1), InsideOf(s, 2, k2), 0, 0, 0};
  if (m.lines.begin >= m.lines.end || m.inside.begin >= m.inside.end) return m;
  m.first = m.lines.begin * width + m.inside.begin;
  m.end = (m.lines.end - 1) * width + m.inside.end;
  m.moved = (k1 * s.dilation[1] - s.pad[1]) * width + k2 * s.dilation[2] - s.pad[2];
  return m;
}

// Zeros where a line ends, column by column: of a line they are one or two.
inline void ClearEnds(const Moved& m, int64_t width, float* y) {
  const auto clear = [&](int64_t i) {
    for (int64_t o = m.lines.begin; o < m.lines.end; ++o) y[o * width + i] = 0;
  };
  for (int64_t i = 0; i < m.inside.begin; ++i) clear(i);
  for (int64_t i = m.inside.end; i < width; ++i) clear(i);
}

// Calls tap(channel's plane, y, moved) with y from 0 on, a plane for each tap and channel.
template <typename Tap>
void ForMoves(const ConvExtents& s, const Tap& tap) {
  const int64_t plane = s.out[1] * s.out[2];
  int64_t y = 0;
  for (int64_t c = 0; c < s.in_channels; ++c) {
    for (int64_t k1 = 0; k1 < s.kernel[1]; ++k1) {
      for (int64_t k2 = 0; k2 < s.kernel[2]; ++k2, y += plane)
        tap(c * plane, y, MovedBy(s, k1, k2));
    }
  }
}

// col [channels * taps, outputs] of x [channels, in...].
inline void ToColumns(const ConvExtents& s, const float* x, float* col) {
  if (IsMove(s)) {
    const int64_t plane = s.out[1] * s.out[2];
    return ForMoves(s, [&](int64_t channel, int64_t at, const Moved& m) {
      float* const y = col + at;
      std::fill(y, y + m.first, 0.0f);
      std::memcpy(y + m.first, x + channel + m.first + m.moved,
                  static_cast<size_t>(m.end - m.first) * sizeof(float));
      std::fill(y + m.end, y + plane, 0.0f);
      ClearEnds(m, s.out[2], y);
    });
  }
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

// sum[i * step] += from[i]
inline void AddTo(const float* __restrict from, int64_t n, int64_t step, float* __restrict sum) {
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) sum[i] += from[i];
  } else {
    for (int64_t i = 0; i < n; ++i) sum[i * step] += from[i];
  }
}

// Adds each element of dcol to the dx that it stands for; those that stand for none become zero.
inline void AddColumns(const ConvExtents& s, float* dcol, float* dx) {
  if (IsMove(s)) {
    return ForMoves(s, [&](int64_t channel, int64_t at, const Moved& m) {
      float* const from = dcol + at;
      ClearEnds(m, s.out[2], from);
      AddTo(from + m.first, m.end - m.first, 1, dx + channel + m.first + m.moved);
    });
  }
  ForLines(
      s,
      [&](int64_t at, int64_t to, const Inside& inside) {
        AddTo(dcol + at + inside.begin, inside.end - inside.begin, s.stride[2], dx + to);
      },
      [](int64_t) {});
}

}  // namespace evoq
