#include "kernels/gemm/int8_sparse.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/math.h"
#include "kernels/gemm/int8_block.h"
#include "kernels/gemm/int8_variants.h"
#include "kernels/gemm/int8_winograd.h"

namespace evoq {
namespace {

constexpr int64_t kLeastRows = 8;  // of which a register of the tile holds one group

// 16 int16, of each four weights 0, 2, 1, 3.
void Widen(const int8_t* block, std::byte* to) {
  int16_t words[16];
  for (int i = 0; i < 16; i += 4) {
    words[i] = block[i];
    words[i + 1] = block[i + 2];
    words[i + 2] = block[i + 1];
    words[i + 3] = block[i + 3];
  }
  std::memcpy(to, words, sizeof(words));
}

int64_t AllBlocks(const BlockWeights& blocks) {
  const K4N16& sizes = blocks.sizes;
  return CeilDiv(sizes.columns, LineColumns(blocks.shape)) * sizes.taps *
         CeilDiv(sizes.groups_of_4, blocks.shape == BlockShape::k4x4 ? 1 : 4);
}
}  // namespace

double StoredShare(const BlockWeights& blocks) {
  const int64_t all = AllBlocks(blocks);
  return all == 0 ? 1 : static_cast<double>(blocks.groups.size()) / static_cast<double>(all);
}

std::shared_ptr<const SparseInt8> PrepareSparse(const BlockWeights& blocks,
                                                const Int8TileDef& tiles) {
  auto sparse = std::make_shared<SparseInt8>();
  sparse->shape = blocks.shape;
  sparse->share = StoredShare(blocks);
  sparse->begin.assign(blocks.begin.begin(), blocks.begin.end());
  sparse->groups.assign(blocks.groups.begin(), blocks.groups.end());
  const size_t count = blocks.groups.size(), bytes = tiles.wide_blocks ? 32 : 16;
  sparse->weights = AlignedBuffer(count * bytes);
  for (size_t i = 0; i < count; ++i) {
    std::byte* const to = sparse->weights.data() + bytes * i;
    if (tiles.wide_blocks) {
      Widen(blocks.weights + 16 * i, to);
    } else {
      std::memcpy(to, blocks.weights + 16 * i, 16);
    }
  }
  sparse->tiles = {LineColumns(blocks.shape),
                   {sparse->begin.data(), sparse->groups.data(),
                    reinterpret_cast<const int8_t*>(sparse->weights.data())}};
  return sparse;
}

std::string BlockMethod(BlockShape shape, double share) {
  return fmt::format("{} blocks, {:.0f}% of them", BlockName(shape), 100 * share);
}

double ShareOfBlocks(std::string_view method) {
  for (const BlockShape shape : {BlockShape::k4x4, BlockShape::k1x16}) {
    const std::string begin = fmt::format("{} blocks, ", BlockName(shape));
    int percent = 0;
    if (method.starts_with(begin) &&
        std::sscanf(std::string(method.substr(begin.size())).c_str(), "%d%%", &percent) == 1)
      return percent / 100.0;
  }
  return 1;
}

void SumSparseColumns(const BlockWeights& blocks, std::span<int32_t> sums) {
  std::fill(sums.begin(), sums.end(), 0);
  const int columns = LineColumns(blocks.shape);
  for (size_t line = 0; line + 1 < blocks.begin.size(); ++line) {
    for (uint32_t i = blocks.begin[line]; i < blocks.begin[line + 1]; ++i) {
      const int8_t* const block = blocks.weights + 16 * static_cast<size_t>(i);
      for (size_t k = 0; k < 16; ++k) sums[line * columns + (columns == 4 ? k / 4 : 0)] += block[k];
    }
  }
}

namespace {

// Those that can compute it.
const Int8TileDef* SparseTiles(const Int8Geometry& geometry, int64_t groups,
                               const BindOptions& options) {
  if (geometry.group != 1 || groups > kMaxSparseGroups || geometry.rows() < kLeastRows)
    return nullptr;
  const Int8Use use = {.rows = geometry.rows(),
                       .depth = 4 * groups,
                       .smallest = ParseInt8Variant(options.variant).smallest};
  return TilesFor(Int8TileFor(options.isa), use).tiles->sparse;
}

int64_t GroupsOf(const BlockWeights& blocks) { return blocks.sizes.panel_bytes / 64; }

}  // namespace

bool SkipsBlocks(const Tensor& weights, const Int8Geometry& geometry, const BindOptions& options) {
  if (!IsBlockLayout(weights.layout())) return false;
  const auto blocks = ReadBlocks(weights);
  return blocks && SparseTiles(geometry, GroupsOf(*blocks), options) != nullptr;
}

const Int8TileDef* SparseTilesFor(const Int8LinearSpec& spec, const BlockWeights& blocks,
                                  const BindOptions& options) {
  if (options.variant == kInt8Winograd || options.variant == kInt8Dense) return nullptr;
  const int64_t groups = GroupsOf(blocks);
  const Int8TileDef* tiles = SparseTiles(spec.geometry, groups, options);
  if (tiles == nullptr || options.variant == kInt8Skipping) return tiles;
  const int most =
      TakesInt8Winograd(spec, options) ? tiles->most_blocks_winograd : tiles->most_blocks;
  // A block of one column shares nothing between columns.
  const double as = blocks.shape == BlockShape::k1x16 ? tiles->long_blocks_as / 100.0 : 1;
  const double turned = 1 - tiles->turning_depth / (4.0 * static_cast<double>(groups));
  return 100 * as * StoredShare(blocks) <= most * turned ? tiles : nullptr;
}

}  // namespace evoq
