// The loops of a type of few bits (quant/low_bits.h), compiled for each instruction set. Results
// are the same bits whichever serves.
#pragma once

#include <cstdint>

#include "kernels/isa_table.h"

namespace evoq {

struct LowBitsLoops {
  static constexpr int kColumns = 64;  // that Choose and Store take at once, at most

  // Of the columns n < count of a block, w[k * stride + n], k < depth: the candidate of the least
  // sum over k of importance[k] (w - stored)^2; without `importance`, of the least sum of the cubes
  // of magnitudes of errors. The first of equals.
  void (*choose)(const float* w, int64_t stride, int64_t depth, int64_t count,
                 const float* importance, float* scale, float* zero);
  // The block's elements in their bits: element (k, n) is the `first` + k * to_stride + n th of
  // `to`, which is zero there.
  void (*store)(const float* w, int64_t stride, int64_t depth, int64_t count, const float* scale,
                const float* zero, int64_t first, int64_t to_stride, std::byte* to);
  // number[n]: nearest to v[n] / scale[n]. The stored value is number * scale.
  void (*nearest)(const float* v, const float* scale, const float* zero, int64_t count,
                  float* number);
  const float* zeros;  // the zero points that numbers may have, `zero_count` of them
  int zero_count;
  uint8_t (*bits)(float number, float zero);  // how it is stored
  float (*scale)(float wanted);  // the scale nearest to `wanted` > 0 that can be stored
  // scale[b * stride + n] of up to 4 blocks b and columns n < count become the multiples of a step
  // (kernels/gemm/blocks/scale_steps.h) of the least sum of squared distances, the least step of
  // equals; one of 0 becomes any. Columns that no float16 step fits stay. Null: not of this type.
  void (*share)(float* scale, int64_t stride, int64_t blocks, int64_t count) = nullptr;
};

using Int4Loops = LowBitsLoops;
using Int2Loops = LowBitsLoops;
using Uint4Loops = LowBitsLoops;
using Mxfp4Loops = LowBitsLoops;
using Nvfp4Loops = LowBitsLoops;
using Nf4Loops = LowBitsLoops;
using Fp8Loops = LowBitsLoops;
using Fp8E5m2Loops = LowBitsLoops;
EVOQ_ISA_TABLE(Int4Loops)
EVOQ_ISA_TABLE(Int2Loops)
EVOQ_ISA_TABLE(Uint4Loops)
EVOQ_ISA_TABLE(Mxfp4Loops)
EVOQ_ISA_TABLE(Nvfp4Loops)
EVOQ_ISA_TABLE(Nf4Loops)
EVOQ_ISA_TABLE(Fp8Loops)
EVOQ_ISA_TABLE(Fp8E5m2Loops)

}  // namespace evoq
