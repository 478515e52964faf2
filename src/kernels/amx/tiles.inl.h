// What kernels of all types over tiles of AMX share: which tile is what, and rows that lie as a
// tile wants them. Included by instruction-set files.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <utility>

#include "kernels/amx/config.h"

namespace evoq {
namespace {

// Up to four registers of sums, row by row; two for rows of the left operand and two for panels of
// the right one, which take turns.
template <int kPanels, int kRow, int kPanel>
inline constexpr int kSumTile = kRow * kPanels + kPanel;
constexpr int kRowTile = 4, kPanelTile = 6;

// One configuration for all shapes of registers, with `words` words of four bytes in a row: rows
// that a product does not have are computed for nothing.
constexpr AmxConfig AmxConfigOf(int words) {
  AmxConfig config;
  for (int t = 0; t < kAmxTiles; ++t) {
    config.rows[t] = kAmxRows;
    config.row_bytes[t] = kAmxRowBytes;
  }
  for (int i = 0; i < 2; ++i) {
    config.row_bytes[kRowTile + i] = static_cast<uint16_t>(4 * words);
    config.rows[kPanelTile + i] = static_cast<uint8_t>(words);
  }
  return config;
}

// Whether the 16 rows lie at one distance from each other, which it gives in bytes.
template <typename T>
inline bool OneStride(const T* const* rows, int64_t& stride) {
  const __m512i low = _mm512_loadu_si512(rows), middle = _mm512_loadu_si512(rows + 8);
  const __m512i next = _mm512_loadu_si512(rows + 1);
  const __m512i last = _mm512_maskz_loadu_epi64(0x7f, rows + 9);
  stride = reinterpret_cast<int64_t>(rows[1]) - reinterpret_cast<int64_t>(rows[0]);
  const __m512i wanted = _mm512_set1_epi64(stride);
  return (_mm512_cmpneq_epi64_mask(_mm512_sub_epi64(next, low), wanted) |
          _mm512_mask_cmpneq_epi64_mask(0x7f, _mm512_sub_epi64(last, middle), wanted)) == 0;
}

// Panels that a tile's rows meet again and again stay in the nearest cache up to so many bytes,
// half of which and more the rows then pass by; longer ones come from the next cache each time, and
// so pass by, too.
inline constexpr int64_t kStayingBytes = 32 << 10;

template <typename Unit, int kTile>
[[gnu::always_inline]] inline void LoadTile(const void* from, int64_t stride, bool passing) {
  if (passing) {
    Unit::template LoadPassing<kTile>(from, stride);
  } else {
    Unit::template Load<kTile>(from, stride);
  }
}

// Calls body with std::integral_constant 0 .. kCount - 1.
template <int kCount, typename Body>
[[gnu::always_inline]] inline void Unrolled(const Body& body) {
  [&]<int... kI>(std::integer_sequence<int, kI...>) __attribute__((always_inline)) {
    (body(std::integral_constant<int, kI>()), ...);
  }(std::make_integer_sequence<int, kCount>());
}

}  // namespace
}  // namespace evoq
