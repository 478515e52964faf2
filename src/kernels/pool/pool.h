// Pooling, channels last: x is N,spatial...,C with one to three spatial dimensions, y likewise. Per
// output position, over the taps of its window that lie inside x, in row-major order:
//   max      m = the type's lowest value (-infinity for float32), then m = x > m ? x : m; NaN where
//            a tap is NaN
//   average  uint8: v = float32(sum of (x - zero_x)) * float32(double(s_x) / (double(s_y) * n)),
//            rounded as in requant.h; float32: y = (0 + x[0] + x[1] + ...) / float32(n);
//            bfloat16: the same in float32, rounded at the end
// The count n is at least 1: the number of taps inside x; with count_include_pad, of those inside x
// or its padding. Global pooling is the same with the window of all of x, but that a zero maximum
// is +0.
#pragma once

#include <cstdint>

#include "kernels/bounds.h"
#include "kernels/isa_table.h"
#include "kernels/window.h"

namespace evoq {

inline constexpr int64_t kPoolGroup = 256;  // channels of one task

struct PoolArgs {
  int64_t batch = 0;
  int64_t channels = 0;
  WindowDim d, h, w;
  bool include_pad = false;
  bool global = false;
  int32_t zero_x = 0;
  double scale_x = 1;
  double scale_y = 1;
  OutputBounds bounds;

  int64_t groups() const { return (channels + kPoolGroup - 1) / kPoolGroup; }
  // A task is one output row of one group of channels.
  int64_t tasks() const { return batch * d.out * h.out * groups(); }
};

using PoolFn = void (*)(const PoolArgs& args, const void* x, void* y, int64_t begin, int64_t end);

// Tasks [begin, end).
struct PoolTable {
  PoolFn max_u8, max_i8, max_f32, max_bf16, average_u8, average_f32, average_bf16;
};
EVOQ_ISA_TABLE(PoolTable)

}  // namespace evoq
