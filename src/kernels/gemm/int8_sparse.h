// Weights of which only blocks that are not all zero are multiplied: what sparse tiles read, and
// when they are taken.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/aligned.h"
#include "kernels/gemm/int8_linear.h"
#include "kernels/gemm/layout_blocks.h"

namespace evoq {

struct SparseInt8 {
  Int8Sparse tiles;  // views of what follows
  std::vector<uint32_t> begin;
  std::vector<uint16_t> groups;
  AlignedBuffer weights;
  BlockShape shape = BlockShape::k4x4;
  double share = 1;  // of blocks that are stored
};

// Whether there are tiles that skip blocks of these packed weights; whether they pay is
// SparseTilesFor's to say.
bool SkipsBlocks(const Tensor& weights, const Int8Geometry& geometry, const BindOptions& options);

// The share of all blocks of these weights that is stored.
double StoredShare(const BlockWeights& blocks);

// Blocks in the form that `tiles`, sparse ones, read.
std::shared_ptr<const SparseInt8> PrepareSparse(const BlockWeights& blocks,
                                                const Int8TileDef& tiles);

// KernelPlan::method of a product that skips blocks: "4x4 blocks, 25% of them".
std::string BlockMethod(BlockShape shape, double share);
// The share that BlockMethod named; 1 of another method.
double ShareOfBlocks(std::string_view method);

// sums[n] = the sum of column n's weights, `sums` for whole panels.
void SumSparseColumns(const BlockWeights& blocks, std::span<int32_t> sums);

// The tiles of `spec`, whose weights are `blocks`, or null where dense tiles compute it: they are
// faster for so many blocks, it has few rows, or groups.
const Int8TileDef* SparseTilesFor(const Int8LinearSpec& spec, const BlockWeights& blocks,
                                  const BindOptions& options);

}  // namespace evoq
