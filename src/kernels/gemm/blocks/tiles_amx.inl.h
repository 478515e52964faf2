// The functions of tiles.h over a `Unit` of kernels/amx/config.h: BlockTilesOf<Unit>. Included by
// instruction-set files.
#include "kernels/amx/tiles.inl.h"
#include "kernels/gemm/blocks/lines.inl.h"
#include "kernels/gemm/blocks/tiles.h"

namespace evoq::EVOQ_ISA {
namespace {

// The lowest byte of each number, in all four of its bytes.
inline Bytes InAllBytes(Ints x) {
  return _mm512_shuffle_epi8(
      x, _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12)));
}

// Blocks of at most this many steps stay in registers while all rows meet them.
constexpr int kHeldSteps = 2;
// Registers: sums that take turns, rows and panels of each step.
template <int kPanel>
constexpr int kHeldSum = kPanel;
template <int kStep>
constexpr int kHeldRow = 2 + kStep;
template <int kPanel, int kStep>
constexpr int kHeldPanel = 4 + 2 * kPanel + kStep;

template <typename Unit>
void BeginTask(const BlockCut& cut) {
  AmxConfig config = AmxConfigOf(kAmxRows);
  const int words = BlockTileDepth(cut) / 4;
  if (words < kAmxRows) {  // HeldBlock's of one step
    config.row_bytes[kHeldRow<0>] = static_cast<uint16_t>(4 * words);
    for (int tile : {kHeldPanel<0, 0>, kHeldPanel<1, 0>})
      config.rows[tile] = static_cast<uint8_t>(words);
  }
  Unit::Configure(config);
}
template <typename Unit>
void EndTask() {
  Unit::Release();
}

// Where the lines of a block go, in the order of k.
class TileLines {
 public:
  // depth: BlockTileDepth.
  TileLines(uint8_t* to, int64_t depth) : to_(to), lines_(depth / 4) {}

  EVOQ_ALWAYS_INLINE void Store(const Bytes (&line)[kUnitPanels]) {
    StoreBytes(to_ + 64 * line_, line[0]);
    StoreBytes(to_ + 64 * (lines_ + line_), line[1]);
    if (++line_ == lines_) to_ += 64 * kUnitPanels * lines_, line_ = 0;
  }
  // Behind the block's last tile.
  uint8_t* End() {
    static constexpr Bytes kNone[kUnitPanels] = {};
    while (line_ != 0) Store(kNone);
    return to_;
  }

 private:
  uint8_t* to_;
  const int64_t lines_;
  int64_t line_ = 0;
};

// The lines of `k` numbers that lie at `from`, which moves behind them: number(u, panel).
template <typename L, typename Number>
EVOQ_ALWAYS_INLINE void UnpackLines(const uint8_t*& from, int64_t k, TileLines& to,
                                    const Number& number) {
  for (int64_t l = LinesOf<L>(k); l > 0; --l, from += 64 * kUnitPanels) {
    const Bytes line[kUnitPanels] = {LoadBytes(from), LoadBytes(from + 64)};
#pragma GCC unroll 4
    for (int g = 0; g < L::kGroups; ++g)
      to.Store({number(L::Group(line[0], g), 0), number(L::Group(line[1], g), 1)});
  }
}

template <typename L>
void UnpackStepTiles(const BlockUnit& unit, int32_t offset, uint8_t* to) {
  const int64_t depth = unit.stream.cut.depth;
  const BlockCut cut = {depth, kStepDepth, 1, 1};
  const uint8_t* from = unit.bytes;
  for (int64_t k = 0; k < depth;) {
    const auto *const steps = reinterpret_cast<const uint16_t*>(from), *const words = steps + 32;
    for (int p = 0; p < kUnitPanels; ++p)
      StoreBytes(to + 64 * p, AsInts(LoadHalf(steps + kBlockColumns * p)));
    from += 128;
    TileLines lines(to + 128, BlockTileDepth(cut));
    for (int i = 0; i < kStepBlocks && k < depth; ++i, k += kStepBlock) {
      Ints pairs[kUnitPanels], added[kUnitPanels];
      for (int p = 0; p < kUnitPanels; ++p) {
        const Ints multiple = Multiples(words + kBlockColumns * p, 4 * i);
        pairs[p] = InPairs(multiple);
        added[p] = InAllBytes(TimesInts(multiple, -offset));
      }
      UnpackLines<L>(from, depth - k < kStepBlock ? depth - k : kStepBlock, lines,
                     [&](Bytes u, int p) { return TimesPairsPlus(u, pairs[p], added[p]); });
    }
    to = lines.End();
  }
}

template <typename L>
void UnpackTiles(const BlockUnit& unit, int32_t offset, uint8_t* to) {
  const BlockStream& w = unit.stream;
  const BlockCut& cut = w.cut;
  const uint8_t* from = unit.bytes;
  Bytes added[kUnitPanels] = {InAllBytes(All(offset)), InAllBytes(All(offset))};
  Floats scales[kUnitPanels] = {};
  for (int64_t k = 0, block = 0; k < cut.depth; k += cut.block, ++block) {
    if (block % cut.blocks_per_scale == 0) {
      for (int p = 0; p < kUnitPanels; ++p) {
        const int64_t column = kBlockColumns * p;
        scales[p] = w.half_scales ? LoadHalf(reinterpret_cast<const uint16_t*>(from) + column)
                                  : LoadF(reinterpret_cast<const float*>(from) + column);
        if (w.has_zeros) added[p] = InAllBytes(Times(from + w.scale_bytes() + column, 0, -1));
      }
      from += w.head_bytes();
    }
    for (int p = 0; p < kUnitPanels; ++p) StoreBytes(to + 64 * p, AsInts(scales[p]));
    TileLines lines(to + 128, BlockTileDepth(cut));
    UnpackLines<L>(from, cut.depth - k < cut.block ? cut.depth - k : cut.block, lines,
                   [&](Bytes u, int p) { return _mm512_add_epi8(u, added[p]); });
    to = lines.End();
  }
}

template <typename L>
void UnpackAs(const BlockUnit& unit, int32_t added, uint8_t* to) {
  if constexpr (std::is_same_v<L, Nibbles>) {
    if (unit.stream.steps) return UnpackStepTiles<L>(unit, added, to);
  }
  UnpackTiles<L>(unit, added, to);
}

void Unpack(BlockLines kind, const BlockUnit& unit, int32_t added, uint8_t* to) {
  switch (kind) {
    case BlockLines::kNibbles: return UnpackAs<Nibbles>(unit, added, to);
    case BlockLines::kPairs: return UnpackAs<Pairs>(unit, added, to);
    case BlockLines::kE2m1: return UnpackAs<E2m1>(unit, added, to);
    case BlockLines::kFlippedBytes: return UnpackAs<FlippedBytes>(unit, added, to);
    case BlockLines::kSmallBytes:
    case BlockLines::kStepBytes: return;
  }
}

// Rows that are multiplied at a time, by both panels.
struct Sums {
  alignas(64) int32_t sums[kAmxRows][kUnitColumns];
};

// What belongs to the block that a tile is in.
struct InBlock {
  const float* scales;       // of the weights
  const float* data_scales;  // of the tile's rows
  bool first, last;          // of those that share a scale of the data
  bool begins;               // that is the first scale: y begins
};

struct Floating {
  alignas(64) float bias[kUnitColumns];  // what y begins with
  alignas(64) float y[kBlockTileRows][kUnitColumns], t[kBlockTileRows][kUnitColumns];
};

// Adds rows [begin, end) of a tile, whose sums these are, to y, or to t.
template <bool kFirst, bool kLast, bool kBegins>
[[gnu::noinline]] void FinishRows(const Sums& sums, const InBlock& block, int begin, int end,
                                  Floating& floats) {
  const Floats scales[kUnitPanels] = {LoadF(block.scales), LoadF(block.scales + kBlockColumns)},
               bias[kUnitPanels] = {LoadF(floats.bias), LoadF(floats.bias + kBlockColumns)};
#pragma GCC unroll 2
  for (int r = begin; r < end; ++r) {
    const Floats by = AllF(block.data_scales[r]);
#pragma GCC unroll 2
    for (int p = 0; p < kUnitPanels; ++p) {
      const int column = kBlockColumns * p;
      const Floats sum = ToFloats(_mm512_load_si512(&sums.sums[r - begin][column]));
      Floats t;
      if constexpr (kFirst) {
        t = Mul(sum, scales[p]);
      } else {
        t = MulAdd(sum, scales[p], LoadF(&floats.t[r][column]));
      }
      if constexpr (kLast) {
        float* const y = &floats.y[r][column];
        _mm512_store_ps(y, MulAdd(by, t, kBegins ? bias[p] : LoadF(y)));
      } else {
        _mm512_store_ps(&floats.t[r][column], t);
      }
    }
  }
}
using FinishFn = void (*)(const Sums& sums, const InBlock& block, int begin, int end,
                          Floating& floats);
inline FinishFn FinishOf(const InBlock& block) {
  if (!block.last)
    return block.first ? FinishRows<true, false, false> : FinishRows<false, false, false>;
  if (block.begins)
    return block.first ? FinishRows<true, true, true> : FinishRows<false, true, true>;
  return block.first ? FinishRows<true, true, false> : FinishRows<false, true, false>;
}

// A tile's rows and where its columns lie in y.
struct Target {
  const BlockRows& rows;
  int64_t row;
  int count;
  int64_t column, columns;

  int ColumnsOf(int panel) const {
    const int64_t left = columns - column - panel * kBlockColumns;
    return static_cast<int>(left < 0 ? 0 : left < kBlockColumns ? left : kBlockColumns);
  }
};

void SetBias(const Target& target, Floating& floats) {
  const float* const bias = target.rows.bias;
  for (int p = 0; p < kUnitPanels; ++p)
    _mm512_store_ps(floats.bias + p * kBlockColumns,
                    bias == nullptr
                        ? AllF(0)
                        : LoadF(bias + target.column + p * kBlockColumns, target.ColumnsOf(p)));
}

[[gnu::noinline]] void StoreRows(const Target& target, const Floating& floats) {
  const float* const residual = target.rows.residual;
  for (int r = 0; r < target.count; ++r) {
    for (int p = 0; p < kUnitPanels; ++p) {
      const int64_t at = (target.row + r) * target.columns + target.column + p * kBlockColumns;
      const int count = target.ColumnsOf(p);
      Floats v = LoadF(&floats.y[r][p * kBlockColumns]);
      if (residual != nullptr) v = Add(v, LoadF(residual + at, count));
      StoreF(target.rows.y + at, count, v);
    }
  }
}

// Where a tile stands: what it multiplies next, and what belongs to that block.
struct Place {
  const int8_t* a;
  const uint8_t* unit;
  InBlock block;
  int64_t piece = 0;

  // Blocks that share a scale of the data are counted; `more`: of several blocks this is none of
  // the last.
  void Enter(const BlockCut& cut, bool more) {
    block.scales = reinterpret_cast<const float*>(unit);
    block.first = piece == 0;
    block.last = ++piece == cut.pieces || !more;
  }
  void Leave(int64_t k, int64_t rows) {
    a += k, unit += kHeadBytes + k * kUnitColumns;
    if (!block.last) return;
    piece = 0;
    block.data_scales += rows;
    block.begins = false;
  }
  static constexpr int64_t kHeadBytes = 128;
};

template <typename Unit, int kSteps>
[[gnu::always_inline]] inline void LoadPanels(const uint8_t* unit, int64_t depth) {
  const uint8_t* const b = unit + Place::kHeadBytes;
  Unrolled<kSteps>([&](auto s) {
    constexpr int kS = s;
    Unrolled<kUnitPanels>([&](auto p) {
      constexpr int kP = p;
      Unit::template Load<kHeldPanel<kP, kS>>(b + depth * (kUnitColumns * kS + kBlockColumns * kP),
                                              kAmxRowBytes);
    });
  });
}
template <typename Unit, int kSteps>
[[gnu::always_inline]] inline void LoadRows(const int8_t* a, int64_t depth, int64_t stride) {
  Unrolled<kSteps>([&](auto s) {
    constexpr int kS = s;
    Unit::template LoadPassing<kHeldRow<kS>>(a + depth * kS, stride);
  });
}

// Multiplies `count` rows of `blocks` blocks of kSteps steps. A register of sums is stored while
// the other one is added to; then comes what the next rows need, before the rows before are
// finished: behind them it would wait until processors have room for it.
template <typename Unit, int kSteps>
void HeldBlocks(const BlockCut& cut, int64_t stride, int64_t blocks, bool more, int count,
                Place& place, Floating& floats) {
  const int64_t depth = BlockTileDepth(cut), k = depth * kSteps;
  Sums both[2];
  const Sums* left = nullptr;  // what is not finished
  InBlock left_block;
  int left_row = 0, at = 0;
  LoadPanels<Unit, kSteps>(place.unit, depth);
  LoadRows<Unit, kSteps>(place.a, depth, stride);
  const auto finish = [&](int end) {
    if (left != nullptr) FinishOf(left_block)(*left, left_block, left_row, end, floats);
  };
  for (int64_t b = 0; b < blocks; ++b) {
    place.Enter(cut, more || b + 1 < blocks);
    const int8_t* a = place.a;
    for (int row = 0; row < count; row += kAmxRows, at ^= 1) {
      Sums& now = both[at];
      Unrolled<kUnitPanels>([&](auto p) {
        constexpr int kP = p;
        Unit::template Zero<kHeldSum<kP>>();
        Unrolled<kSteps>([&](auto s) {
          constexpr int kS = s;
          Unit::template DotS8S8<kHeldSum<kP>, kHeldRow<kS>, kHeldPanel<kP, kS>>();
        });
        Unit::template Store<kHeldSum<kP>>(&now.sums[0][kBlockColumns * kP], sizeof(now.sums[0]));
      });
      a += kAmxRows * stride;
      if (row + kAmxRows < count) {
        LoadRows<Unit, kSteps>(a, depth, stride);
      } else if (b + 1 < blocks) {
        LoadPanels<Unit, kSteps>(place.unit + Place::kHeadBytes + k * kUnitColumns, depth);
        LoadRows<Unit, kSteps>(place.a + k, depth, stride);
      }
      finish(left_row + kAmxRows < count ? left_row + kAmxRows : count);
      left = &now, left_block = place.block, left_row = row;
    }
    place.Leave(k, count);
  }
  finish(count);
}

// As HeldBlocks, of longer ones.
template <typename Unit>
void LongBlock(int64_t stride, int64_t depth, int64_t steps, int count, const Place& place,
               Floating& floats) {
  const FinishFn finish = FinishOf(place.block);
  Sums both[2];
  for (int row = 0; row < count; row += 2 * kAmxRows) {
    const int8_t* rows = place.a + row * stride;
    const uint8_t* panels = place.unit + Place::kHeadBytes;
    Unrolled<4>([&](auto i) {
      constexpr int kI = i;
      Unit::template Zero<kI>();
    });
    for (int64_t s = 0; s < steps; ++s, rows += depth, panels += depth * kUnitColumns) {
      Unrolled<2>([&](auto m) {
        constexpr int kM = m, kRow = kRowTile + kM;
        Unit::template LoadPassing<kRow>(rows + kAmxRows * kM * stride, stride);
        Unrolled<kUnitPanels>([&](auto p) {
          constexpr int kP = p, kPanel = kPanelTile + kP;
          if constexpr (kM == 0)
            Unit::template LoadPassing<kPanel>(panels + depth * kBlockColumns * kP, kAmxRowBytes);
          Unit::template DotS8S8<kSumTile<kUnitPanels, kM, kP>, kRow, kPanel>();
        });
      });
    }
    Unrolled<2>([&](auto m) {
      constexpr int kM = m;
      Unrolled<kUnitPanels>([&](auto p) {
        constexpr int kP = p;
        Unit::template Store<kSumTile<kUnitPanels, kM, kP>>(&both[kM].sums[0][kBlockColumns * kP],
                                                            sizeof(both[kM].sums[0]));
      });
    });
    for (int m = 0; m < 2 && row + m * kAmxRows < count; ++m) {
      const int end = row + (m + 1) * kAmxRows;
      finish(both[m], place.block, row + m * kAmxRows, end < count ? end : count, floats);
    }
  }
}
template <typename Unit>
void LongBlocks(const BlockCut& cut, int64_t stride, int64_t blocks, bool more, int64_t steps,
                int count, Place& place, Floating& floats) {
  const int64_t depth = BlockTileDepth(cut);
  for (int64_t b = 0; b < blocks; ++b) {
    place.Enter(cut, more || b + 1 < blocks);
    LongBlock<Unit>(stride, depth, steps, count, place, floats);
    place.Leave(depth * steps, count);
  }
}

template <typename Unit>
void RunTile(const BlockCut& cut, const uint8_t* unit, const BlockRows& x, int64_t row,
             int row_count, int64_t column, int64_t columns) {
  const Target target = {x, row, row_count, column, columns};
  Floating floats;
  SetBias(target, floats);
  const int64_t depth = BlockTileDepth(cut), all = (cut.block + depth - 1) / depth;
  Place place = {
      x.q + row * x.stride, unit, {nullptr, x.scales + row * x.data_blocks, true, false, true}};
  // The last block may be of fewer steps.
  const int64_t whole = cut.depth / cut.block, rest = (cut.depth % cut.block + depth - 1) / depth;
  const auto run = [&](int64_t steps, int64_t blocks, bool more) {
    if (steps == 1) {
      HeldBlocks<Unit, 1>(cut, x.stride, blocks, more, row_count, place, floats);
    } else if (steps == kHeldSteps) {
      HeldBlocks<Unit, kHeldSteps>(cut, x.stride, blocks, more, row_count, place, floats);
    } else {
      LongBlocks<Unit>(cut, x.stride, blocks, more, steps, row_count, place, floats);
    }
  };
  for (int r = 0; cut.depth == 0 && r < row_count; ++r)
    std::memcpy(floats.y[r], floats.bias, sizeof(floats.bias));
  if (whole > 0) run(all, whole, rest > 0);
  if (rest > 0) run(rest, 1, false);
  StoreRows(target, floats);
}

template <typename Unit>
constexpr BlockTiles BlockTilesOf(const char* name) {
  return {.name = name,
          .begin = BeginTask<Unit>,
          .end = EndTask<Unit>,
          .unpack = Unpack,
          .tile = RunTile<Unit>};
}

}  // namespace
}  // namespace evoq::EVOQ_ISA
