// Numbers of fewer than 8 bits that weights of matrix products become, in blocks with a scale each.
// A row stands in the file of its schemes, quant/schemes/NAME.cc, and in quant/low_bits.inc.
#pragma once

#include <span>

#include "tensor/tensor.h"

namespace evoq {

struct LowBits {
  const char* name;  // "int4", of names and reports
  DType dtype;
  // The integers that products of rounded data multiply; false: the numbers are none.
  bool integers;
  // A matrix [K, N] of finite float32 in blocks of `block` along K (0: one), each column of a block
  // with a scale, and a zero point where the row has them, of the numbers' own choice: of a few
  // candidates, the first of which reaches both ends of the block, those whose errors have the
  // least sum of cubes (of magnitudes) over the block, the first of equals. Scales are float16
  // numbers where one is large enough. The result does not depend on `threads`.
  Tensor (*quantize)(const Tensor& weight, int64_t block, int threads);

  // For methods that choose numbers themselves (quant/weight_grid.h). Of the columns n < count of a
  // block, w[k * stride + n], k < depth: the candidate of the least sum over k of
  // importance[k] (w - stored)^2; without `importance`, as `quantize` chooses.
  void (*choose)(const float* w, int64_t stride, int64_t depth, int64_t count,
                 const float* importance, float* scale, float* zero);
  // number[n]: nearest to v[n] / scale[n]. The stored value is number * scale.
  void (*nearest)(const float* v, const float* scale, const float* zero, int64_t count,
                  float* number);
  uint8_t (*bits)(float number, float zero);  // how it is stored
  float (*scale)(float wanted);  // the scale nearest to `wanted` > 0 that can be stored
};

std::span<const LowBits* const> AllLowBits();

}  // namespace evoq
