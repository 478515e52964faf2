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

void RunTile(const Int8Tile& tile) {
  for (int row = 0; row < tile.row_count; ++row) {
    for (int panel = 0; panel < tile.panel_count; ++panel) {
      uint32_t acc[16] = {};
      const int8_t* w = tile.weights + panel * tile.panel_bytes;
      for (int64_t tap = 0; tap < tile.taps; ++tap) {
        const int64_t offset =
            tile.x_offset + (tile.tap_offsets != nullptr ? tile.tap_offsets[tap] : 0);
        const uint8_t* x = tile.rows[tap * tile.row_stride + row] + offset;
        for (int64_t group = 0; group < tile.groups_of_4; ++group, w += 64, x += 4) {
          for (int n = 0; n < 16; ++n) {
            for (int i = 0; i < 4; ++i) acc[n] += static_cast<uint32_t>(x[i] * w[4 * n + i]);
          }
        }
      }
      uint32_t mask = 0xffff;
      if (panel == 0) mask &= tile.first_mask;
      if (panel == tile.panel_count - 1) mask &= tile.last_mask;
      int32_t sums[64];
      std::memcpy(sums + 16 * panel, acc, sizeof(acc));
      for (int n = 0; n < 16; ++n) {
        if (mask >> n & 1) FinishInt8Row(tile, row, sums, 16 * panel + n, 16 * panel + n + 1);
      }
    }
  }
}

void Depthwise(int32_t* acc, const uint8_t* const* x, const int16_t* w, int64_t taps,
               int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    acc[i] = 0;
    for (int64_t t = 0; t < taps; ++t) acc[i] += x[t][i] * w[t * count + i];
  }
}

void SumRows(const uint8_t* const* rows, int64_t row_stride, int64_t taps, int64_t offset,
             int64_t bytes, int64_t count, int32_t* sums) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t sum = 0;
    for (int64_t t = 0; t < taps; ++t) {
      const uint8_t* x = rows[t * row_stride + i] + offset;
      for (int64_t c = 0; c < bytes; ++c) sum += x[c];
    }
    sums[i] = static_cast<int32_t>(sum);
  }
}

void Expand3(const uint8_t* from, uint8_t* to, int64_t pixels, uint8_t flip) {
  for (int64_t i = 0; i < pixels; ++i) {
    for (int64_t c = 0; c < 3; ++c) to[4 * i + c] = from[3 * i + c] ^ flip;
    to[4 * i + 3] = 0;
  }
}

void Pointers(const Int8PointerRun& run) {
  const uint8_t** to = run.to;
  for (int64_t a = 0; a < run.outer_taps; ++a) {
    for (int64_t b = 0; b < run.inner_taps; ++b, to += run.tile) {
      const int64_t* inner = run.inner + b * run.width;
      for (int64_t i = 0; i < run.count; ++i)
        to[i] = (run.outer[a] | inner[i]) < 0 ? run.padding : run.x + (run.outer[a] + inner[i]);
    }
  }
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
    if (tile.leaky) v = v < 0 ? v * tile.leaky_alpha : v;
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

const Int8TileDef kInt8TileScalar = {"scalar", 4,         {0, 4, 4, 4, 4}, false,    false,
                                     RunTile,  Depthwise, SumRows,         Pointers, Expand3};

}  // namespace evoq
