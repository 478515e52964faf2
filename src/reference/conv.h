// Sums of convolutions, shared by Conv, ConvTranspose and their integer forms.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/conv.h"
#include "reference/util.h"

namespace evoq {

// The sums of a convolution of integers less their zero points, modulo 2^32, laid out as the
// output.
Result<std::vector<uint32_t>> ConvIntegerSums(const ConvExtents& s, bool transposed,
                                              const Tensor& x, const Tensor& w);

// acc[n, g*M + m, o] = sum over c, k of x[n, g*C + c, i] * w[...]. Conv: i = o * stride + k *
// dilation - pad; transposed: o = i * stride + k * dilation - pad. Pads contribute nothing. `acc`
// is zero at entry.
template <typename In, typename Acc>
void ConvSums(const ConvExtents& s, bool transposed, const In* x, const In* w, Acc* acc) {
  // The loop runs over the positions p of the strided side (Conv: outputs, transposed: inputs); q
  // is the other side's.
  const std::array<int64_t, 3>& walk = transposed ? s.in : s.out;
  const std::array<int64_t, 3>& other = transposed ? s.out : s.in;
  for (int64_t ng = 0; ng < s.batch * s.groups; ++ng) {
    const int64_t g = ng % s.groups;
    for (int64_t m = 0; m < s.out_channels; ++m) {
      Acc* plane = acc + (ng * s.out_channels + m) * s.out_size();
      for (int64_t c = 0; c < s.in_channels; ++c) {
        const In* source = x + (ng * s.in_channels + c) * s.in_size();
        const int64_t filter = transposed ? (g * s.in_channels + c) * s.out_channels + m
                                          : (g * s.out_channels + m) * s.in_channels + c;
        for (int64_t tap = 0; tap < s.taps(); ++tap) {
          const Acc weight = static_cast<Acc>(w[filter * s.taps() + tap]);
          const std::array<int64_t, 3> k{tap / (s.kernel[1] * s.kernel[2]),
                                         tap / s.kernel[2] % s.kernel[1], tap % s.kernel[2]};
          std::array<int64_t, 3> offset, first,
              last;  // q = p * stride + offset is inside for p in [first, last)
          for (int d = 0; d < 3; ++d) {
            offset[d] = k[d] * s.dilation[d] - s.pad[d];
            first[d] = offset[d] >= 0 ? 0 : (-offset[d] + s.stride[d] - 1) / s.stride[d];
            const int64_t room = other[d] - 1 - offset[d];
            last[d] = room < 0 ? 0 : std::min(walk[d], room / s.stride[d] + 1);
          }
          for (int64_t p0 = first[0]; p0 < last[0]; ++p0) {
            for (int64_t p1 = first[1]; p1 < last[1]; ++p1) {
              const int64_t p_row = (p0 * walk[1] + p1) * walk[2];
              const int64_t q_row =
                  ((p0 * s.stride[0] + offset[0]) * other[1] + p1 * s.stride[1] + offset[1]) *
                      other[2] +
                  offset[2];
              const int64_t step = s.stride[2];
              if (transposed) {
                for (int64_t p = first[2]; p < last[2]; ++p)
                  plane[q_row + p * step] += weight * static_cast<Acc>(source[p_row + p]);
              } else {
                for (int64_t p = first[2]; p < last[2]; ++p)
                  plane[p_row + p] += weight * static_cast<Acc>(source[q_row + p * step]);
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace evoq
