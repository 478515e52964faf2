// Numbers of 8 bits and fewer, int8 left out, that weights of matrix products become, in blocks
// with a scale each.
// A row stands in the file of its schemes, quant/schemes/NAME.cc, and in quant/low_bits.inc; its
// loops in quant/low_bits/NAME_each.cc.
#pragma once

#include <span>

#include "quant/low_bits/loops.h"
#include "quant/stored_matrix.h"
#include "tensor/tensor.h"

namespace evoq {

// Weights w[k * stride + n] of k < depth, in blocks of so many k, and their scales
// scales[k / block * stride + n].
struct SharedWeights {
  const float* w;
  int64_t stride, block, depth;
};
struct SharedBlockScales {
  float* scales;
  int64_t stride;
};

struct LowBits {
  const char* name;  // "int4", of names and reports
  DType dtype;
  // The integers that products of rounded data multiply; false: the numbers are none.
  bool integers;
  // Scales become multiples of steps (kernels/gemm/blocks/scale_steps.h) where --block is one that
  // shares them.
  bool steps = false;
  // For methods that choose numbers themselves (quant/weight_grid.h), those of any instruction set.
  const LowBitsLoops& (*loops)(Isa isa);

  // A matrix [K, N] in blocks of `block` along K (0: one), each column of a block with a scale, and
  // a zero point where the row has them, as LowBitsLoops::choose finds them: of a few candidates,
  // the first of which reaches both ends of the block. Scales are float16 numbers where one is
  // large enough, and with `steps` near multiples of one. The result does not depend on `threads`.
  // Errors: kInvalidInput for a NaN or an infinity; plain float32, which is read where it lies,
  // must be finite.
  Result<Tensor> Quantize(const StoredMatrix& weight, int64_t block, int threads) const;

  // How many blocks share a step; 1: none.
  int64_t SharedBlocks(int64_t block) const;
  // The scales of blocks that share one, of `columns` columns, become near multiples of it; blocks
  // of zeros take what others leave.
  static void Share(const SharedWeights& w, const SharedBlockScales& to, int64_t columns,
                    const LowBitsLoops& loops);
};

std::span<const LowBits* const> AllLowBits();

// What the option --block may be: "32", "64", "128", "channel"; and QuantizeOptions::block of it.
std::span<const char* const> WeightBlocks();
// Errors: kUsage for others.
Result<int64_t> ParseWeightBlock(const std::string& text);

// The block of data that is rounded (attribute data_block) beside weights in blocks of `block`, 0
// for one scale for each output channel: the least multiple of it that is 128 or more, so that
// scales of the data cost a product little, or with `equal`, which blocks have, the same.
int64_t DataBlockBeside(int64_t block, bool equal);

}  // namespace evoq
