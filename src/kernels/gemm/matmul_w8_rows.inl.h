// Register tiles of matmul_w8.h: kRows rows by kPanels panels of 16 columns, each weight converted
// once for all rows.
#include <cstring>

#include "kernels/gemm/matmul_w8.h"
#include "kernels/variants.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace evoq::EVOQ_ISA {
namespace {

// 16 float32 values: the arithmetic of one panel.
#if defined(__AVX512F__)
constexpr int kMostRows = kFewVariants ? 2 : 6, kMostPanels = 4;
struct Panel {
  __m512 v;
};
inline Panel Broadcast(float x) { return {_mm512_set1_ps(x)}; }
inline Panel Load(const float* p, int n) {
  return {_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p)};
}
inline void Store(float* p, int n, Panel x) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), x.v);
}
inline Panel MulAdd(Panel a, Panel b, Panel c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Panel Add(Panel a, Panel b) { return {_mm512_add_ps(a.v, b.v)}; }
template <bool kSigned, bool kZeros>
inline Panel Weights(const uint8_t* p, const int32_t* zeros) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  __m512i q = kSigned ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes);
  if (kZeros) q = _mm512_sub_epi32(q, _mm512_loadu_si512(zeros));
  return {_mm512_cvtepi32_ps(q)};
}
#elif defined(__AVX2__)
constexpr int kMostRows = kFewVariants ? 2 : 5, kMostPanels = 1;
struct Panel {
  __m256 low, high;
};
inline Panel Broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Panel Load(const float* p, int n) {
  alignas(32) float values[16] = {};
  std::memcpy(values, p, n * sizeof(float));
  return {_mm256_load_ps(values), _mm256_load_ps(values + 8)};
}
inline void Store(float* p, int n, Panel x) {
  alignas(32) float values[16];
  _mm256_store_ps(values, x.low), _mm256_store_ps(values + 8, x.high);
  std::memcpy(p, values, n * sizeof(float));
}
inline Panel MulAdd(Panel a, Panel b, Panel c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Panel Add(Panel a, Panel b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
template <bool kSigned, bool kZeros>
inline Panel Weights(const uint8_t* p, const int32_t* zeros) {
  const auto half = [&](int i) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + i));
    __m256i q = kSigned ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes);
    if (kZeros)
      q = _mm256_sub_epi32(q, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(zeros + i)));
    return _mm256_cvtepi32_ps(q);
  };
  return {half(0), half(8)};
}
#else
constexpr int kMostRows = 2, kMostPanels = 1;
struct Panel {
  float v[16];
};
inline Panel Broadcast(float x) {
  Panel p;
  for (float& v : p.v) v = x;
  return p;
}
inline Panel Load(const float* p, int n) {
  Panel x = {};
  std::memcpy(x.v, p, n * sizeof(float));
  return x;
}
inline void Store(float* p, int n, const Panel& x) { std::memcpy(p, x.v, n * sizeof(float)); }
inline Panel MulAdd(const Panel& a, const Panel& b, Panel c) {
  for (int i = 0; i < 16; ++i) c.v[i] += a.v[i] * b.v[i];
  return c;
}
inline Panel Add(const Panel& a, Panel b) {
  for (int i = 0; i < 16; ++i) b.v[i] += a.v[i];
  return b;
}
template <bool kSigned, bool kZeros>
inline Panel Weights(const uint8_t* p, const int32_t* zeros) {
  Panel w;
  for (int i = 0; i < 16; ++i) {
    const int32_t q = kSigned ? static_cast<int8_t>(p[i]) : static_cast<int32_t>(p[i]);
    w.v[i] = static_cast<float>(kZeros ? q - zeros[i] : q);
  }
  return w;
}
#endif

template <int kRows, int kPanels, bool kSigned, bool kZeros>
void Tile(const W8Args& args, const float* a, const float* bias, const float* residual, float* y,
          int64_t panel) {
  const int64_t padded = (args.columns + 15) / 16 * 16, panel_bytes = args.depth * kW8Columns,
                column = panel * kW8Columns;
  const uint8_t* w = args.panels + panel * panel_bytes;
  const int32_t* zeros = kZeros ? args.zeros + column : nullptr;
  int count[kPanels];
  for (int p = 0; p < kPanels; ++p)
    count[p] =
        static_cast<int>(args.columns - column - p * 16 < 16 ? args.columns - column - p * 16 : 16);
  int64_t k = 0;
  for (int64_t block = 0; k < args.depth || block == 0; ++block) {
    const int64_t end = args.depth - k < args.block ? args.depth : k + args.block;
    Panel sum[kRows][kPanels];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int p = 0; p < kPanels; ++p) sum[r][p] = Broadcast(0);
    }
    for (; k < end; ++k) {
      Panel v[kPanels];
#pragma GCC unroll 8
      for (int p = 0; p < kPanels; ++p)
        v[p] = Weights<kSigned, kZeros>(w + p * panel_bytes + k * kW8Columns,
                                        kZeros ? zeros + p * 16 : nullptr);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Panel x = Broadcast(a[r * args.depth + k]);
#pragma GCC unroll 8
        for (int p = 0; p < kPanels; ++p) sum[r][p] = MulAdd(x, v[p], sum[r][p]);
      }
    }
    const float* scales = args.scales + block * padded + column;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int p = 0; p < kPanels; ++p) {
        const int64_t at = r * args.columns + column + p * 16;
        Panel start = Broadcast(0);
        if (block > 0) {
          start = Load(y + at, count[p]);
        } else if (bias != nullptr) {
          start = Load(bias + column + p * 16, count[p]);
        }
        start = MulAdd(sum[r][p], Load(scales + p * 16, 16), start);
        if (k >= args.depth && residual != nullptr)
          start = Add(Load(residual + at, count[p]), start);
        Store(y + at, count[p], start);
      }
    }
  }
}

using TileFn = void (*)(const W8Args& args, const float* a, const float* bias,
                        const float* residual, float* y, int64_t panel);

template <int kRows, int kPanels>
TileFn TileOf(const W8Args& args) {
  if (args.zeros != nullptr)
    return args.is_signed ? Tile<kRows, kPanels, true, true> : Tile<kRows, kPanels, false, true>;
  return args.is_signed ? Tile<kRows, kPanels, true, false> : Tile<kRows, kPanels, false, false>;
}

template <int kPanels>
TileFn TileFor(const W8Args& args, int rows) {
  switch (rows) {
    case 1: return TileOf<1, kPanels>(args);
    case 2: return TileOf<2, kPanels>(args);
    case 3: return TileOf < kMostRows<3 ? 1 : 3, kPanels>(args);
    case 4: return TileOf < kMostRows<4 ? 1 : 4, kPanels>(args);
    case 5: return TileOf < kMostRows<5 ? 1 : 5, kPanels>(args);
    default: return TileOf<kMostRows, kPanels>(args);
  }
}

void Panels(const W8Args& args, const float* a, const float* bias, const float* residual, float* y,
            int64_t begin, int64_t end) {
  // Rows in nearly equal parts: each reads the weights again.
  const int64_t parts = (args.rows + kMostRows - 1) / kMostRows;
  for (int64_t panel = begin; panel < end;) {
    const bool wide = end - panel >= kMostPanels;
    for (int64_t part = 0, row = 0; part < parts; ++part) {
      const int rows = static_cast<int>((args.rows - row + parts - part - 1) / (parts - part));
      const TileFn tile = wide ? TileFor<kMostPanels>(args, rows) : TileFor<1>(args, rows);
      const int64_t at = row * args.columns;
      tile(args, a + row * args.depth, bias, residual == nullptr ? nullptr : residual + at, y + at,
           panel);
      row += rows;
    }
    panel += wide ? kMostPanels : 1;
  }
}

}  // namespace

extern const W8Table kW8Table = {Panels};

}  // namespace evoq::EVOQ_ISA
