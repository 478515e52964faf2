#include "kernels/gemm/layout_blocks.h"

#include <algorithm>
#include <cstring>

#include "base/math.h"

namespace evoq {
namespace {

constexpr int64_t kBlockBytes = 16;
constexpr int64_t kMostGroups = 1 << 16;  // what uint16 counts

bool HoldsConv(const LayoutDef& layout) {
  return &layout == &kLayoutBlocks4x4Conv || &layout == &kLayoutBlocks1x16Conv;
}
BlockShape ShapeOf(const LayoutDef& layout) {
  return &layout == &kLayoutBlocks4x4Conv || &layout == &kLayoutBlocks4x4MatMul ? BlockShape::k4x4
                                                                                : BlockShape::k1x16;
}
const LayoutDef* FindBlockLayout(std::string_view name) {
  for (const LayoutDef* layout : {&kLayoutBlocks4x4Conv, &kLayoutBlocks4x4MatMul,
                                  &kLayoutBlocks1x16Conv, &kLayoutBlocks1x16MatMul}) {
    if (name == layout->name) return layout;
  }
  return nullptr;
}
Result<K4N16> SizesOf(const TensorType& type, bool conv) {
  return conv ? K4N16OfConv(type) : K4N16OfMatMul(type);
}

int64_t Groups(const K4N16& sizes) { return sizes.panel_bytes / 64; }
int64_t Lines(const K4N16& sizes, BlockShape shape) {
  return sizes.panels * 16 / LineColumns(shape);
}
int64_t GroupsOf(BlockShape shape) { return shape == BlockShape::k4x4 ? 1 : 4; }

// Calls visit(line, group) for every block that holds weights, in the order in which they are
// stored.
template <typename Visit>
void ForEachBlock(const K4N16& sizes, BlockShape shape, const Visit& visit) {
  const int64_t lines = CeilDiv(sizes.columns, LineColumns(shape));
  for (int64_t line = 0; line < lines; ++line) {
    for (int64_t tap = 0; tap < sizes.taps; ++tap) {
      for (int64_t g = 0; g < sizes.groups_of_4; g += GroupsOf(shape))
        visit(line, tap * sizes.groups_of_4 + g);
    }
  }
}

// The four weights of a block's i-th column or group, in k4n16; -1: beyond the tap.
int64_t OffsetOf(const K4N16& sizes, BlockShape shape, int64_t line, int64_t group, int64_t i) {
  const int64_t column = line * LineColumns(shape) + (shape == BlockShape::k4x4 ? i : 0);
  const int64_t at = group + (shape == BlockShape::k4x4 ? 0 : i);
  if (at / sizes.groups_of_4 != group / sizes.groups_of_4) return -1;
  return column / 16 * sizes.panel_bytes + at * 64 + column % 16 * 4;
}

// The 16 weights of a block; whether any is not 0.
bool Read(const int8_t* packed, const K4N16& sizes, BlockShape shape, int64_t line, int64_t group,
          int8_t* block) {
  bool any = false;
  for (int64_t i = 0; i < 4; ++i) {
    int32_t four = 0;
    const int64_t offset = OffsetOf(sizes, shape, line, group, i);
    if (offset >= 0) std::memcpy(&four, packed + offset, 4);
    std::memcpy(block + 4 * i, &four, 4);
    any |= four != 0;
  }
  return any;
}

int64_t HeadBytes(int64_t lines, int64_t blocks) {
  return RoundUp(4 * (lines + 1) + 2 * blocks, kBlockBytes);
}

// The most bytes: of weights none of whose blocks is zero.
template <BlockShape kShape, bool kConv>
Result<int64_t> Bytes(const TensorType& type) {
  EVOQ_ASSIGN(const K4N16 sizes, SizesOf(type, kConv));
  if (Groups(sizes) > kMostGroups || sizes.panels > (int64_t{1} << 40) / kMostGroups)
    return InvalidInput("{} is too large for blocks", type.ToString());
  const int64_t lines = Lines(sizes, kShape),
                blocks = lines * sizes.taps * CeilDiv(sizes.groups_of_4, GroupsOf(kShape));
  if (blocks > UINT32_MAX) return InvalidInput("{} is too large for blocks", type.ToString());
  return HeadBytes(lines, blocks) + kBlockBytes * blocks;
}

auto Damaged(const Tensor& packed, const char* what) {
  return InvalidInput("{} in layout {}: {}", packed.type().ToString(), packed.layout(), what);
}

Status Check(const Tensor& packed) {
  EVOQ_ASSIGN(const BlockWeights blocks, ReadBlocks(packed));
  const int64_t groups = Groups(blocks.sizes);
  for (size_t line = 0; line + 1 < blocks.begin.size(); ++line) {
    for (uint32_t i = blocks.begin[line]; i < blocks.begin[line + 1]; ++i) {
      if (blocks.groups[i] >= groups) return Damaged(packed, "a block lies beyond K");
      if (i > blocks.begin[line] && blocks.groups[i] <= blocks.groups[i - 1])
        return Damaged(packed, "the blocks of a line do not rise");
    }
  }
  return {};
}

template <bool kConv>
Result<Tensor> Unpack(const Tensor& packed) {
  EVOQ_ASSIGN(const Tensor dense, UnpackBlocks(packed));
  return (kConv ? kLayoutK4N16Conv : kLayoutK4N16MatMul).unpack(dense);
}

template <BlockShape kShape, bool kConv>
Result<Tensor> Pack(const Tensor& plain) {
  EVOQ_ASSIGN(const Tensor dense, (kConv ? kLayoutK4N16Conv : kLayoutK4N16MatMul).pack(plain));
  const LayoutDef& layout = kShape == BlockShape::k4x4
                                ? (kConv ? kLayoutBlocks4x4Conv : kLayoutBlocks4x4MatMul)
                                : (kConv ? kLayoutBlocks1x16Conv : kLayoutBlocks1x16MatMul);
  return PackBlocks(dense, layout);
}

// Of packed k4n16 bytes.
BlockCount CountBlocks(const int8_t* packed, const K4N16& sizes, BlockShape shape) {
  BlockCount count;
  int8_t block[kBlockBytes];
  ForEachBlock(sizes, shape, [&](int64_t line, int64_t group) {
    ++count.all;
    count.used += Read(packed, sizes, shape, line, group, block) ? 1 : 0;
  });
  return count;
}

}  // namespace

bool IsBlockLayout(std::string_view layout) { return FindBlockLayout(layout) != nullptr; }

const LayoutDef* BlockLayoutFor(const Tensor& packed) {
  const bool conv = packed.layout() == kK4N16Conv;
  const auto sizes = SizesOf(packed.type(), conv);
  if (!sizes || Groups(*sizes) > kMostGroups || packed.bytes() == 0) return nullptr;
  // Most weights have few zeros at all: no block is looked at then.
  const auto* fours = reinterpret_cast<const uint32_t*>(packed.raw());
  const auto count = static_cast<int64_t>(packed.bytes() / 4);
  const int64_t zeros = std::count(fours, fours + count, 0u);
  if (zeros * 100 < count * (100 - kMostBlocks)) return nullptr;
  const auto* bytes = reinterpret_cast<const int8_t*>(packed.raw());
  const LayoutDef* best = nullptr;
  double least = kMostBlocks / 100.0;
  for (const LayoutDef* layout : {conv ? &kLayoutBlocks4x4Conv : &kLayoutBlocks4x4MatMul,
                                  conv ? &kLayoutBlocks1x16Conv : &kLayoutBlocks1x16MatMul}) {
    const BlockCount blocks = CountBlocks(bytes, *sizes, ShapeOf(*layout));
    if (blocks.used * kLeastBlocks < blocks.all || blocks.share() > least) continue;
    if (best != nullptr && blocks.share() >= least) continue;
    least = blocks.share();
    best = layout;
  }
  return best;
}

Result<Tensor> PackBlocks(const Tensor& packed, const LayoutDef& layout) {
  const BlockShape shape = ShapeOf(layout);
  EVOQ_ASSIGN(const int64_t most, layout.bytes(packed.type()));
  EVOQ_ASSIGN(const K4N16 sizes, SizesOf(packed.type(), HoldsConv(layout)));
  const auto* from = reinterpret_cast<const int8_t*>(packed.raw());
  std::vector<uint32_t> begin(static_cast<size_t>(Lines(sizes, shape)) + 1);
  std::vector<uint16_t> groups;
  std::vector<int8_t> weights;
  int8_t block[kBlockBytes];
  ForEachBlock(sizes, shape, [&](int64_t line, int64_t group) {
    if (!Read(from, sizes, shape, line, group, block)) return;
    ++begin[static_cast<size_t>(line) + 1];
    groups.push_back(static_cast<uint16_t>(group));
    weights.insert(weights.end(), block, block + kBlockBytes);
  });
  for (size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
  const int64_t head = HeadBytes(Lines(sizes, shape), static_cast<int64_t>(groups.size()));
  EVOQ_CHECK(head + static_cast<int64_t>(weights.size()) <= most, "{}", most);
  std::vector<std::byte> bytes(static_cast<size_t>(head) + weights.size());
  std::memcpy(bytes.data(), begin.data(), 4 * begin.size());
  if (!groups.empty()) {
    std::memcpy(bytes.data() + 4 * begin.size(), groups.data(), 2 * groups.size());
    std::memcpy(bytes.data() + head, weights.data(), weights.size());
  }
  return Tensor::Packed(packed.type(), layout.name, std::move(bytes));
}

Result<BlockWeights> ReadBlocks(const Tensor& packed) {
  const LayoutDef* layout = FindBlockLayout(packed.layout());
  if (layout == nullptr)
    return InvalidInput("weights have layout '{}', expected blocks", packed.layout());
  EVOQ_TRY(layout->bytes(packed.type()));
  BlockWeights blocks;
  blocks.shape = ShapeOf(*layout);
  EVOQ_ASSIGN(blocks.sizes, SizesOf(packed.type(), HoldsConv(*layout)));
  const int64_t lines = Lines(blocks.sizes, blocks.shape),
                size = static_cast<int64_t>(packed.bytes());
  if (size < HeadBytes(lines, 0)) return Damaged(packed, "too few bytes");
  if (reinterpret_cast<uintptr_t>(packed.raw()) % 4 != 0) return Damaged(packed, "not aligned");
  const auto* begin = reinterpret_cast<const uint32_t*>(packed.raw());
  blocks.begin = {begin, static_cast<size_t>(lines + 1)};
  if (begin[0] != 0 || !std::is_sorted(blocks.begin.begin(), blocks.begin.end()))
    return Damaged(packed, "the beginnings of lines do not rise from 0");
  const int64_t count = begin[lines], head = HeadBytes(lines, count);
  if (size != head + kBlockBytes * count)
    return InvalidInput("{} in layout {}: {} bytes for {} blocks, expected {}",
                        packed.type().ToString(), packed.layout(), size, count,
                        head + kBlockBytes * count);
  const int64_t all = CeilDiv(blocks.sizes.columns, LineColumns(blocks.shape)) * blocks.sizes.taps *
                      CeilDiv(blocks.sizes.groups_of_4, GroupsOf(blocks.shape));
  if (count * kLeastBlocks < all)
    return InvalidInput("{} in layout {}: {} of {} blocks, expected at least one in {}",
                        packed.type().ToString(), packed.layout(), count, all, kLeastBlocks);
  blocks.groups = {reinterpret_cast<const uint16_t*>(begin + lines + 1),
                   static_cast<size_t>(count)};
  blocks.weights = reinterpret_cast<const int8_t*>(packed.raw()) + head;
  return blocks;
}

int64_t BlockIndexBytes(const Tensor& tensor) {
  if (!IsBlockLayout(tensor.layout())) return 0;
  const auto blocks = ReadBlocks(tensor);
  return blocks ? reinterpret_cast<const std::byte*>(blocks->weights) - tensor.raw() : 0;
}

Result<Tensor> UnpackBlocks(const Tensor& packed) {
  EVOQ_TRY(Check(packed));
  EVOQ_ASSIGN(const BlockWeights blocks, ReadBlocks(packed));
  const bool conv = HoldsConv(*FindBlockLayout(packed.layout()));
  std::vector<std::byte> dense(static_cast<size_t>(blocks.sizes.panels * blocks.sizes.panel_bytes));
  for (size_t line = 0; line + 1 < blocks.begin.size(); ++line) {
    for (uint32_t i = blocks.begin[line]; i < blocks.begin[line + 1]; ++i) {
      for (int64_t part = 0; part < 4; ++part) {
        const int64_t offset = OffsetOf(blocks.sizes, blocks.shape, static_cast<int64_t>(line),
                                        blocks.groups[i], part);
        if (offset >= 0)
          std::memcpy(dense.data() + offset, blocks.weights + kBlockBytes * i + 4 * part, 4);
      }
    }
  }
  return Tensor::Packed(packed.type(), conv ? kK4N16Conv : kK4N16MatMul, std::move(dense));
}

const LayoutDef kLayoutBlocks4x4Conv = {
    .name = "blocks4x4-conv",
    .formula =
        "the blocks [4 output channels][4 input channels] of k4n16-conv that are not all 0, of 4 "
        "channels one after the other",
    .bytes = Bytes<BlockShape::k4x4, true>,
    .pack = Pack<BlockShape::k4x4, true>,
    .unpack = Unpack<true>,
    .check = Check,
};
const LayoutDef kLayoutBlocks4x4MatMul = {
    .name = "blocks4x4-matmul",
    .formula =
        "the blocks [4 columns][4 k] of k4n16-matmul that are not all 0, of 4 columns one after "
        "the other",
    .bytes = Bytes<BlockShape::k4x4, false>,
    .pack = Pack<BlockShape::k4x4, false>,
    .unpack = Unpack<false>,
    .check = Check,
};
const LayoutDef kLayoutBlocks1x16Conv = {
    .name = "blocks1x16-conv",
    .formula =
        "the blocks of one output channel x 16 input channels of k4n16-conv that are not all 0, "
        "channel by channel",
    .bytes = Bytes<BlockShape::k1x16, true>,
    .pack = Pack<BlockShape::k1x16, true>,
    .unpack = Unpack<true>,
    .check = Check,
};
const LayoutDef kLayoutBlocks1x16MatMul = {
    .name = "blocks1x16-matmul",
    .formula =
        "the blocks of one column x 16 k of k4n16-matmul that are not all 0, column by column",
    .bytes = Bytes<BlockShape::k1x16, false>,
    .pack = Pack<BlockShape::k1x16, false>,
    .unpack = Unpack<false>,
    .check = Check,
};

}  // namespace evoq
