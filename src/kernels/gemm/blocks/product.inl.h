// The functions of product.h, for one instruction set: BlockTable kBlockDot.
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/gemm/blocks/block_data.h"
#include "kernels/gemm/blocks/lines.inl.h"
#include "kernels/gemm/walk.h"

namespace evoq::EVOQ_ISA {
namespace {

template <typename L>
constexpr bool kSmall = L::kLargest < 128;
template <typename L>
constexpr bool kIsSteps = std::is_same_v<L, StepBytes>;
// Whether heads of such lines may hold steps and multiples.
template <typename L>
constexpr bool kMayHaveSteps = std::is_same_v<L, Nibbles>;

// What sums of products by scales begin with: a product that is added to it keeps its sign if it is
// 0.
constexpr float kNothing = -0.0f;

// Panels of a tile of so many rows.
template <int kRows>
constexpr int kPanels = kRows <= kWideRows ? kUnitPanels : 1;

// Where a tile stands in its unit and rows.
template <int kRows>
struct Place {
  const uint8_t* at;
  const int8_t* q[kRows];
};

// Tiles of both panels ask for lines of fewer than 8 bits so far ahead, those of kFarRows or more
// as BlockAhead says: with AVX2, where those are of one row, a Zen 3 reads a third more from memory
// beside these products then; with AVX-512 a Zen 4 reads less in tiles of one or two rows, so that
// these ask only where BlockRows says so, as all do for lines of 8 bits, and tiles of more rows
// compute while it reads, 8 rows in a sixth less time.
#if defined(__AVX512BW__)
constexpr int kLinesAhead = 128, kLeastRowsAsking = 3;
#else
constexpr int kLinesAhead = 64, kLeastRowsAsking = 1;
#endif
constexpr int kFarRows = 3;
template <typename L, int kRows, bool kAsked>
constexpr bool kAsks =
    (kAsked || (L::kGroups > 1 && kRows >= kLeastRowsAsking)) && (kPanels<kRows> == kUnitPanels);

// Tiles of one panel read every other line, which the processor's own prefetching does not follow
// well: they ask for both panels' lines, of which the other panel's tile comes for its own.
EVOQ_ALWAYS_INLINE void AskForPair(const uint8_t* at) {
  __builtin_prefetch(at + kWalkAhead);
  __builtin_prefetch(at + kWalkAhead + 64);
}

#if defined(EVOQ_FOLDS_PAIRS)
// Lines of 32 k, and the lines of them whose sums of pairs fit int16: a pair is at most 2 * 127 *
// kLargest.
template <typename L>
constexpr int kBlockLines = 32 / (4 * L::kGroups);
template <typename L>
constexpr int FoldedLines() {
  int lines = kBlockLines<L>;
  while (lines * L::kGroups * 2 * 127 * L::kLargest > INT16_MAX) lines /= 2;
  return lines;
}

// Adds the products of `lines` lines, at most FoldedLines.
template <typename L, int kRows>
EVOQ_ALWAYS_INLINE void AddLines(Place<kRows>& place, int64_t lines, int64_t side,
                                 Ints (&sums)[kRows][kPanels<kRows>]) {
  Pairs16 pairs[kRows][kPanels<kRows>];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int p = 0; p < kPanels<kRows>; ++p) pairs[r][p] = NoPairs();
  }
#pragma GCC unroll 8
  for (int64_t l = 0; l < lines; ++l) {
    if constexpr (kPanels<kRows> == 1) AskForPair(place.at + 64 * l * kUnitPanels);
#pragma GCC unroll 2
    for (int p = 0; p < kPanels<kRows>; ++p) {
      const uint8_t* const at = place.at + 64 * (l * kUnitPanels + side + p);
      if constexpr (kAsks<L, kRows, false>) __builtin_prefetch(at + 64 * kLinesAhead);
      const Bytes line = LoadBytes(at);
#pragma GCC unroll 4
      for (int g = 0; g < L::kGroups; ++g) {
        const Bytes u = L::Group(line, g);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r)
          pairs[r][p] = AddPairs(pairs[r][p], u, Spread(place.q[r] + 4 * (l * L::kGroups + g)));
      }
    }
  }
  place.at += 64 * kUnitPanels * lines;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    place.q[r] += 4 * L::kGroups * lines;
#pragma GCC unroll 2
    for (int p = 0; p < kPanels<kRows>; ++p) sums[r][p] = Fold(sums[r][p], pairs[r][p]);
  }
}

// A tile within a block. What has an address is not kept in registers: this is a copy.
template <int kRows>
struct TileInBlock {
  Place<kRows> place;
  Ints sums[kRows][kPanels<kRows>];
};

template <typename L, int kRows>
[[gnu::noinline]] void AddAnyLines(TileInBlock<kRows>& tile, int64_t lines, int64_t side) {
  for (int64_t count; lines > 0; lines -= count) {
    count = lines < FoldedLines<L>() ? lines : FoldedLines<L>();
    AddLines<L>(tile.place, count, side, tile.sums);
  }
}
#endif

// Adds the products of a block to the sums; the place moves behind it.
template <typename L, bool kAsked, int kRows>
EVOQ_ALWAYS_INLINE void AddBlock(Place<kRows>& place, int64_t lines, int64_t side,
                                 [[maybe_unused]] int64_t distance,
                                 Ints (&sums)[kRows][kPanels<kRows>]) {
#if defined(EVOQ_FOLDS_PAIRS)
  if constexpr (kSmall<L>) {
    if (lines == kBlockLines<L>) {
#pragma GCC unroll 2
      for (int i = 0; i < kBlockLines<L> / FoldedLines<L>(); ++i)
        AddLines<L>(place, FoldedLines<L>(), side, sums);
      return;
    }
    TileInBlock<kRows> tile;
    tile.place = place;
    std::memcpy(tile.sums, sums, sizeof(sums));
    AddAnyLines<L, kRows>(tile, lines, side);
    place = tile.place;
    std::memcpy(sums, tile.sums, sizeof(sums));
    return;
  }
#endif
  for (int64_t l = 0; l < lines; ++l, place.at += 64 * kUnitPanels) {
    if constexpr (kPanels<kRows> == 1) AskForPair(place.at);
    Bytes line[kPanels<kRows>];
#pragma GCC unroll 2
    for (int p = 0; p < kPanels<kRows>; ++p) {
      const uint8_t* const at = place.at + 64 * (side + p);
      if constexpr (kAsks<L, kRows, kAsked>)
        __builtin_prefetch(at + (kRows >= kFarRows ? distance : 64 * kLinesAhead));
      line[p] = LoadBytes(at);
    }
#pragma GCC unroll 4
    for (int g = 0; g < L::kGroups; ++g) {
      Bytes u[kPanels<kRows>];
#pragma GCC unroll 2
      for (int p = 0; p < kPanels<kRows>; ++p) u[p] = L::Group(line[p], g);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Quad quad = Spread(place.q[r] + 4 * g);
#pragma GCC unroll 2
        for (int p = 0; p < kPanels<kRows>; ++p)
          sums[r][p] = Dot<kSmall<L>>(sums[r][p], u[p], quad);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) place.q[r] += 4 * L::kGroups;
  }
}

// Of panel columns from `column` on, those that there are.
EVOQ_ALWAYS_INLINE int ColumnsFrom(const BlockStream& w, int64_t column) {
  const int64_t left = w.columns - column;
  return static_cast<int>(left < 0 ? 0 : left < kBlockColumns ? left : kBlockColumns);
}

// What belongs to the block that a tile is in: of the weights the head of its scale, of the rows
// what their sums start with, and the scales of the data's block.
template <int kRows>
struct InBlock {
  const BlockStream& w;
  const int32_t* corrections;
  const float* data_scales;
  const uint8_t* head = nullptr;
  int64_t scale_blocks = 0;
  int shift = 12;  // of a scale's multiple

  EVOQ_ALWAYS_INLINE InBlock(const BlockStream& stream, const BlockRows& x, int64_t row)
      : w(stream),
        corrections(x.corrections + row * x.blocks),
        data_scales(x.scales + row * x.data_blocks) {}
  // `at`, where the weights stand: moves behind a head.
  template <typename L>
  EVOQ_ALWAYS_INLINE void Enter(const uint8_t*& at) {
    if (kMayHaveSteps<L> && w.steps) {
      shift = (shift + 4) % 16;
      if (shift != 0) return;
    } else if (scale_blocks != 0) {
      --scale_blocks;
      return;
    }
    head = at;
    at += w.head_bytes();
    scale_blocks = w.cut.blocks_per_scale - 1;
  }
  // Columns from `i` of the unit on.
  template <int32_t kZeroLess, bool kSteps>
  EVOQ_ALWAYS_INLINE Ints Start(int r, int64_t i) const {
    if constexpr (kSteps) return All(corrections[r]);
    return w.has_zeros ? Times(head + w.scale_bytes() + i, kZeroLess, corrections[r])
                       : All(corrections[r]);
  }
  EVOQ_ALWAYS_INLINE Floats Steps(int64_t i) const {
    return LoadHalf(reinterpret_cast<const uint16_t*>(head) + i);
  }
  EVOQ_ALWAYS_INLINE void EnterSteps(const uint8_t*& at) {
    head = at;
    at += w.head_bytes();
  }
  EVOQ_ALWAYS_INLINE Ints StepWords(int64_t i) const {
    return LoadWords(reinterpret_cast<const uint16_t*>(head) + kUnitColumns + i);
  }
  EVOQ_ALWAYS_INLINE Ints StepMultiples(int64_t i) const {
    return Multiples(reinterpret_cast<const uint16_t*>(head) + kUnitColumns + i, shift);
  }
  template <typename L>
  EVOQ_ALWAYS_INLINE Floats Scales(int64_t i) const {
    if constexpr (kIsSteps<L>) return Steps(i);
    if (kMayHaveSteps<L> && w.steps) return Mul(ToFloats(StepMultiples(i)), Steps(i));
    return w.half_scales ? Steps(i) : LoadF(reinterpret_cast<const float*>(head) + i);
  }
  EVOQ_ALWAYS_INLINE void Leave() { corrections += kRows; }
  EVOQ_ALWAYS_INLINE void LeaveData() { data_scales += kRows; }
};

// The sums of a tile with as many scales of the data as of the weights have room in registers
// beside y. Where several blocks share one (kNested), t needs room too: y, which is added to once
// for all of these, stands in the L1 cache where sums and t leave none. To store a register of 512
// bits costs a Zen 5 as much time as two dot products.
template <int kRows, bool kNested>
constexpr bool kLeavesY =
    kNested && 3 * kRows * kPanels<kRows> * kRegistersOfFloats > kRegisters - 4;

template <typename L, int kRows, bool kNested, bool kAsked>
void Tile(const BlockUnit& unit, const BlockRows& x, int64_t row, int64_t panel,
          BlockAhead& ahead) {
  const int64_t distance = ahead.distance;
  const BlockStream& w = unit.stream;
  const BlockCut& cut = w.cut;
  const int64_t blocks = x.blocks;
  const int64_t column = panel * kBlockColumns,
                side = kPanels<kRows> == kUnitPanels ? 0 : panel % kUnitPanels;
  // Sums of blocks of 32 fit int16: t is a sum of integers that the scales' multiples are in.
  const bool steps = kNested && kMayHaveSteps<L> && w.steps;
  constexpr int32_t kZeroLess = kSmall<L> || !kSignedBytes ? 0 : 128;
  Place<kRows> place;
  place.at = unit.bytes;
  const int64_t first = row * w.columns + column;  // of y
  int count[kPanels<kRows>];
  Floats bias[kPanels<kRows>], begun[kRows][kPanels<kRows>];
  auto* left_y = &begun;
  // Behind a pointer that the compiler knows nothing of, which else keeps some of them in registers
  // and t in memory.
  if constexpr (kLeavesY<kRows, kNested>) asm("" : "+r"(left_y) : : "memory");
  auto& y = *left_y;
#pragma GCC unroll 2
  for (int p = 0; p < kPanels<kRows>; ++p) {
    count[p] = ColumnsFrom(w, column + p * kBlockColumns);
    bias[p] = x.bias == nullptr ? AllF(0) : LoadF(x.bias + column + p * kBlockColumns, count[p]);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    place.q[r] = x.q + (row + r) * x.stride;
#pragma GCC unroll 2
    for (int p = 0; p < kPanels<kRows>; ++p) {
      // Rows of y are far apart: stores to them cost a Zen 4 up to 4% of a tile's time.
      if constexpr (kRows > 1)
        __builtin_prefetch(x.y + first + r * w.columns + p * kBlockColumns, 1);
      y[r][p] = bias[p];
    }
  }
  InBlock<kRows> block(w, x, row);
  int64_t b = 0, left = cut.depth;
  const auto multiply = [&](Ints(&sums)[kRows][kPanels<kRows>]) __attribute__((always_inline)) {
    if (!steps) block.template Enter<L>(place.at);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int p = 0; p < kPanels<kRows>; ++p)
        sums[r][p] = block.template Start<kZeroLess, kIsSteps<L>>(r, kBlockColumns * (side + p));
    }
    const int64_t k = left < cut.block ? left : cut.block;
    left -= cut.block;
    ++b;
    AddBlock<L, kAsked>(place, LinesOf<L>(k), side, distance, sums);
  };
  while (b < blocks) {
    Ints sums[kRows][kPanels<kRows>];
    if constexpr (kNested) {
      Floats t[kRows][kPanels<kRows>];
      const Floats nothing = AllF(steps ? 0.0f : kNothing);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
        for (int p = 0; p < kPanels<kRows>; ++p) t[r][p] = nothing;
      }
      const int64_t end = blocks - b < cut.pieces ? blocks : b + cut.pieces;
      Ints words[kPanels<kRows>];
      if (steps) {
        block.EnterSteps(place.at);
#pragma GCC unroll 2
        for (int p = 0; p < kPanels<kRows>; ++p)
          words[p] = block.StepWords(kBlockColumns * (side + p));
      }
      while (true) {
        multiply(sums);
#pragma GCC unroll 2
        for (int p = 0; p < kPanels<kRows>; ++p) {
          if (steps) {
            const Ints m = LowNibbles(words[p]);
            words[p] = NextNibbles(words[p]);
#pragma GCC unroll 8
            for (int r = 0; r < kRows; ++r) t[r][p] = AddShortProducts(t[r][p], sums[r][p], m);
          } else {
            const Floats s = block.template Scales<L>(kBlockColumns * (side + p));
#pragma GCC unroll 8
            for (int r = 0; r < kRows; ++r) t[r][p] = MulAdd(ToFloats(sums[r][p]), s, t[r][p]);
          }
        }
        block.Leave();
        if (b == end) break;
      }
      if (steps) {
#pragma GCC unroll 2
        for (int p = 0; p < kPanels<kRows>; ++p) {
          const Floats s = block.Steps(kBlockColumns * (side + p));
#pragma GCC unroll 8
          for (int r = 0; r < kRows; ++r) t[r][p] = Mul(ToFloats(AsInts(t[r][p])), s);
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Floats scale = AllF(block.data_scales[r]);
#pragma GCC unroll 2
        for (int p = 0; p < kPanels<kRows>; ++p) y[r][p] = MulAdd(scale, t[r][p], y[r][p]);
      }
      if constexpr (kLeavesY<kRows, kNested>) asm("" : : : "memory");
    } else {
      if constexpr (kIsSteps<L>) {
        __builtin_prefetch(ahead.at, 0, 2);
        ahead.at += ahead.at < ahead.end ? 64 : 0;
      }
      multiply(sums);
#pragma GCC unroll 2
      for (int p = 0; p < kPanels<kRows>; ++p) {
        const Floats s = block.template Scales<L>(kBlockColumns * (side + p));
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r)
          y[r][p] = MulAdd(AllF(block.data_scales[r]), Mul(ToFloats(sums[r][p]), s), y[r][p]);
      }
      block.Leave();
    }
    block.LeaveData();
  }
  if (x.residual != nullptr) {
    const float* residual = x.residual + first;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r, residual += w.columns) {
#pragma GCC unroll 2
      for (int p = 0; p < kPanels<kRows>; ++p)
        y[r][p] = Add(y[r][p], LoadF(residual + p * kBlockColumns, count[p]));
    }
  }
  float* out = x.y + first;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r, out += w.columns) {
#pragma GCC unroll 2
    for (int p = 0; p < kPanels<kRows>; ++p) StoreF(out + p * kBlockColumns, count[p], y[r][p]);
  }
}

using TileFn = void (*)(const BlockUnit& unit, const BlockRows& rows, int64_t row, int64_t panel,
                        BlockAhead& ahead);

template <typename L, bool kNested, bool kAsked, int... kRows>
constexpr std::array<TileFn, kMaxRows> TilesOf(std::integer_sequence<int, kRows...>) {
  constexpr auto kAskedOf = [](int rows) {
    return kAsked && (rows < kLeastRowsAsking || (L::kGroups == 1 && rows <= kWideRows));
  };
  return {Tile<L, kRows + 1, kNested, kAskedOf(kRows + 1)>...};
}
template <typename L, bool kNested, bool kAsked>
constexpr auto kTiles = TilesOf<L, kNested, kAsked>(std::make_integer_sequence<int, kMaxRows>());

template <typename L>
TileFn TileFor(int row_count, bool nested, bool asks_ahead) {
  const auto& tiles = nested       ? asks_ahead ? kTiles<L, true, true> : kTiles<L, true, false>
                            : asks_ahead ? kTiles<L, false, true>
                                   : kTiles<L, false, false>;
  return tiles[row_count - 1];
}

template <typename L>
void UnpackUnit(const BlockUnit& unit, uint8_t* to) {
  const BlockCut& cut = unit.stream.cut;
  const int64_t head = unit.stream.head_bytes(), step = cut.block * cut.blocks_per_scale;
  const uint8_t* from = unit.bytes;
  for (int64_t k = 0; k < cut.depth; k += step) {
    for (int64_t i = 0; i < head; i += 64) StoreBytes(to + i, LoadBytes(from + i));
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

// A multiple is below 16 and u too: no product of a byte reaches the next one.
template <typename L>
void UnpackSteps(const BlockUnit& unit, int32_t offset, uint8_t* to) {
  const BlockCut& cut = unit.stream.cut;
  const uint8_t* from = unit.bytes;
  for (int64_t k = 0; k < cut.depth;) {
    const auto* const words = reinterpret_cast<const uint16_t*>(from + 64);
    StoreBytes(to, LoadBytes(from));  // the steps
    from += 128, to += 64;
    for (int i = 0; i < kStepBlocks && k < cut.depth; ++i, k += kStepBlock) {
      Ints multiples[kUnitPanels], added[kUnitPanels];
      for (int p = 0; p < kUnitPanels; ++p) {
        const Ints multiple = Multiples(words + kBlockColumns * p, 4 * i);
        multiples[p] = InPairs(multiple);
        added[p] = InBytes(AddInts(All(128), TimesInts(multiple, -offset)));
      }
      const int64_t left = cut.depth - k;
      for (int64_t l = LinesOf<L>(left < kStepBlock ? left : kStepBlock); l > 0; --l) {
        for (int p = 0; p < kUnitPanels; ++p, from += 64) {
          const Bytes line = LoadBytes(from);
          for (int g = 0; g < L::kGroups; ++g)
            StoreBytes(to + 64 * (g * kUnitPanels + p),
                       TimesPairsPlus(L::Group(line, g), multiples[p], added[p]));
        }
        to += 64 * kUnitPanels * L::kGroups;
      }
    }
  }
}

}  // namespace
}  // namespace evoq::EVOQ_ISA

#if defined(EVOQ_TALL_TILES)
#include "kernels/gemm/blocks/tall.inl.h"
#endif

namespace evoq::EVOQ_ISA {
namespace {

#if !defined(EVOQ_TALL_TILES)
constexpr int kTallRows = 0, kTallDirectRows = 0, kNestedRows = 0;
template <typename L>
TileFn TallTileFor(int row_count, bool nested);
#endif

// What there is of each kind. Lines that are unpacked for tall tiles only have no others of
// kSmallBytes; where lines are never unpacked there are none of these.
constexpr bool kUnpacks = kDirectRows < INT64_MAX;
struct LinesCode {
  TileFn (*tile)(int row_count, bool nested, bool asks_ahead) = nullptr;
  TileFn (*tall_tile)(int row_count, bool nested) = nullptr;
  void (*unpack)(const BlockUnit& unit, uint8_t* bytes) = nullptr;
  void (*unpack_steps)(const BlockUnit& unit, int32_t offset, uint8_t* bytes) = nullptr;
};
template <typename L>
constexpr LinesCode CodeOf() {
  LinesCode code;
  if constexpr (kUnpacks || !std::is_same_v<L, SmallBytes>) {
    code.tile = TileFor<L>;
  }
  if constexpr (kStepRows < INT64_MAX && L::kGroups > 1 && L::kLargest < 16)
    code.unpack_steps = UnpackSteps<L>;
  if constexpr (kTallRows > 0 || (kUnpacks && L::kGroups > 1)) code.unpack = UnpackUnit<L>;
  if constexpr (kTallRows > 0) code.tall_tile = TallTileFor<L>;
  return code;
}
constexpr LinesCode StepCode() {
  LinesCode code;
  if constexpr (kStepRows < INT64_MAX)
    code.tile = [](int row_count, bool, bool) {
      return kTiles<StepBytes, false, false>[row_count - 1];
    };
  if constexpr (kTallRows > 0) code.tall_tile = TallTileFor<SmallBytes>;
  return code;
}
constexpr LinesCode kCode[] = {CodeOf<Nibbles>(),    CodeOf<Pairs>(),        CodeOf<E2m1>(),
                               CodeOf<SmallBytes>(), CodeOf<FlippedBytes>(), StepCode()};

void RunTile(BlockLines kind, const BlockUnit& unit, const BlockRows& rows, int64_t row,
             int row_count, int64_t panel, BlockAhead& ahead) {
  const LinesCode& code = kCode[static_cast<size_t>(kind)];
  const bool nested = unit.stream.cut.pieces > 1;
  const TileFn tile = row_count > kMaxRows || code.tile == nullptr
                          ? code.tall_tile(row_count, nested)
                          : code.tile(row_count, nested, rows.asks_ahead);
  tile(unit, rows, row, panel, ahead);
}

[[maybe_unused]] void Unpack(BlockLines kind, const BlockUnit& unit, uint8_t* bytes) {
  kCode[static_cast<size_t>(kind)].unpack(unit, bytes);
}
[[maybe_unused]] void UnpackStepsOf(BlockLines kind, const BlockUnit& unit, int32_t offset,
                                    uint8_t* bytes) {
  kCode[static_cast<size_t>(kind)].unpack_steps(unit, offset, bytes);
}

// `part(at, n)` for each 16 elements of a block, or the n that are left.
template <typename Part>
EVOQ_ALWAYS_INLINE void EachVector(int64_t count, const Part& part) {
  int64_t i = 0;
  for (; i + kBlockColumns <= count; i += kBlockColumns) part(i, kBlockColumns);
  if (i < count) part(i, static_cast<int>(count - i));
}
EVOQ_ALWAYS_INLINE Floats LoadSome(const float* x, int n) {
  return n == kBlockColumns ? LoadF(x) : LoadF(x, n);
}

// As Quantize, for `count` blocks of 128 of the data, each four of the cut. All scales come first:
// what is rounded would else fill the processor's queues while it waits for its own.
constexpr int64_t kScalesFirst = 16;
void QuantizeFours(const float* x, int64_t count, int32_t factor, int64_t tile_rows, int8_t* q,
                   float* scales, int32_t* corrections) {
  float inverse[kScalesFirst];
  for (int64_t d = 0; d < count; ++d) {
    Ints largest = All(0);
#pragma GCC unroll 8
    for (int i = 0; i < 128; i += kBlockColumns)
      largest = MaxInts(largest, Magnitudes(LoadF(x + 128 * d + i)));
    const BlockScale scale = BlockScaleOf(static_cast<uint32_t>(LargestOf(largest)));
    inverse[d] = scale.inverse;
    scales[d * tile_rows] = scale.scale;
  }
  for (int64_t d = 0; d < count; ++d, x += 128, q += 128) {
    int32_t sums[4] = {};
    if (inverse[d] == 0) {
      std::memset(q, 0, 128);
    } else {
      BlockSum parts[4];
#pragma GCC unroll 4
      for (int b = 0; b < 4; ++b) parts[b] = Round32(x + 32 * b, inverse[d], q + 32 * b);
      SumsTimes(parts, factor, sums);
    }
#pragma GCC unroll 4
    for (int b = 0; b < 4; ++b, corrections += tile_rows) *corrections = sums[b];
  }
}

// As QuantizeBlock, whose numbers and scale these are, with the sum of each block of the cut.
void Quantize(const float* x, const BlockCut& cut, int32_t factor, int64_t tile_rows,
              int64_t stride, int8_t* q, float* scales, int32_t* corrections) {
  const int64_t data_block = cut.block * cut.pieces;
  int64_t d = 0;
  if (cut.block == 32 && cut.pieces == 4) {
    for (int64_t count; (count = (cut.depth - d) / 128) > 0; d += 128 * count) {
      count = count < kScalesFirst ? count : kScalesFirst;
      QuantizeFours(x + d, count, factor, tile_rows, q + d, scales, corrections);
      scales += count * tile_rows, corrections += 4 * count * tile_rows;
    }
  }
  for (; d < cut.depth; d += data_block, scales += tile_rows) {
    const int64_t end = cut.depth - d < data_block ? cut.depth : d + data_block;
    Ints largest = All(0);
    EachVector(end - d, [&](int64_t i, int n) __attribute__((always_inline)) {
      largest = MaxInts(largest, Magnitudes(LoadSome(x + d + i, n)));
    });
    const BlockScale scale = BlockScaleOf(static_cast<uint32_t>(LargestOf(largest)));
    *scales = scale.scale;
    for (int64_t k = d; k < end; k += cut.block, corrections += tile_rows) {
      const int64_t count = end - k < cut.block ? end - k : cut.block;
      Ints sums = All(0);
      if (scale.inverse == 0) {
        std::memset(q + k, 0, static_cast<size_t>(count));
      } else {
        EachVector(count, [&](int64_t i, int n) __attribute__((always_inline)) {
          const Ints rounded = RoundToInts(LoadSome(x + k + i, n), scale.inverse);
          StoreInt8(q + k + i, n, rounded);
          sums = AddInts(sums, rounded);
        });
      }
      *corrections = factor * SumOf(sums);
    }
  }
  for (int64_t k = cut.depth; k < stride; ++k) q[k] = 0;
}

}  // namespace

const BlockTable kBlockDot = {
    .name = EVOQ_TABLE_NAME,
    .max_rows = kMaxRows,
    .wide_rows = kWideRows,
    .tall_direct_rows = kTallDirectRows,
    .tall_rows = kTallRows,
    .nested_rows = kNestedRows,
    .direct_rows = kDirectRows,
    .step_rows = kStepRows,
    .signed_bytes = kSignedBytes,
    .quantize = Quantize,
    .unpack = kUnpacks || kTallRows > 0 ? Unpack : nullptr,
    .unpack_steps = kStepRows < INT64_MAX ? UnpackStepsOf : nullptr,
    .tile = RunTile,
};

}  // namespace evoq::EVOQ_ISA
