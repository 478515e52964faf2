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
};

std::span<const LowBits* const> AllLowBits();

}  // namespace evoq
