// How a row of a tile of floating-point products starts and ends, 16 sums at a time, in plain C++:
// for plain tiles and the rare ends of others. Included inside instruction-set files only.
#pragma once

#include <cstring>

#include "kernels/gemm/gemm_float_tile.h"

namespace evoq {
namespace {

// The 16 values that the sums of row r start from.
inline void StartRow(const GemmTile& t, int r, float* v) {
  if (t.accumulate) {
    std::memcpy(v, t.sums + r * t.sums_step, 16 * sizeof(float));
    return;
  }
  for (int64_t n = 0; n < 16; ++n) v[n] = 0;
  if (t.bias == nullptr) return;
  for (int64_t n = t.column_begin; n < t.column_end; ++n) v[n] = t.bias[n];
}

inline float ActivateOne(const GemmTile& t, float v) {
  switch (t.activation) {
    case TileActivation::kNone: return v;
    case TileActivation::kRelu: return 0 > v ? 0 : v;
    case TileActivation::kClamp: v = t.low > v ? t.low : v; return t.high < v ? t.high : v;
    case TileActivation::kLeaky: return v < 0 ? v * t.low : v;
  }
  return v;
}

inline float ReadResidual(const GemmTile& t, int64_t at) {
  if (!t.residual_bf16) return static_cast<const float*>(t.residual)[at];
  const uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t*>(t.residual)[at]) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint16_t NarrowOne(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof(bits));
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

// The end of one row of one panel, from its 16 sums.
inline void FinishRow(const GemmTile& t, int r, float* v) {
  if (t.last) {
    for (int64_t n = t.column_begin; n < t.column_end; ++n) {
      if (t.residual != nullptr) v[n] += ReadResidual(t, t.row_offset[r] + n);
      v[n] = ActivateOne(t, v[n]);
    }
  }
  if (t.output == TileOutput::kSums) {
    std::memcpy(t.sums + r * t.sums_step, v, 16 * sizeof(float));
  } else if (t.output == TileOutput::kFloat32) {
    float* y = static_cast<float*>(t.y) + t.row_offset[r];
    for (int64_t n = t.column_begin; n < t.column_end; ++n) y[n] = v[n];
  } else {
    uint16_t* y = static_cast<uint16_t*>(t.y) + t.row_offset[r];
    for (int64_t n = t.column_begin; n < t.column_end; ++n) y[n] = NarrowOne(v[n]);
  }
}

}  // namespace
}  // namespace evoq
