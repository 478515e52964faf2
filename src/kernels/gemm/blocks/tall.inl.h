// Tiles of more rows than have room in registers for floats beside their sums: TallTile, for lines
// as they lie or that UnpackUnit has made bytes of. Included by product.inl.h.

namespace evoq::EVOQ_ISA {
namespace {

// Rows of the lowest one: with lines as they lie, one more than others have; with unpacked ones,
// what products of too many rows for two of the former are cut into at least.
template <typename L>
constexpr int kLeastTallRows = kMaxRows + 1;
template <>
constexpr int kLeastTallRows<SmallBytes> = (2 * kTallRows + 1) / 3;
// And of the tallest.
template <typename L>
constexpr int kMostTallRows = kTallDirectRows;
template <>
constexpr int kMostTallRows<SmallBytes> = kTallRows;

// How far ahead they ask: lines as they lie come from memory, unpacked ones from the L2 cache.
template <typename L>
constexpr int kTallAhead = 4096;
template <>
constexpr int kTallAhead<SmallBytes> = 1024;

// What sums of products by scales begin with: scales are positive, so that a product added to 0 has
// its own sign.
alignas(64) constexpr float kZeros[kTallRows * kUnitColumns] = {};

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

// What stands before or behind must not change where a loop keeps its sums: in registers.
template <int kRows>
EVOQ_ALWAYS_INLINE void KeepInRegisters(Ints (&sums)[kRows][kUnitPanels]) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int p = 0; p < kUnitPanels; ++p) asm("" : "+v"(sums[r][p]));
  }
}

// y as it begins, and the results of it: `rows` rows of both panels from `row` and `panel` on.
[[gnu::noinline]] void BeginTall(const BlockStream& w, const BlockRows& x, int64_t row, int rows,
                                 int64_t panel, Floats (*y)[kUnitPanels]) {
  for (int p = 0; p < kUnitPanels; ++p) {
    const int64_t column = (panel + p) * kBlockColumns;
    const Floats bias =
        x.bias == nullptr ? AllF(0) : LoadF(x.bias + column, ColumnsFrom(w, column));
    for (int r = 0; r < rows; ++r) {
      __builtin_prefetch(x.y + (row + r) * w.columns + column, 1);
      y[r][p] = bias;
    }
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

// As Tile, of both panels. t and y stand in the L1 cache: of a block of 32 k that is a load and a
// store beside eight dot products.
template <typename L, int kRows>
void TallTile(const BlockUnit& unit, const BlockRows& x, int64_t row, int64_t panel) {
  const BlockStream& w = unit.stream;
  const BlockCut& cut = w.cut;
  const int64_t blocks = cut.blocks();
  const auto& nothing = *reinterpret_cast<const Floats(*)[kRows][kUnitPanels]>(kZeros);
  // Behind a pointer that the compiler knows nothing of, which else keeps some of them in registers
  // and the sums in memory.
  struct {
    Floats t[kRows][kUnitPanels], y[kRows][kUnitPanels];
  } in_memory;
  auto* floats = &in_memory;
  asm("" : "+r"(floats) : : "memory");
  auto& [t, y] = *floats;
  BeginTall(w, x, row, kRows, panel, y);
  const uint8_t* at = unit.bytes;
  RowsOfFour<kRows> q(x.q + row * x.stride, x.stride);
  InBlock block(w, x, row);
  int64_t piece = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    block.Enter(at);
    Ints sums[kRows][kUnitPanels];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int p = 0; p < kUnitPanels; ++p) sums[r][p] = block.Start<0>(r, kBlockColumns * p);
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
    const auto& before = piece == 0 ? nothing : t;
    const bool last = ++piece == cut.pieces || b + 1 == blocks;
#pragma GCC unroll 2
    for (int p = 0; p < kUnitPanels; ++p) {
      const Floats s = block.Scales(kBlockColumns * p);
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
    block.Leave(last);
    if (last) piece = 0;
  }
  StoreTall(w, x, row, kRows, panel, y);
}

template <typename L, int... kMore>
constexpr std::array<TileFn, sizeof...(kMore)> TallTilesOf(std::integer_sequence<int, kMore...>) {
  return {TallTile<L, kLeastTallRows<L> + kMore>...};
}
template <typename L>
constexpr auto kTallTiles =
    TallTilesOf<L>(std::make_integer_sequence<int, kMostTallRows<L> - kLeastTallRows<L> + 1>());

template <typename L>
TileFn TallTileFor(int row_count) {
  return kTallTiles<L>[static_cast<size_t>(row_count - kLeastTallRows<L>)];
}

}  // namespace
}  // namespace evoq::EVOQ_ISA
