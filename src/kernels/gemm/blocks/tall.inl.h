// Tiles of more rows than have room in registers for all floats beside their sums: TallTile, for
// lines as they lie or that UnpackUnit has made bytes of. Included by product.inl.h.

namespace evoq::EVOQ_ISA {
namespace {

// Blocks that share a scale of the data, pieces: any number, one, or several, whose t stays in
// registers.
enum class Pieces { kAny, kOne, kSeveral };

// A kind of tall tile: of lines as they lie, of unpacked ones. Rows of the lowest one: with lines
// as they lie, one more than others have; with unpacked ones, what products of too many rows for
// two of the former are cut into at least.
template <typename Lines>
struct Direct {
  using L = Lines;
  static constexpr int kLeastRows = kMaxRows + 1, kMostRows = kTallDirectRows;
  static constexpr Pieces kPieces = Pieces::kAny;
};
template <int kMost, Pieces kCut>
struct Unpacked {
  using L = SmallBytes;
  static constexpr int kLeastRows = (2 * kMost + 1) / 3, kMostRows = kMost;
  static constexpr Pieces kPieces = kCut;
};

// How far ahead they ask: lines as they lie come from memory, unpacked ones from the L2 cache.
template <typename L>
constexpr int kTallAhead = 4096;
template <>
constexpr int kTallAhead<SmallBytes> = 1024;

// What sums of products by scales begin with.
struct Nothing {
  alignas(64) float floats[kTallRows * kUnitColumns];
  constexpr Nothing() : floats() {
    for (float& x : floats) x = kNothing;
  }
};
constexpr Nothing kNothings;

// Four rows' addresses take one register: the others are a multiple of the stride away.
template <int kRows>
struct RowsOfFour {
  const int8_t* first[(kRows + 3) / 4];
  int64_t stride, three;

  EVOQ_ALWAYS_INLINE RowsOfFour(const int8_t* q, int64_t step) : stride(step), three(3 * step) {
#pragma GCC unroll 4
    for (int i = 0; i < (kRows + 3) / 4; ++i) first[i] = q + 4 * i * step;
  }
  EVOQ_ALWAYS_INLINE const int8_t* Row(int r) const {
    return first[r / 4] + (r % 4 == 3 ? three : r % 4 * stride);
  }
  EVOQ_ALWAYS_INLINE void Advance(int64_t bytes) {
#pragma GCC unroll 4
    for (int i = 0; i < (kRows + 3) / 4; ++i) first[i] += bytes;
  }
};

// As InBlock::Start, with one multiplication of int16 for vpmulld's two of int32: a sum of
// kMostTallBlock numbers fits.
static_assert(kMostTallBlock * 127 <= INT16_MAX);
template <int kRows>
EVOQ_ALWAYS_INLINE Ints Start(const InBlock<kRows>& block, int r, int64_t i) {
  const BlockStream& w = block.w;
  return w.has_zeros ? TimesSmall(block.head + w.scale_bytes() + i, block.corrections[r])
                     : All(block.corrections[r]);
}

// What stands before or behind must not change where a loop keeps its sums: in registers.
template <typename Sum, int kRows>
EVOQ_ALWAYS_INLINE void KeepInRegisters(Sum (&sums)[kRows][kUnitPanels]) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int p = 0; p < kUnitPanels; ++p) asm("" : "+v"(sums[r][p]));
  }
}

// y as it begins, and the results of it: `rows` rows of both panels from `row` and `panel` on.
[[gnu::noinline]] void BeginTall(const BlockStream& w, const BlockRows& x, int rows, int64_t panel,
                                 Floats (*y)[kUnitPanels]) {
  for (int p = 0; p < kUnitPanels; ++p) {
    const int64_t column = (panel + p) * kBlockColumns;
    const Floats bias =
        x.bias == nullptr ? AllF(0) : LoadF(x.bias + column, ColumnsFrom(w, column));
    for (int r = 0; r < rows; ++r) y[r][p] = bias;
  }
}
[[gnu::noinline]] void StoreTall(const BlockStream& w, const BlockRows& x, int64_t row, int rows,
                                 int64_t panel, const Floats (*y)[kUnitPanels]) {
  for (int p = 0; p < kUnitPanels; ++p) {
    const int64_t column = (panel + p) * kBlockColumns;
    const int count = ColumnsFrom(w, column);
    for (int r = 0; r < rows; ++r) {
      const int64_t i = (row + r) * w.columns + column;
      StoreF(x.y + i, count,
             x.residual == nullptr ? y[r][p] : Add(y[r][p], LoadF(x.residual + i, count)));
    }
  }
}

// Asks for what BlockAhead says, so much beside each block of a tile that all of y is asked for. A
// burst instead would keep lines of the L2 cache waiting behind those of memory.
class AskingAhead {
 public:
  AskingAhead(BlockAhead& ahead, int64_t columns, int64_t blocks)
      : ahead_(ahead),
        columns_(columns),
        lines_(ahead.y == nullptr ? 0 : kUnitPanels * ahead.rows),
        each_((lines_ + blocks - 1) / blocks) {}

  // Beside so many blocks.
  [[gnu::noinline]] void Ask(int64_t blocks) {
    for (int64_t i = 0; i < blocks && ahead_.at < ahead_.end; ++i, ahead_.at += 64)
      __builtin_prefetch(ahead_.at, 0, 2);
    for (int64_t i = blocks * each_; i > 0 && lines_ > 0; --i) {
      --lines_;
      __builtin_prefetch(
          ahead_.y + lines_ / kUnitPanels * columns_ + lines_ % kUnitPanels * kBlockColumns, 1);
    }
  }

 private:
  BlockAhead& ahead_;
  const int64_t columns_;
  int64_t lines_;
  const int64_t each_;
};

// As Tile, of both panels. What has no room in registers, y and t but of Pieces::kSeveral, stands
// in the L1 cache: of a block of 32 k a load and a store beside eight dot products.
template <typename Kind, int kRows>
void TallTile(const BlockUnit& unit, const BlockRows& x, int64_t row, int64_t panel,
              BlockAhead& ahead) {
  using L = typename Kind::L;
  constexpr Pieces kPieces = Kind::kPieces;
  const BlockStream& w = unit.stream;
  const BlockCut& cut = w.cut;
  const int64_t blocks = x.blocks;
  [[maybe_unused]] const auto& nothing =
      *reinterpret_cast<const Floats(*)[kRows][kUnitPanels]>(kNothings.floats);
  // Behind a pointer that the compiler knows nothing of, which else keeps some of them in registers
  // and the sums in memory.
  struct {
    Floats t[kPieces == Pieces::kAny ? kRows : 1][kUnitPanels], y[kRows][kUnitPanels];
  } in_memory;
  auto* floats = &in_memory;
  asm("" : "+r"(floats) : : "memory");
  auto& [t, y] = *floats;
  BeginTall(w, x, kRows, panel, y);
  const uint8_t* at = unit.bytes;
  RowsOfFour<kRows> q(x.q + row * x.stride, x.stride);
  InBlock<kRows> block(w, x, row);
  AskingAhead asking(ahead, w.columns, blocks);
  Ints sums[kRows][kUnitPanels];
  const auto multiply = [&](int64_t b) __attribute__((always_inline)) {
    block.template Enter<L>(at);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int p = 0; p < kUnitPanels; ++p) sums[r][p] = Start(block, r, kBlockColumns * p);
    }
    KeepInRegisters(sums);
    const int64_t left = cut.depth - b * cut.block;
    const auto add = [&]() __attribute__((always_inline)) {
      __builtin_prefetch(at + kTallAhead<L>);
      __builtin_prefetch(at + kTallAhead<L> + 64);
      const Bytes line0 = LoadBytes(at), line1 = LoadBytes(at + 64);
#pragma GCC unroll 4
      for (int g = 0; g < L::kGroups; ++g) {
        const Bytes u0 = L::Group(line0, g), u1 = L::Group(line1, g);
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const Quad quad = Spread(q.Row(r) + 4 * g);
          sums[r][0] = Dot<kSmall<L>>(sums[r][0], u0, quad);
          sums[r][1] = Dot<kSmall<L>>(sums[r][1], u1, quad);
        }
      }
      at += 64 * kUnitPanels;
      q.Advance(4 * L::kGroups);
    };
    constexpr int kOften = 8 / L::kGroups;  // blocks of 32: without a branch
    const int64_t lines = LinesOf<L>(left < cut.block ? left : cut.block);
    if (lines == kOften) {
#pragma GCC unroll 8
      for (int l = 0; l < kOften; ++l) add();
    } else {
      for (int64_t l = lines; l > 0; --l) add();
    }
    KeepInRegisters(sums);
  };
  if constexpr (kPieces == Pieces::kSeveral) {
    for (int64_t b = 0; b < blocks;) {
      const int64_t end = blocks - b < cut.pieces ? blocks : b + cut.pieces;
      asking.Ask(end - b);
      Floats sum[kRows][kUnitPanels];
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
        for (int p = 0; p < kUnitPanels; ++p) sum[r][p] = AllF(kNothing);
      }
      for (; b < end; ++b) {
        KeepInRegisters(sum);
        multiply(b);
#pragma GCC unroll 2
        for (int p = 0; p < kUnitPanels; ++p) {
          const Floats s = block.template Scales<L>(kBlockColumns * p);
#pragma GCC unroll 16
          for (int r = 0; r < kRows; ++r) sum[r][p] = MulAdd(ToFloats(sums[r][p]), s, sum[r][p]);
        }
        KeepInRegisters(sum);
        block.Leave();
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const Floats scale = AllF(block.data_scales[r]);
#pragma GCC unroll 2
        for (int p = 0; p < kUnitPanels; ++p) y[r][p] = MulAdd(scale, sum[r][p], y[r][p]);
      }
      block.LeaveData();
    }
  } else if constexpr (kPieces == Pieces::kOne) {
    for (int64_t b = 0; b < blocks; ++b) {
      asking.Ask(1);
      multiply(b);
#pragma GCC unroll 2
      for (int p = 0; p < kUnitPanels; ++p) {
        const Floats s = block.template Scales<L>(kBlockColumns * p);
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r)
          y[r][p] = MulAdd(AllF(block.data_scales[r]), Mul(ToFloats(sums[r][p]), s), y[r][p]);
      }
      block.Leave();
      block.LeaveData();
    }
  } else {
    int64_t piece = 0;
    for (int64_t b = 0; b < blocks; ++b) {
      asking.Ask(1);
      multiply(b);
      const auto& before = piece == 0 ? nothing : t;
      const bool last = ++piece == cut.pieces || b + 1 == blocks;
#pragma GCC unroll 2
      for (int p = 0; p < kUnitPanels; ++p) {
        const Floats s = block.template Scales<L>(kBlockColumns * p);
        if (last) {
#pragma GCC unroll 16
          for (int r = 0; r < kRows; ++r) {
            const Floats all = MulAdd(ToFloats(sums[r][p]), s, before[r][p]);
            y[r][p] = MulAdd(AllF(block.data_scales[r]), all, y[r][p]);
          }
        } else {
#pragma GCC unroll 16
          for (int r = 0; r < kRows; ++r) t[r][p] = MulAdd(ToFloats(sums[r][p]), s, before[r][p]);
        }
      }
      block.Leave();
      if (last) block.LeaveData();
      if (last) piece = 0;
    }
  }
  StoreTall(w, x, row, kRows, panel, y);
}

template <typename Kind, int... kMore>
constexpr std::array<TileFn, sizeof...(kMore)> TallTilesOf(std::integer_sequence<int, kMore...>) {
  return {TallTile<Kind, Kind::kLeastRows + kMore>...};
}
template <typename Kind>
TileFn TallTileOf(int row_count) {
  constexpr int kCount = Kind::kMostRows - Kind::kLeastRows + 1;
  static constexpr auto kTiles = TallTilesOf<Kind>(std::make_integer_sequence<int, kCount>());
  return kTiles[static_cast<size_t>(row_count - Kind::kLeastRows)];
}
template <typename L>
TileFn TallTileFor(int row_count, bool nested) {
  if constexpr (!std::is_same_v<L, SmallBytes>)
    return TallTileOf<Direct<L>>(row_count);
  else if (nested)
    return TallTileOf<Unpacked<kNestedRows, Pieces::kSeveral>>(row_count);
  else
    return TallTileOf<Unpacked<kTallRows, Pieces::kOne>>(row_count);
}

}  // namespace
}  // namespace evoq::EVOQ_ISA
