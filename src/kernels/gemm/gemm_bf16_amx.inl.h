// Tiles of AMX for bfloat16 products: four registers of 16 x 16 float32 sums, as 32 rows x 2 panels
// or 16 x 4. Included by instruction-set files, for a `Unit` of kernels/amx/config.h.
//
// Each tap of each segment of K is cut into steps of 16 pairs from its first one on, whatever the
// tile, and what the last one lacks is zeros: so sums do not depend on the tile.
#pragma once

#include <bit>
#include <type_traits>

#include "kernels/amx/hardware.h"
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

// To bfloat16: to nearest, ties to even; a NaN stays one that is quiet, and what is below the least
// normal number becomes 0, as the hardware's instruction says.
template <typename Unit>
[[gnu::always_inline]] inline __m256i Narrow(__m512 v) {
#if defined(__AVX512BF16__)
  if constexpr (std::is_same_v<Unit, AmxHardware>)
    return std::bit_cast<__m256i>(_mm512_cvtneps_pbh(v));
#endif
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  const __m512i kept = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __mmask16 small =
      _mm512_cmp_ps_mask(_mm512_abs_ps(v), _mm512_set1_ps(0x1p-126f), _CMP_LT_OQ);
  const __m512i sign = _mm512_and_si512(bits, _mm512_set1_epi32(INT32_MIN));
  const __m512i all = _mm512_mask_mov_epi32(_mm512_mask_mov_epi32(rounded, nan, kept), small, sign);
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(all, 16));
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

// The sums of kRowTiles x kPanels registers, row by row.
template <int kRowTiles, int kPanels>
struct alignas(64) Sums {
  float v[kAmxRows * kRowTiles][16 * kPanels];
};

alignas(64) constexpr float kNoBias[4 * 16] = {};

// Loads what the sums of the first `rows` rows begin with. `whole`: all columns are stored. `room`
// may be used.
template <typename Unit, int kRowTiles, int kPanels>
[[gnu::always_inline]] inline void LoadStart(const GemmTile& t, int rows, bool whole,
                                             const __mmask16 (&mask)[kPanels],
                                             Sums<kRowTiles, kPanels>& room) {
  const float* from = room.v[0];
  int64_t stride = 0;
  if (t.accumulate) {
    from = t.sums, stride = 4 * t.sums_step;
    if (rows < kAmxRows * kRowTiles) {  // there may be nothing behind them
#pragma GCC unroll 1
      for (int r = 0; r < rows; ++r) {
        for (int p = 0; p < kPanels; ++p)
          _mm512_store_ps(room.v[r] + 16 * p, _mm512_loadu_ps(t.sums + r * t.sums_step + 16 * p));
      }
      from = room.v[0], stride = sizeof(room.v[0]);
    }
  } else if (t.bias == nullptr) {
    from = kNoBias;
  } else if (whole) {  // what has just been stored is not there yet for a register's load
    from = t.bias;
  } else {
    for (int p = 0; p < kPanels; ++p)
      _mm512_store_ps(room.v[0] + 16 * p, _mm512_maskz_loadu_ps(mask[p], t.bias + 16 * p));
  }
  Unrolled<kRowTiles>([&](auto m) {
    constexpr int kM = m;
    Unrolled<kPanels>([&](auto p) {
      constexpr int kP = p;
      Unit::template Load<kSumTile<kPanels, kM, kP>>(
          reinterpret_cast<const char*>(from + 16 * kP) + kAmxRows * kM * stride, stride);
    });
  });
}

// From the sums to what the tile writes.
template <typename Unit, int kRowTiles, int kPanels>
[[gnu::always_inline]] inline void FinishRows(const GemmTile& t, int rows,
                                              const __mmask16 (&mask)[kPanels],
                                              const Sums<kRowTiles, kPanels>& sums) {
  GemmTile row = t;  // of one row
  __m512 acc[1][kPanels];
  for (int r = 0; r < rows; ++r, ++row.row_offset, row.sums += t.sums_step) {
    for (int p = 0; p < kPanels; ++p) acc[0][p] = _mm512_load_ps(sums.v[r] + 16 * p);
    if (!FinishFloats<1, kPanels>(row, mask, acc)) continue;
    uint16_t* const y = static_cast<uint16_t*>(t.y) + row.row_offset[0];
    for (int p = 0; p < kPanels; ++p)
      _mm256_mask_storeu_epi16(y + 16 * p, mask[p], Narrow<Unit>(acc[0][p]));
  }
}

// What FinishRows does where all columns are rounded as they are.
template <typename Unit, int kRowTiles, int kPanels>
[[gnu::always_inline]] inline void NarrowRows(const GemmTile& t, int rows,
                                              const Sums<kRowTiles, kPanels>& sums) {
  auto* const y = static_cast<uint16_t*>(t.y);
  const int64_t* const offsets = t.row_offset;
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
    uint16_t* const to = y + offsets[r];
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 16 * p),
                          Narrow<Unit>(_mm512_load_ps(sums.v[r] + 16 * p)));
  }
}

// All taps of each row, one behind the other.
void CopyRows(const GemmTile& t, int count, float* to, int64_t step) {
  for (int64_t tap = 0; tap < t.tap_count; ++tap, to += t.depth) {
    const float* const* rows = t.rows + tap * t.row_stride;
    float* at = to;
    for (int r = 0; r < count; ++r, at += step) {
      const float* const from = rows[r] + t.taps[tap].a;
      int64_t k = 0;
      for (; k + 16 <= t.depth; k += 16) _mm512_storeu_si512(at + k, _mm512_loadu_si512(from + k));
      const auto rest = static_cast<__mmask16>((1u << (t.depth - k)) - 1);
      if (rest != 0)
        _mm512_mask_storeu_epi32(at + k, rest, _mm512_maskz_loadu_epi32(rest, from + k));
    }
  }
}

// What GemmTile::ahead_lines asks for, so many lines beside each step.
template <int kPanels>
struct Ahead {
  const float *at, *end;
  int64_t line, a_step;

  explicit Ahead(const GemmTile& t)
      : at(t.ahead), end(t.ahead + 16 * t.ahead_lines), line(kPanels > 1 ? t.ahead_line : 0) {
    const int64_t steps = t.tap_count * ((t.depth + kAmxRows - 1) / kAmxRows);
    a_step = steps == 0 ? 0 : 16 * ((t.ahead_lines + steps - 1) / steps);
  }
  [[gnu::always_inline]] inline void Fetch() {
    const float* const to = end - at < a_step ? end : at + a_step;
#pragma GCC unroll 1
    for (; at < to; at += 16) {
      _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T1);
      if constexpr (kPanels > 1)
        _mm_prefetch(reinterpret_cast<const char*>(at + line), _MM_HINT_T1);
    }
  }
};

// So many bytes apart, rows fall on too few lines of the nearest cache to stay there.
constexpr int64_t kCrowdedBytes = 2048;

// The products of even rows whose taps are whole steps.
template <typename Unit, int kRowTiles, int kPanels>
[[gnu::always_inline]] inline void MultiplyEven(const GemmTile& t, bool panels_pass) {
  const int64_t panel_step = 4 * t.b_step;
  Ahead<kPanels> ahead(t);
  for (int64_t tap = 0; tap < t.tap_count; ++tap) {
    const float* const* rows = t.rows + tap * t.row_stride;
    const int64_t stride =
        reinterpret_cast<intptr_t>(rows[1]) - reinterpret_cast<intptr_t>(rows[0]);
    const bool crowded = stride % kCrowdedBytes == 0;
    const char* a = reinterpret_cast<const char*>(rows[0] + t.taps[tap].a);
    const float* b = t.b + t.taps[tap].b;
    for (int64_t k = 0; k < t.depth; k += kAmxRows, a += kAmxRowBytes, b += kAmxRows * t.b_step) {
      ahead.Fetch();
      Unrolled<kRowTiles>([&](auto m) {
        constexpr int kM = m, kRow = kRowTile + kM % 2;
        LoadTile<Unit, kRow>(a + kAmxRows * kM * stride, stride, crowded);
        Unrolled<kPanels>([&](auto p) {
          constexpr int kP = p, kPanel = kPanelTile + kP % 2;
          if constexpr (kM == 0)
            LoadTile<Unit, kPanel>(b + kP * t.panel_stride, panel_step, panels_pass);
          Unit::template DotBf16<kSumTile<kPanels, kM, kP>, kRow, kPanel>();
        });
      });
    }
  }
}

// Of any rows. Operands are made a step ahead, as those of bytes are (gemm_int8_amx.inl.h).
template <typename Unit, int kRowTiles, int kPanels>
[[gnu::noinline]] void MultiplyAny(const GemmTile& t, int rows) {
  Operands<kRowTiles, kPanels> both[2];
  Ahead<kPanels> ahead(t);
  Step step = {.tap = -1, .k = t.depth, .pairs = 0};
  bool more = Next(t, step);
  if (more) both[0].Prepare(t, step, rows);
  for (int at = 0; more; at ^= 1) {
    ahead.Fetch();
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
}

// The first `rows` rows of kRowTiles registers.
template <typename Unit, int kRowTiles, int kPanels>
[[gnu::noinline]] void Product(const GemmTile& t, int rows) {
  Sums<kRowTiles, kPanels> sums;
  __mmask16 mask[kPanels];
  bool whole = true;
  for (int p = 0; p < kPanels; ++p) mask[p] = ColumnMask(t, p), whole = whole && mask[p] == 0xffff;
  LoadStart<Unit>(t, rows, whole, mask, sums);
  if (t.even && t.depth % kAmxRows == 0) {
    MultiplyEven<Unit, kRowTiles, kPanels>(
        t, kPanels * t.tap_count * t.depth * kAmxRowBytes > kStayingBytes);
  } else {
    MultiplyAny<Unit, kRowTiles, kPanels>(t, rows);
  }
  const bool stays = t.output == TileOutput::kSums && !t.last && rows == kAmxRows * kRowTiles;
  float* const to = stays ? t.sums : sums.v[0];
  const int64_t stride = stays ? 4 * t.sums_step : static_cast<int64_t>(sizeof(sums.v[0]));
  Unrolled<kRowTiles>([&](auto m) {
    constexpr int kM = m;
    Unrolled<kPanels>([&](auto p) {
      constexpr int kP = p;
      Unit::template Store<kSumTile<kPanels, kM, kP>>(
          reinterpret_cast<char*>(to + 16 * kP) + kAmxRows * kM * stride, stride);
    });
  });
  if (stays) return;
  const bool plain = whole && t.output == TileOutput::kBfloat16 &&
                     (!t.last || (t.residual == nullptr && t.activation == TileActivation::kNone));
  if (plain) {
    NarrowRows<Unit>(t, rows, sums);
  } else {
    FinishRows<Unit>(t, rows, mask, sums);
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
                         .copy_rows = CopyRows,
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
