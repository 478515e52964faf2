// The functions of weights/format.h that a format's file takes from a struct F of its own:
//   static constexpr bool kApart;      // whether its two types, signed or not, are taken apart by
//                                      // code of their own: Values<true> and Values<false>
//   static constexpr bool kZeros;      // whether zero points may differ from 0
//   static constexpr int kGroup;       // k that share 16 * kGroup elements of a panel
//   static constexpr int kGroupBytes;  // in which they lie, group after group
//   static Panel Numbers(bool is_signed);  // what Values looks them up in
//   // The 16 elements at k = g of a group.
//   template <bool kSign>
//   static Panel Values(const uint8_t* group, int g, const Panel& numbers);
// A format's blocks are multiples of kGroup. Register tiles are kRows rows by kPanels panels, each
// weight converted once for all rows.
#include "kernels/gemm/weights/format.h"
#include "kernels/gemm/weights/panel.inl.h"

namespace evoq::EVOQ_ISA {
namespace {

template <typename F>
int64_t PanelBytes(int64_t depth) {
  return (depth + F::kGroup - 1) / F::kGroup * F::kGroupBytes;
}

// Adds a[k, r] * b[k, panel] for k = g of the groups at `w`; `a` points to that k, `zeros` to those
// of the first panel's block.
template <typename F, int kRows, int kPanels, bool kSigned, bool kZeros>
EVOQ_ALWAYS_INLINE void Step(const WeightPanels& weights, const Panel& numbers, const uint8_t* w,
                             int g, const float* a, const float* zeros, int64_t panel_scales,
                             Panel (&sum)[kRows][kPanels]) {
  Panel v[kPanels];
#pragma GCC unroll 8
  for (int p = 0; p < kPanels; ++p) {
    v[p] = F::template Values<kSigned>(w + p * weights.panel_bytes, g, numbers);
    if (kZeros) v[p] = Sub(v[p], LoadAll(zeros + p * panel_scales));
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const Panel x = Broadcast(a[r * weights.depth]);
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) sum[r][p] = MulAdd(x, v[p], sum[r][p]);
  }
}

template <typename F, int kRows, int kPanels, bool kSigned, bool kZeros>
void Tile(const WeightPanels& weights, const WeightRows& rows, int64_t row, int64_t panel) {
  const int64_t column = panel * kWeightColumns;
  const int64_t panel_scales = weights.blocks * kWeightColumns;  // and zeros
  const uint8_t* w = weights.packed + panel * weights.panel_bytes;
  const float* a = rows.a + row * weights.depth;
  int count[kPanels];
  for (int p = 0; p < kPanels; ++p) {
    const int64_t left = weights.columns - column - p * 16;
    count[p] = static_cast<int>(left < 16 ? left : 16);
  }
  const Panel numbers = F::Numbers(weights.is_signed);
  Panel total[kRows][kPanels];  // of the blocks before
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p)
      total[r][p] =
          rows.bias == nullptr ? Broadcast(0) : Load(rows.bias + column + p * 16, count[p]);
  }
  int64_t k = 0;
  for (int64_t block = 0; k < weights.depth || block == 0; ++block) {
    const int64_t end = weights.depth - k < weights.block ? weights.depth : k + weights.block;
    const int64_t of_block = panel * panel_scales + block * kWeightColumns;
    const float* zeros = kZeros ? weights.zeros + of_block : nullptr;
    Panel sum[kRows][kPanels];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int p = 0; p < kPanels; ++p) sum[r][p] = Broadcast(0);
    }
    for (; k + F::kGroup <= end; k += F::kGroup, w += F::kGroupBytes) {
#pragma GCC unroll 8
      for (int g = 0; g < F::kGroup; ++g)
        Step<F, kRows, kPanels, kSigned, kZeros>(weights, numbers, w, g, a + k + g, zeros,
                                                 panel_scales, sum);
    }
    for (int g = 0; k < end; ++k, ++g)  // the last group of all may be cut
      Step<F, kRows, kPanels, kSigned, kZeros>(weights, numbers, w, g, a + k, zeros, panel_scales,
                                               sum);
    const float* scales = weights.scales + of_block;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int p = 0; p < kPanels; ++p)
        total[r][p] = MulAdd(sum[r][p], LoadAll(scales + p * panel_scales), total[r][p]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) {
      const int64_t at = (row + r) * weights.columns + column + p * 16;
      Panel y = total[r][p];
      if (rows.residual != nullptr) y = Add(Load(rows.residual + at, count[p]), y);
      Store(rows.y + at, count[p], y);
    }
  }
}

using TileFn = void (*)(const WeightPanels& weights, const WeightRows& rows, int64_t row,
                        int64_t panel);

template <typename F, int kRows, int kPanels, bool kSigned>
TileFn TileOf(const WeightPanels& weights) {
  if constexpr (F::kZeros) {
    if (weights.zeros != nullptr) return Tile<F, kRows, kPanels, kSigned, true>;
  }
  return Tile<F, kRows, kPanels, kSigned, false>;
}

template <typename F, int kRows, int kPanels>
TileFn TileOf(const WeightPanels& weights) {
  if constexpr (F::kApart) {
    if (!weights.is_signed) return TileOf<F, kRows, kPanels, false>(weights);
  }
  return TileOf<F, kRows, kPanels, true>(weights);
}

template <typename F, int kPanels>
TileFn TileFor(const WeightPanels& weights, int rows) {
  switch (rows) {
    case 1: return TileOf<F, 1, kPanels>(weights);
    case 2: return TileOf<F, 2, kPanels>(weights);
    case 3: return TileOf < F, kMostRows<3 ? 1 : 3, kPanels>(weights);
    case 4: return TileOf < F, kMostRows<4 ? 1 : 4, kPanels>(weights);
    case 5: return TileOf < F, kMostRows<5 ? 1 : 5, kPanels>(weights);
    default: return TileOf<F, kMostRows, kPanels>(weights);
  }
}

template <typename F>
void Dot(const WeightPanels& weights, const WeightRows& rows, int64_t begin, int64_t end) {
  // Rows in nearly equal parts: each reads the weights again.
  const int64_t parts = (rows.rows + kMostRows - 1) / kMostRows;
  for (int64_t panel = begin; panel < end;) {
    const bool wide = end - panel >= kMostPanels;
    for (int64_t part = 0, row = 0; part < parts; ++part) {
      const int count = static_cast<int>((rows.rows - row + parts - part - 1) / (parts - part));
      const TileFn tile =
          wide ? TileFor<F, kMostPanels>(weights, count) : TileFor<F, 1>(weights, count);
      tile(weights, rows, row, panel);
      row += count;
    }
    panel += wide ? kMostPanels : 1;
  }
}

template <typename F, bool kSigned, bool kZeros>
void RealOf(const WeightPanels& weights, int64_t panel, float* b) {
  const Panel numbers = F::Numbers(weights.is_signed);
  const int64_t first = panel * weights.blocks;
  const uint8_t* w = weights.packed + panel * weights.panel_bytes;
  for (int64_t k = 0, block = 0; k < weights.depth; ++block) {
    const int64_t end = weights.depth - k < weights.block ? weights.depth : k + weights.block;
    const int64_t at = (first + block) * kWeightColumns;
    const Panel scale = LoadAll(weights.scales + at);
    const Panel zero = kZeros ? LoadAll(weights.zeros + at) : Broadcast(0);
    const auto step = [&](int g) {
      Panel v = F::template Values<kSigned>(w, g, numbers);
      if (kZeros) v = Sub(v, zero);
      StoreAll(b, Mul(v, scale));
      b += kWeightColumns;
    };
    for (; k + F::kGroup <= end; k += F::kGroup, w += F::kGroupBytes) {
#pragma GCC unroll 8
      for (int g = 0; g < F::kGroup; ++g) step(g);
    }
    for (int g = 0; k < end; ++k, ++g) step(g);
  }
}

template <typename F, bool kSigned>
void RealOf(const WeightPanels& weights, int64_t panel, float* b) {
  if constexpr (F::kZeros) {
    if (weights.zeros != nullptr) return RealOf<F, kSigned, true>(weights, panel, b);
  }
  RealOf<F, kSigned, false>(weights, panel, b);
}

template <typename F>
void Real(const WeightPanels& weights, int64_t panel, float* b) {
  if constexpr (F::kApart) {
    if (!weights.is_signed) return RealOf<F, false>(weights, panel, b);
  }
  RealOf<F, true>(weights, panel, b);
}

}  // namespace
}  // namespace evoq::EVOQ_ISA
