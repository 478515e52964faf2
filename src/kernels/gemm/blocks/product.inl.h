// The functions of product.h, for one instruction set: BlockTable kBlockDot.
#include <array>
#include <cstring>
#include <utility>

#include "kernels/gemm/blocks/block_data.h"
#include "kernels/gemm/blocks/vectors.inl.h"

namespace evoq::EVOQ_ISA {
namespace {

// Kinds of lines, in the order of BlockLines: groups of four k in a line, whether all numbers are
// below 128, the numbers of group i.
struct Nibbles {
  static constexpr int kGroups = 2;
  static constexpr bool kSmall = true;
  static EVOQ_ALWAYS_INLINE Bytes Group(const Bytes& line, int i) { return Bits<4>(line, i); }
};
struct Pairs {
  static constexpr int kGroups = 4;
  static constexpr bool kSmall = true;
  static EVOQ_ALWAYS_INLINE Bytes Group(const Bytes& line, int i) { return Bits<2>(line, i); }
};
struct E2m1 {
  static constexpr int kGroups = 2;
  static constexpr bool kSmall = true;
  static EVOQ_ALWAYS_INLINE Bytes Group(const Bytes& line, int i) {
    // Twice 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives, plus kE2m1Offset.
    alignas(16) static constexpr uint8_t kTable[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                       12, 11, 10, 9,  8,  6,  4,  0};
    return LookUp(kTable, Bits<4>(line, i));
  }
};
struct SmallBytes {
  static constexpr int kGroups = 1;
  static constexpr bool kSmall = true;
  static EVOQ_ALWAYS_INLINE Bytes Group(const Bytes& line, int) { return line; }
};
struct FlippedBytes {
  static constexpr int kGroups = 1;
  static constexpr bool kSmall = false;
  static EVOQ_ALWAYS_INLINE Bytes Group(const Bytes& line, int) { return Flip(line); }
};

// Where a tile stands in its unit and rows.
template <int kRows>
struct Place {
  const uint8_t* at;
  const int8_t* q[kRows];
};

template <typename L>
EVOQ_ALWAYS_INLINE int64_t LinesOf(int64_t k) {
  return (k + 4 * L::kGroups - 1) / (4 * L::kGroups);
}

// The sums of one block; the place moves behind it.
template <typename L, int kRows>
EVOQ_ALWAYS_INLINE void Sums(Place<kRows>& place, int64_t lines, int64_t side,
                             Ints (&sums)[kRows][kMaxPanels]) {
  for (int64_t l = 0; l < lines; ++l, place.at += 64 * kUnitPanels) {
    Bytes line[kMaxPanels];
#pragma GCC unroll 2
    for (int p = 0; p < kMaxPanels; ++p) line[p] = LoadBytes(place.at + 64 * (side + p));
#pragma GCC unroll 4
    for (int g = 0; g < L::kGroups; ++g) {
      Bytes u[kMaxPanels];
#pragma GCC unroll 2
      for (int p = 0; p < kMaxPanels; ++p) u[p] = L::Group(line[p], g);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Quad quad = Spread(place.q[r] + 4 * g);
#pragma GCC unroll 2
        for (int p = 0; p < kMaxPanels; ++p) sums[r][p] = Dot<L::kSmall>(sums[r][p], u[p], quad);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) place.q[r] += 4 * L::kGroups;
  }
}

template <typename L, int kRows, bool kNested>
void Tile(const BlockUnit& unit, const BlockRows& x, int64_t row, int64_t panel) {
  const BlockStream& w = unit.stream;
  const BlockCut& cut = w.cut;
  const int64_t blocks = cut.blocks(), data_blocks = cut.data_blocks();
  const int64_t column = panel * kBlockColumns, side = panel % kUnitPanels;
  Place<kRows> place;
  place.at = unit.bytes;
  int count[kMaxPanels];
  Floats y[kRows][kMaxPanels], t[kRows][kMaxPanels];
#pragma GCC unroll 2
  for (int p = 0; p < kMaxPanels; ++p) {
    const int64_t left = w.columns - column - p * kBlockColumns;
    count[p] = static_cast<int>(left < 0 ? 0 : left < kBlockColumns ? left : kBlockColumns);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    place.q[r] = x.q + (row + r) * x.stride;
#pragma GCC unroll 2
    for (int p = 0; p < kMaxPanels; ++p)
      y[r][p] = x.bias == nullptr ? AllF(0) : LoadF(x.bias + column + p * 16, count[p]);
  }
  const int32_t* corrections = x.corrections + row * blocks;
  const float* data_scales = x.scales + row * data_blocks;
  const uint8_t* head = nullptr;
  int64_t scale_blocks = 0, piece = 0;
  for (int64_t b = 0; b < blocks; ++b, ++corrections) {
    if (scale_blocks == 0) {
      head = place.at;
      place.at += w.head_bytes();
      scale_blocks = cut.blocks_per_scale;
    }
    --scale_blocks;
    Ints sums[kRows][kMaxPanels];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int p = 0; p < kMaxPanels; ++p)
        sums[r][p] = w.has_zeros ? Times(head + w.scale_bytes() + kBlockColumns * (side + p),
                                         corrections[r * blocks])
                                 : All(corrections[r * blocks]);
    }
    const int64_t left = cut.depth - b * cut.block, k = left < cut.block ? left : cut.block;
    Sums<L, kRows>(place, LinesOf<L>(k), side, sums);
    const bool first = piece == 0, last = ++piece == cut.pieces || b + 1 == blocks;
#pragma GCC unroll 2
    for (int p = 0; p < kMaxPanels; ++p) {
      const int64_t i = kBlockColumns * (side + p);
      const Floats s = w.half_scales ? LoadHalf(reinterpret_cast<const uint16_t*>(head) + i)
                                     : LoadF(reinterpret_cast<const float*>(head) + i);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Floats sum = ToFloats(sums[r][p]);
        t[r][p] = !kNested || first ? Mul(sum, s) : MulAdd(sum, s, t[r][p]);
        if (!kNested || last)
          y[r][p] = MulAdd(AllF(data_scales[r * data_blocks]), t[r][p], y[r][p]);
      }
    }
    if (!kNested || last) ++data_scales, piece = 0;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int p = 0; p < kMaxPanels; ++p) {
      const int64_t i = (row + r) * w.columns + column + p * kBlockColumns;
      if (x.residual != nullptr) y[r][p] = Add(y[r][p], LoadF(x.residual + i, count[p]));
      StoreF(x.y + i, count[p], y[r][p]);
    }
  }
}

using TileFn = void (*)(const BlockUnit& unit, const BlockRows& rows, int64_t row, int64_t panel);

template <typename L, bool kNested, int... kRows>
constexpr std::array<TileFn, kMaxRows> TilesOf(std::integer_sequence<int, kRows...>) {
  return {Tile<L, kRows + 1, kNested>...};
}
template <typename L, bool kNested>
constexpr auto kTiles = TilesOf<L, kNested>(std::make_integer_sequence<int, kMaxRows>());

template <typename L>
TileFn TileFor(int row_count, bool nested) {
  return (nested ? kTiles<L, true> : kTiles<L, false>)[row_count - 1];
}

template <typename L>
void UnpackUnit(const BlockUnit& unit, uint8_t* to) {
  const BlockCut& cut = unit.stream.cut;
  const int64_t head = unit.stream.head_bytes(), step = cut.block * cut.blocks_per_scale;
  const uint8_t* from = unit.bytes;
  for (int64_t k = 0; k < cut.depth; k += step) {
    std::memcpy(to, from, static_cast<size_t>(head));
    from += head, to += head;
    const int64_t left = cut.depth - k;
    for (int64_t l = LinesOf<L>(left < step ? left : step); l > 0; --l) {
      for (int p = 0; p < kUnitPanels; ++p, from += 64) {
        const Bytes line = LoadBytes(from);
        for (int g = 0; g < L::kGroups; ++g)
          StoreBytes(to + 64 * (g * kUnitPanels + p), L::Group(line, g));
      }
      to += 64 * kUnitPanels * L::kGroups;
    }
  }
}

// What there is of each kind.
struct LinesCode {
  TileFn (*tile)(int row_count, bool nested);
  void (*unpack)(const BlockUnit& unit, uint8_t* bytes);
};
template <typename... L>
constexpr std::array<LinesCode, sizeof...(L)> CodeOf() {
  return {LinesCode{TileFor<L>, UnpackUnit<L>}...};
}
constexpr auto kCode = CodeOf<Nibbles, Pairs, E2m1, SmallBytes, FlippedBytes>();

void RunTile(BlockLines kind, const BlockUnit& unit, const BlockRows& rows, int64_t row,
             int row_count, int64_t panel) {
  const bool nested = unit.stream.cut.pieces > 1;
  kCode[static_cast<size_t>(kind)].tile(row_count, nested)(unit, rows, row, panel);
}

void Unpack(BlockLines kind, const BlockUnit& unit, uint8_t* bytes) {
  kCode[static_cast<size_t>(kind)].unpack(unit, bytes);
}

void Quantize(const float* x, const BlockCut& cut, int32_t factor, int64_t stride, int8_t* q,
              float* scales, int32_t* corrections) {
  const int64_t data_block = cut.block * cut.pieces;
  for (int64_t k = 0; k < cut.depth; k += data_block)
    *scales++ =
        QuantizeBlock(x + k, cut.depth - k < data_block ? cut.depth - k : data_block, q + k);
  for (int64_t k = cut.depth; k < stride; ++k) q[k] = 0;
  for (int64_t k = 0; k < cut.depth; k += cut.block) {
    const int64_t end = cut.depth - k < cut.block ? cut.depth : k + cut.block;
    int32_t sum = 0;
    for (int64_t i = k; i < end; ++i) sum += q[i];
    *corrections++ = factor * sum;
  }
}

}  // namespace

const BlockTable kBlockDot = {
    .name = EVOQ_TABLE_NAME,
    .max_rows = kMaxRows,
    .max_panels = kMaxPanels,
    .direct_rows = kDirectRows,
    .quantize = Quantize,
    .unpack = Unpack,
    .tile = RunTile,
};

}  // namespace evoq::EVOQ_ISA
