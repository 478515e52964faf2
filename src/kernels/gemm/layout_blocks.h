// Packed int8 weights of which only the blocks that are not all zero are stored (docs/pruning.md).
// The groups of four and the panels are those of k4n16.
//
//   uint32 begin[lines + 1]   of line i the blocks begin[i] .. begin[i + 1]; begin[0] = 0
//   uint16 groups[blocks]     of each block its first group; those of a line rise
//   zeros up to a multiple of 16 bytes
//   int8 weights[blocks][16]
#pragma once

#include <optional>
#include <span>

#include "kernels/gemm/layout_k4n16.h"

namespace evoq {

// Which weights are zero together. Along K of a convolution means along its input channels, tap by
// tap.
enum class BlockShape { k4x4, k1x16 };

// Columns of a line: of a block four columns x 4 along K, or one column x 16.
constexpr int LineColumns(BlockShape shape) { return shape == BlockShape::k4x4 ? 4 : 1; }
constexpr const char* BlockName(BlockShape shape) {
  return shape == BlockShape::k4x4 ? "4x4" : "1x16";
}

// Blocks among all that hold weights, of which some are not zero. No dimension is 0.
struct BlockCount {
  int64_t used = 0, all = 0;
  double share() const {
    return all == 0 ? 1 : static_cast<double>(used) / static_cast<double>(all);
  }
};

// Weights with fewer blocks than one in so many are stored in full: a file's constants are no
// smaller than a fixed share of what they unpack to.
inline constexpr int64_t kLeastBlocks = 64;
// Weights with more blocks than these hundredths are stored in full: no tile of any instruction set
// is faster with them (Int8TileDef::most_blocks).
inline constexpr int64_t kMostBlocks = 50;

// The layout in which the weights of a tensor in k4n16 are best stored, or null: stored as it is.
const LayoutDef* BlockLayoutFor(const Tensor& packed);
// The same weights in `layout`.
Result<Tensor> PackBlocks(const Tensor& packed, const LayoutDef& layout);

struct BlockWeights {
  K4N16 sizes;
  BlockShape shape = BlockShape::k4x4;
  std::span<const uint32_t> begin;
  std::span<const uint16_t> groups;
  const int8_t* weights = nullptr;
};
bool IsBlockLayout(std::string_view layout);
// Views of a tensor in one of these layouts. Errors: kInvalidInput where it is none, or its bytes
// are none.
Result<BlockWeights> ReadBlocks(const Tensor& packed);
// Of a tensor in one of these layouts, the bytes that say where blocks lie; 0 of another.
int64_t BlockIndexBytes(const Tensor& tensor);
// The same weights in k4n16.
Result<Tensor> UnpackBlocks(const Tensor& packed);

extern const LayoutDef kLayoutBlocks4x4Conv, kLayoutBlocks4x4MatMul;
extern const LayoutDef kLayoutBlocks1x16Conv, kLayoutBlocks1x16MatMul;

}  // namespace evoq
