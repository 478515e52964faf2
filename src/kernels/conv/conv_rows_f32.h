// Convolution as a matrix product without im2col: which input pixel each output pixel and tap reads
// (a row source of gemm_float.h). Values are channels-last, [N, spatial..., C]; 1-D and 2-D are 3-D
// with leading sizes of 1.
#pragma once

#include <array>
#include <vector>

#include "kernels/conv/conv_shape_f32.h"
#include "kernels/gemm/gemm_float.h"
#include "kernels/parallel.h"

namespace evoq {

// One spatial axis: output j in [0, count) stands at y index first + j * step and reads, for tap t,
// the input index j * stride + delta[t], or zero outside [0, in).
struct ConvAxisF32 {
  int64_t in = 1, out = 1;
  int64_t count = 1, first = 0, step = 1;
  int64_t stride = 1;
  std::vector<int64_t> delta = {0};
  std::vector<int64_t> tap = {0};        // index along the kernel's axis of each delta
  int64_t min_delta = 0, max_delta = 0;  // of `delta`; set by ConvRowsF32

  // Whether all taps of the outputs whose j * stride are in [from, to] read inside the input.
  bool Inside(int64_t from, int64_t to) const {
    return from + min_delta >= 0 && to + max_delta < in;
  }
};

// The axes of a convolution: every output, each with all taps.
std::array<ConvAxisF32, 3> ConvAxes(const ConvShapeF32& shape);
// The outputs o = phase, phase + stride, ... of one axis of a ConvTranspose, with the taps that
// reach them.
ConvAxisF32 ConvPhaseAxis(const ConvShapeF32& shape, int axis, int64_t phase);
// The axes of phase i of shape.phases().
std::array<ConvAxisF32, 3> ConvPhaseAxes(const ConvShapeF32& shape, int64_t i);

// Everything that FillConvRows needs; the same for all groups.
struct ConvRowsF32 {
  // b_tap: floats of B per tap of the kernel.
  ConvRowsF32(const ConvShapeF32& shape, std::array<ConvAxisF32, 3> axes, int64_t b_tap);

  int64_t rows() const { return batch * axis[0].count * axis[1].count * axis[2].count; }
  int64_t taps() const { return static_cast<int64_t>(tap.size()); }

  struct Tap {
    int32_t delta[3];
    int64_t a, b;
  };
  int64_t batch, channels_in, channels_out;
  std::array<ConvAxisF32, 3> axis;
  std::vector<Tap> tap;
  int64_t merge = 1;  // neighbouring taps whose input is contiguous in memory
  std::vector<float>
      zeros;  // what taps outside the input read: `depth` floats, and what a lane tile reads
};

// An input of few channels is worth a copy with its border of zeros around it: tiles whose taps all
// lie inside it name each row once, others every tap of it.
bool PadsInput(const ConvShapeF32& shape);
// The convolution without pads over such a copy.
ConvShapeF32 OverPadded(const ConvShapeF32& shape);
// Writes the copy of x, the input of `shape`, that OverPadded(shape) reads: to `y`, of
// batch * in[0] * in[1] * in[2] * channels_in floats. `widen`: null, or x is bfloat16.
void PadInput(const ConvShapeF32& shape, const void* x, float* y, ThreadPool& pool,
              void (*widen)(const uint16_t* x, float* y, int64_t n) = nullptr);

struct ConvRowsSourceF32 {
  const ConvRowsF32* map;
  const float* x;  // at the group's first channel
};
// A FillGemmRows whose source is a ConvRowsSourceF32.
void FillConvRows(const void* source, int64_t first, int count, const GemmSegment& segment,
                  GemmRows& tile);

}  // namespace evoq
