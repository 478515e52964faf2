#define EVOQ_ISA avx512
#define EVOQ_OWN_PICK  // the end of this file
#include "kernels/move/move.inl.h"

namespace evoq::avx512 {
namespace {

__mmask64 FirstBytes(int64_t n) {
  return n >= 64 ? ~__mmask64{0} : n <= 0 ? 0 : (__mmask64{1} << n) - 1;
}

// Rows of at most 128 bytes into up to 128: one vpermi2b for each 64 of y.
__attribute__((target("avx512vbmi"))) void PickVbmi(const uint8_t* x, uint8_t* y, int64_t rows,
                                                    int64_t columns, int64_t x_columns,
                                                    const int32_t* from) {
  alignas(64) uint8_t index[128] = {};
  for (int64_t j = 0; j < columns; ++j) index[j] = static_cast<uint8_t>(from[j]);
  const __m512i index0 = _mm512_load_si512(index), index1 = _mm512_load_si512(index + 64);
  const __mmask64 x0 = FirstBytes(x_columns), x1 = FirstBytes(x_columns - 64),
                  y0 = FirstBytes(columns), y1 = FirstBytes(columns - 64);
  for (int64_t i = 0; i < rows; ++i, x += x_columns, y += columns) {
    const __m512i low = _mm512_maskz_loadu_epi8(x0, x), high = _mm512_maskz_loadu_epi8(x1, x + 64);
    _mm512_mask_storeu_epi8(y, y0, _mm512_permutex2var_epi8(low, index0, high));
    if (y1 != 0) _mm512_mask_storeu_epi8(y + 64, y1, _mm512_permutex2var_epi8(low, index1, high));
  }
}

bool PickBytes(const uint8_t* x, uint8_t* y, int64_t rows, int64_t columns, int64_t x_columns,
               const int32_t* from) {
  static const bool has_vbmi = __builtin_cpu_supports("avx512vbmi");
  if (!has_vbmi || columns > 128 || x_columns > 128) return false;
  PickVbmi(x, y, rows, columns, x_columns, from);
  return true;
}

}  // namespace
}  // namespace evoq::avx512
