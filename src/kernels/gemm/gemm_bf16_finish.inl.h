// What the plain and the AVX2 bfloat16 micro-kernels share: from the 16 sums of a row to y.
// Included inside an unnamed namespace's file only (kernels/isa_table.h).
#include <cstring>

#include "kernels/gemm/gemm_bf16_tile.h"
#include "kernels/gemm/gemm_float_scalar.inl.h"

namespace evoq {
namespace {

// The 16 values that the sums of row r start from.
inline void StartRow(const GemmTileBf16& t, int r, float* v) {
  if (t.accumulate) {
    std::memcpy(v, t.sums + r * t.sums_step, 16 * sizeof(float));
    return;
  }
  for (int64_t n = 0; n < 16; ++n) v[n] = 0;
  if (t.bias == nullptr) return;
  for (int64_t n = t.column_begin; n < t.column_end; ++n) v[n] = t.bias[n];
}

inline float ReadResidual(const GemmTileBf16& t, int64_t at) {
  if (!t.residual_bf16) return static_cast<const float*>(t.residual)[at];
  const uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t*>(t.residual)[at]) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint16_t Narrow(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof(bits));
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

// The epilogue of one row from its 16 sums.
inline void FinishRow(const GemmTileBf16& t, int r, float* v) {
  if (t.last) {
    for (int64_t n = t.column_begin; n < t.column_end; ++n) {
      if (t.residual != nullptr) v[n] += ReadResidual(t, t.row_offset[r] + n);
      v[n] = Activate(t, v[n]);
    }
  }
  if (t.output == TileOutputBf16::kSums) {
    std::memcpy(t.sums + r * t.sums_step, v, 16 * sizeof(float));
  } else if (t.output == TileOutputBf16::kFloat32) {
    float* y = static_cast<float*>(t.y) + t.row_offset[r];
    for (int64_t n = t.column_begin; n < t.column_end; ++n) y[n] = v[n];
  } else {
    uint16_t* y = static_cast<uint16_t*>(t.y) + t.row_offset[r];
    for (int64_t n = t.column_begin; n < t.column_end; ++n) y[n] = Narrow(v[n]);
  }
}

void PairRows(const uint16_t* even, const uint16_t* odd, int count, float* y) {
  uint32_t pairs[16] = {};
  for (int n = 0; n < count; ++n) {
    pairs[n] = (even == nullptr ? 0u : even[n]) |
               (odd == nullptr ? 0u : static_cast<uint32_t>(odd[n]) << 16);
  }
  std::memcpy(y, pairs, sizeof(pairs));
}

void CopyRuns(const uint16_t* x, int64_t step, int64_t runs, int64_t n, uint16_t* y) {
  for (int64_t r = 0; r < runs; ++r, x += step, y += n)
    std::memcpy(y, x, static_cast<size_t>(n) * sizeof(uint16_t));
}

}  // namespace
}  // namespace evoq
