// The functions of product.h, for one instruction set: BlockTable kBlockDot.
#include <array>
#include <utility>

#include "kernels/gemm/blocks/block_data.h"
#include "kernels/gemm/blocks/vectors.inl.h"

namespace evoq::EVOQ_ISA {
namespace {

// Kinds of lines, in the order of BlockLines: whether files hold it, groups of four k in a line,
// whether all numbers are below 128, the numbers of group i.
struct Nibbles {
  static constexpr bool kStored = true;
  static constexpr int kGroups = 2;
  static constexpr bool kSmall = true;
  static EVOQ_ALWAYS_INLINE Bytes Group(const Bytes& line, int i) { return Bits<4>(line, i); }
};
struct Pairs {
  static constexpr bool kStored = true;
  static constexpr int kGroups = 4;
  static constexpr bool kSmall = true;
  static EVOQ_ALWAYS_INLINE Bytes Group(const Bytes& line, int i) { return Bits<2>(line, i); }
};
struct E2m1 {
  static constexpr bool kStored = true;
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
  static constexpr bool kStored = false;
  static constexpr int kGroups = 1;
  static constexpr bool kSmall = true;
  static EVOQ_ALWAYS_INLINE Bytes Group(const Bytes& line, int) { return line; }
};
struct FlippedBytes {
  static constexpr bool kStored = true;
  static constexpr int kGroups = 1;
  static constexpr bool kSmall = false;
  static EVOQ_ALWAYS_INLINE Bytes Group(const Bytes& line, int) { return Flip(line); }
};

// Lines that come from memory are asked for early: a lone row passes them faster.
constexpr int64_t kAheadBytes = 1024, kAheadBytesOfOne = 2048;

// Where a tile stands in its panels and rows.
template <int kRows, int kPanels>
struct Place {
  const uint8_t* line;
  int64_t panel_bytes;
  const int8_t* q[kRows];
};

// The sums of one block; the place moves behind it.
template <typename L, int kRows, int kPanels>
EVOQ_ALWAYS_INLINE void Sums(Place<kRows, kPanels>& at, int64_t lines,
                             Ints (&sums)[kRows][kPanels]) {
  for (int64_t l = 0; l < lines; ++l, at.line += 64) {
    Bytes line[kPanels];
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p) {
      line[p] = LoadBytes(at.line + p * at.panel_bytes);
#if defined(__AVX2__)
      if (L::kStored)
        _mm_prefetch(reinterpret_cast<const char*>(at.line + p * at.panel_bytes) +
                         (kRows == 1 ? kAheadBytesOfOne : kAheadBytes),
                     _MM_HINT_T0);
#endif
    }
#pragma GCC unroll 4
    for (int g = 0; g < L::kGroups; ++g) {
      Bytes u[kPanels];
#pragma GCC unroll 2
      for (int p = 0; p < kPanels; ++p) u[p] = L::Group(line[p], g);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Quad quad = Spread(at.q[r] + 4 * g);
#pragma GCC unroll 2
        for (int p = 0; p < kPanels; ++p) sums[r][p] = Dot<L::kSmall>(sums[r][p], u[p], quad);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) at.q[r] += 4 * L::kGroups;
  }
}

template <typename L, int kRows, int kPanels, bool kNested>
void Tile(const BlockPanels& w, const BlockRows& x, int64_t row, int64_t panel) {
  const BlockCut& cut = w.cut;
  const int64_t blocks = cut.blocks(), data_blocks = cut.data_blocks(), scales = cut.scales();
  const int64_t column = panel * kBlockColumns;
  Place<kRows, kPanels> at;
  at.line = w.lines, at.panel_bytes = w.panel_bytes;
  int count[kPanels];
  Floats y[kRows][kPanels], t[kRows][kPanels];
#pragma GCC unroll 2
  for (int p = 0; p < kPanels; ++p) {
    const int64_t left = w.columns - column - p * kBlockColumns;
    count[p] = static_cast<int>(left < kBlockColumns ? left : kBlockColumns);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    at.q[r] = x.q + (row + r) * x.stride;
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p)
      y[r][p] = x.bias == nullptr ? AllF(0) : LoadF(x.bias + column + p * 16, count[p]);
  }
  const int32_t* corrections = x.corrections + row * blocks;
  const float* data_scales = x.scales + row * data_blocks;
  int64_t scale = panel * scales * kBlockColumns, scale_blocks = 0, piece = 0;
  for (int64_t b = 0; b < blocks; ++b, ++corrections) {
    Ints sums[kRows][kPanels];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int p = 0; p < kPanels; ++p)
        sums[r][p] = w.zeros == nullptr ? All(corrections[r * blocks])
                                        : Times(w.zeros + scale + p * scales * kBlockColumns,
                                                corrections[r * blocks]);
    }
    const int64_t left = cut.depth - b * cut.block, k = left < cut.block ? left : cut.block;
    Sums<L, kRows, kPanels>(at, (k + 4 * L::kGroups - 1) / (4 * L::kGroups), sums);
    const bool first = piece == 0, last = ++piece == cut.pieces || b + 1 == blocks;
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p) {
      const int64_t i = scale + p * scales * kBlockColumns;
      const Floats s = w.half_scales != nullptr ? LoadHalf(w.half_scales + i) : LoadF(w.scales + i);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Floats sum = ToFloats(sums[r][p]);
        t[r][p] = !kNested || first ? Mul(sum, s) : MulAdd(sum, s, t[r][p]);
        if (!kNested || last)
          y[r][p] = MulAdd(AllF(data_scales[r * data_blocks]), t[r][p], y[r][p]);
      }
    }
    if (!kNested || last) ++data_scales, piece = 0;
    if (++scale_blocks == cut.blocks_per_scale) scale += kBlockColumns, scale_blocks = 0;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p) {
      const int64_t i = (row + r) * w.columns + column + p * kBlockColumns;
      if (x.residual != nullptr) y[r][p] = Add(y[r][p], LoadF(x.residual + i, count[p]));
      StoreF(x.y + i, count[p], y[r][p]);
    }
  }
}

using TileFn = void (*)(const BlockPanels& panels, const BlockRows& rows, int64_t row,
                        int64_t panel);

template <typename L, int kPanels, bool kNested, int... kRows>
constexpr std::array<TileFn, kMaxRows> TilesOf(std::integer_sequence<int, kRows...>) {
  return {Tile<L, kRows + 1, kPanels, kNested>...};
}
template <typename L, int kPanels, bool kNested>
constexpr auto kTiles = TilesOf<L, kPanels, kNested>(std::make_integer_sequence<int, kMaxRows>());

template <typename L>
TileFn TileFor(int row_count, int panel_count, bool nested) {
  if (panel_count > 1)
    return (nested ? kTiles<L, kMaxPanels, true> : kTiles<L, kMaxPanels, false>)[row_count - 1];
  return (nested ? kTiles<L, 1, true> : kTiles<L, 1, false>)[row_count - 1];
}

template <typename L>
void UnpackLines(const uint8_t* lines, int64_t count, uint8_t* bytes) {
  for (int64_t i = 0; i < count; ++i, lines += 64) {
    const Bytes line = LoadBytes(lines);
    for (int g = 0; g < L::kGroups; ++g, bytes += 64) StoreBytes(bytes, L::Group(line, g));
  }
}

// What there is of each kind.
struct LinesCode {
  TileFn (*tile)(int row_count, int panel_count, bool nested);
  void (*unpack)(const uint8_t* lines, int64_t count, uint8_t* bytes);
};
template <typename... L>
constexpr std::array<LinesCode, sizeof...(L)> CodeOf() {
  return {LinesCode{TileFor<L>, UnpackLines<L>}...};
}
constexpr auto kCode = CodeOf<Nibbles, Pairs, E2m1, SmallBytes, FlippedBytes>();

void RunTile(BlockLines kind, const BlockPanels& panels, const BlockRows& rows, int64_t row,
             int row_count, int64_t panel, int panel_count) {
  const bool nested = panels.cut.pieces > 1;
  kCode[static_cast<size_t>(kind)].tile(row_count, panel_count, nested)(panels, rows, row, panel);
}

void Unpack(BlockLines kind, const uint8_t* lines, int64_t count, uint8_t* bytes) {
  kCode[static_cast<size_t>(kind)].unpack(lines, count, bytes);
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
#if defined(__AVX2__)
    .takes_half = true,
#else
    .takes_half = false,
#endif
    .direct_rows = kDirectRows,
    .quantize = Quantize,
    .unpack = Unpack,
    .tile = RunTile,
};

}  // namespace evoq::EVOQ_ISA
