// FinishInt8Row (gemm_int8_tile.h), for kernels of every instruction set: a file that is compiled
// for speed, as those of plain C++ are not.
#include <cmath>
#include <cstring>

#include "kernels/gemm/gemm_int8_tile.h"

namespace evoq {
namespace {

float AddResidual(const Int8Tile& tile, int row, int64_t n, float v) {
  if (tile.residual_type == Int8Residual::kNone) return v;
  const uint8_t* r = tile.residual + row * tile.residual_stride;
  switch (tile.residual_type) {
    case Int8Residual::kNone: break;
    case Int8Residual::kUint8:
      return v + static_cast<float>(r[n] - tile.residual_zero) * tile.residual_multiplier;
    case Int8Residual::kInt8:
      return v + static_cast<float>(static_cast<int8_t>(r[n]) - tile.residual_zero) *
                     tile.residual_multiplier;
    case Int8Residual::kFloat32: {
      float value;
      std::memcpy(&value, r + 4 * n, 4);
      return v + value;
    }
  }
  return v;
}

}  // namespace

void FinishInt8Row(const Int8Tile& tile, int row, const int32_t* acc, int64_t first, int64_t last) {
  uint8_t* y = tile.y + row * tile.y_stride;
  for (int64_t n = first; n < last; ++n) {
    uint32_t sum = static_cast<uint32_t>(acc[n]) + static_cast<uint32_t>(tile.bias[n]);
    if (tile.w_zero != nullptr)
      sum -= static_cast<uint32_t>(tile.w_zero[n]) * static_cast<uint32_t>(tile.row_sums[row]);
    const int32_t total = static_cast<int32_t>(sum);
    if (tile.output == Int8Output::kInt32) {
      std::memcpy(y + 4 * n, &total, 4);
      continue;
    }
    float v = static_cast<float>(total) * tile.multiplier[n];
    if (tile.offset != nullptr) v = v + tile.offset[n];
    v = AddResidual(tile, row, n, v);
    if (tile.slopes != nullptr) v = v < 0 ? v * tile.slopes[n] : v;
    if (tile.clamp) {
      v = tile.low > v ? tile.low : v;
      v = tile.high < v ? tile.high : v;
    }
    if (tile.output == Int8Output::kFloat32) {
      std::memcpy(y + 4 * n, &v, 4);
    } else {
      y[n] = static_cast<uint8_t>(static_cast<int32_t>(std::nearbyint(v)) + tile.y_zero);
    }
  }
}

}  // namespace evoq
