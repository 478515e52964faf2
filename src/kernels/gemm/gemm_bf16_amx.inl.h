// Tiles of AMX for bfloat16 products: four registers of 16 x 16 float32 sums, as 32 rows x 2 panels
// or 16 x 4. Included by instruction-set files, for a `Unit` of kernels/amx/config.h.
//
// Each tap of each segment of K is cut into steps of 16 pairs from its first one on, whatever the
// tile, and what the last one lacks is zeros: so sums do not depend on the tile.
#pragma once

#include "kernels/amx/tiles.inl.h"
#include "kernels/gemm/gemm_float_finish_avx512.inl.h"

namespace evoq {
namespace {

template <typename Unit>
void BeginTask() {
  Unit::Configure(AmxConfigOf(kAmxRows));
}
template <typename Unit>
void EndTask() {
  Unit::Release();
}

// To bfloat16: to nearest, ties to even; a NaN stays one that is quiet.
inline __m256i Narrow(__m512 v) {
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  const __m512i kept = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_mov_epi32(rounded, nan, kept), 16));
}

// The tile of one row of a tile.
inline GemmTile RowOf(const GemmTile& t, int row) {
  GemmTile one = t;
  one.row_offset += row;
  one.sums += row * t.sums_step;
  return one;
}

// `pairs` pairs, from `offset` on, of 16 rows of which there are `rows`, the last one again where
// there are fewer, with zeros behind them.
[[gnu::noinline]] void Gather(const float* const* from, int64_t offset, int pairs, int rows,
                              float* to) {
  const auto mask = static_cast<__mmask16>((1u << pairs) - 1);
  for (int r = 0; r < kAmxRows; ++r)
    _mm512_store_si512(to + 16 * r,
                       _mm512_maskz_loadu_epi32(mask, from[r < rows ? r : rows - 1] + offset));
}

// `pairs` lines of a panel, with zeros behind them.
[[gnu::noinline]] void PadPanel(const float* b, int64_t step, int pairs, float* to) {
  for (int k = 0; k < kAmxRows; ++k)
    _mm512_store_si512(to + 16 * k,
                       k < pairs ? _mm512_loadu_si512(b + k * step) : _mm512_setzero_si512());
}

// A step along K: at most 16 pairs of a tap.
struct Step {
  int64_t tap, k;
  int pairs;
};

// Where the operands of a step's products lie: in place where they lie as registers want them, or
// in a buffer.
template <int kRowTiles, int kPanels>
struct Operands {
  alignas(64) float row_room[kRowTiles][kAmxRows * 16];
  alignas(64) float panel_room[kPanels][kAmxRows * 16];
  const float *rows[kRowTiles], *panels[kPanels];
  int64_t row_stride[kRowTiles], panel_stride;

  // Of a tile of `count` rows.
  [[gnu::noinline]] void Prepare(const GemmTile& t, const Step& step, int count) {
    const bool whole = step.pairs == kAmxRows;
    const int64_t offset = t.taps[step.tap].a + step.k;
    for (int m = 0; m < kRowTiles; ++m) {
      const int row = kAmxRows * m;
      const float* const* from = t.rows + step.tap * t.row_stride + row;
      if (whole && row + kAmxRows <= count && OneStride(from, row_stride[m])) {
        rows[m] = from[0] + offset;
        continue;
      }
      Gather(from, offset, step.pairs, count - row, row_room[m]);
      rows[m] = row_room[m];
      row_stride[m] = kAmxRowBytes;
    }
    const float* b = t.b + t.taps[step.tap].b + step.k * t.b_step;
    panel_stride = whole ? 4 * t.b_step : kAmxRowBytes;
    for (int p = 0; p < kPanels; ++p, b += t.panel_stride) {
      panels[p] = b;
      if (whole) continue;
      PadPanel(b, t.b_step, step.pairs, panel_room[p]);
      panels[p] = panel_room[p];
    }
  }
};

// The step behind `step`, or false.
inline bool Next(const GemmTile& t, Step& step) {
  step.k += kAmxRows;
  if (step.k >= t.depth) {
    if (++step.tap == t.tap_count) return false;
    step.k = 0;
  }
  step.pairs = static_cast<int>(t.depth - step.k < kAmxRows ? t.depth - step.k : kAmxRows);
  return true;
}

// The first `rows` rows of kRowTiles registers. Operands are made a step ahead, as those of bytes
// are (gemm_int8_amx.inl.h).
template <typename Unit, int kRowTiles, int kPanels>
[[gnu::noinline]] void Product(const GemmTile& t, int rows) {
  constexpr int kAllRows = kAmxRows * kRowTiles, kWidth = 16 * kPanels;
  alignas(64) float sums[kAllRows * kWidth];
  Operands<kRowTiles, kPanels> both[2];
  __mmask16 mask[kPanels];
  __m512 acc[1][kPanels];
#pragma GCC unroll 1
  for (int r = 0; r < kAllRows; ++r) {
    if (r < rows) Start<1, kPanels>(RowOf(t, r), mask, acc);
    for (int p = 0; p < kPanels; ++p)
      _mm512_store_ps(sums + r * kWidth + 16 * p, r < rows ? acc[0][p] : _mm512_setzero_ps());
  }
  Unrolled<kRowTiles>([&](auto m) {
    constexpr int kM = m;
    Unrolled<kPanels>([&](auto p) {
      constexpr int kP = p;
      Unit::template Load<kSumTile<kPanels, kM, kP>>(sums + kAmxRows * kM * kWidth + 16 * kP,
                                                     4 * kWidth);
    });
  });
  const float* ahead = t.ahead;
  Step step = {.tap = -1, .k = t.depth, .pairs = 0};
  bool more = Next(t, step);
  if (more) both[0].Prepare(t, step, rows);
  for (int at = 0; more; at ^= 1) {
#pragma GCC unroll 1
    for (int i = 0; t.ahead_step != 0 && i < step.pairs; ++i, ahead += t.ahead_step)
      _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T1);
    more = Next(t, step);
    if (more) both[at ^ 1].Prepare(t, step, rows);
    const Operands<kRowTiles, kPanels>& now = both[at];
    Unrolled<kRowTiles>([&](auto m) {
      constexpr int kM = m, kRow = kRowTile + kM % 2;
      Unit::template Load<kRow>(now.rows[kM], now.row_stride[kM]);
      Unrolled<kPanels>([&](auto p) {
        constexpr int kP = p, kPanel = kPanelTile + kP % 2;
        if constexpr (kM == 0) Unit::template Load<kPanel>(now.panels[kP], now.panel_stride);
        Unit::template DotBf16<kSumTile<kPanels, kM, kP>, kRow, kPanel>();
      });
    });
  }
  Unrolled<kRowTiles>([&](auto m) {
    constexpr int kM = m;
    Unrolled<kPanels>([&](auto p) {
      constexpr int kP = p;
      Unit::template Store<kSumTile<kPanels, kM, kP>>(sums + kAmxRows * kM * kWidth + 16 * kP,
                                                      4 * kWidth);
    });
  });
  for (int p = 0; p < kPanels; ++p) mask[p] = ColumnMask(t, p);
#pragma GCC unroll 1
  for (int r = 0; r < rows; ++r) {
    const GemmTile one = RowOf(t, r);
    for (int p = 0; p < kPanels; ++p) acc[0][p] = _mm512_load_ps(sums + r * kWidth + 16 * p);
    if (!FinishFloats<1, kPanels>(one, mask, acc)) continue;
    uint16_t* const y = static_cast<uint16_t*>(one.y) + one.row_offset[0];
    for (int p = 0; p < kPanels; ++p)
      _mm256_mask_storeu_epi16(y + 16 * p, mask[p], Narrow(acc[0][p]));
  }
}

template <typename Unit, int kRows, int kPanels>
void Tile(const GemmTile& t) {
  Product<Unit, (kRows + kAmxRows - 1) / kAmxRows, kPanels>(t, kRows);
}

// Tile<Unit, 1, kPanels> to Tile<Unit, sizeof...(kRow), kPanels>, by their rows.
template <typename Unit, int kPanels, int... kRow>
constexpr void SetTiles(GemmKernels& kernels, std::integer_sequence<int, kRow...>) {
  ((kernels.tile[kPanels][kRow + 1] = Tile<Unit, kRow + 1, kPanels>), ...);
}

// `small`: for products of few rows or a short K.
template <typename Unit>
constexpr GemmKernels KernelsOf(const char* name, const GemmKernels* small) {
  GemmKernels kernels = {.name = name,
                         .rows = 32,
                         .panels = 2,
                         .few_rows = 16,
                         .few_rows_panels = 4,
                         .one_panel_rows = 32,
                         .tile = {},
                         .lane_rows = 0,
                         .lane_tile = {},
                         .row_step = kAmxRows,
                         .begin = BeginTask<Unit>,
                         .end = EndTask<Unit>,
                         .speed = 16,
                         .small = small,
                         .least_rows = 5,
                         .least_depth = 8};
  SetTiles<Unit, 1>(kernels, std::make_integer_sequence<int, 32>());
  SetTiles<Unit, 2>(kernels, std::make_integer_sequence<int, 32>());
  SetTiles<Unit, 4>(kernels, std::make_integer_sequence<int, 16>());
  return kernels;
}

}  // namespace
}  // namespace evoq
