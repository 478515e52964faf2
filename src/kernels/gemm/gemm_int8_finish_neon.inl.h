// How NEON tiles of integer products end: from int32 sums of one panel to the stored output, the
// formulas of gemm_int8_tile.h. Included inside instruction-set files only.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/gemm/gemm_int8_tile.h"

namespace evoq {
namespace {

// Where row `row` of a panel of the tile begins.
struct RowEnd {
  const Int8Tile& tile;
  int row;
  int64_t column;

  int32x4_t Total(int v, int32x4_t sum) const {
    const int64_t n = column + 4 * v;
    sum = vaddq_s32(sum, vld1q_s32(tile.bias + n));
    if (tile.w_zero == nullptr) return sum;
    return vmlsq_n_s32(sum, vld1q_s32(tile.w_zero + n), tile.row_sums[row]);
  }

  float32x4_t Residual(int v, float32x4_t value) const {
    const uint8_t* r = tile.residual + row * tile.residual_stride;
    if (tile.residual_type == Int8Residual::kFloat32) {
      float32x4_t added;
      __builtin_memcpy(&added, r + 4 * (column + 4 * v), sizeof(added));
      return vaddq_f32(value, added);
    }
    uint32_t word;
    __builtin_memcpy(&word, r + column + 4 * v, sizeof(word));
    const uint8x8_t bytes = vreinterpret_u8_u32(vdup_n_u32(word));
    const int32x4_t q = tile.residual_type == Int8Residual::kUint8
                            ? vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes))))
                            : vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(bytes))));
    const float32x4_t real = vcvtq_f32_s32(vsubq_s32(q, vdupq_n_s32(tile.residual_zero)));
    return vaddq_f32(value, vmulq_n_f32(real, tile.residual_multiplier));
  }

  float32x4_t Real(int v, int32x4_t total) const {
    const int64_t n = column + 4 * v;
    float32x4_t value = vmulq_f32(vcvtq_f32_s32(total), vld1q_f32(tile.multiplier + n));
    if (tile.offset != nullptr) value = vaddq_f32(value, vld1q_f32(tile.offset + n));
    if (tile.residual_type != Int8Residual::kNone) value = Residual(v, value);
    if (tile.slopes != nullptr)
      value = vbslq_f32(vcltzq_f32(value), vmulq_f32(value, vld1q_f32(tile.slopes + n)), value);
    if (!tile.clamp) return value;
    const float32x4_t low = vdupq_n_f32(tile.low), high = vdupq_n_f32(tile.high);
    value = vbslq_f32(vcgtq_f32(low, value), low, value);
    return vbslq_f32(vcltq_f32(high, value), high, value);
  }

  void Store(const int32x4_t (&sums)[4]) const {
    uint8_t* const y = tile.y + row * tile.y_stride;
    uint16x4_t halves[4];
    for (int v = 0; v < 4; ++v) {
      const int32x4_t total = Total(v, sums[v]);
      if (tile.output == Int8Output::kInt32) {
        __builtin_memcpy(y + 4 * (column + 4 * v), &total, sizeof(total));
        continue;
      }
      const float32x4_t value = Real(v, total);
      if (tile.output == Int8Output::kFloat32) {
        __builtin_memcpy(y + 4 * (column + 4 * v), &value, sizeof(value));
        continue;
      }
      const int32x4_t q = vaddq_s32(vcvtnq_s32_f32(value), vdupq_n_s32(tile.y_zero));
      halves[v] = vmovn_u32(vreinterpretq_u32_s32(q));
    }
    if (tile.output != Int8Output::kInt8) return;
    vst1q_u8(y + column, vcombine_u8(vmovn_u16(vcombine_u16(halves[0], halves[1])),
                                     vmovn_u16(vcombine_u16(halves[2], halves[3]))));
  }
};

// Stores row `row` of panel `panel`, whose sums these are.
[[gnu::noinline]] inline void FinishRow(const Int8Tile& tile, int panel, int row,
                                        const int32x4_t (&sums)[4]) {
  uint32_t mask = 0xffff;
  if (panel == 0) mask &= tile.first_mask;
  if (panel == tile.panel_count - 1) mask &= tile.last_mask;
  if (mask == 0xffff) return RowEnd{tile, row, 16 * panel}.Store(sums);
  if (mask == 0) return;
  int32_t acc[4 * 16];  // the last panel's columns of a row are its own
  for (int v = 0; v < 4; ++v) vst1q_s32(acc + 16 * panel + 4 * v, sums[v]);
  FinishInt8Row(tile, row, acc, 16 * panel + __builtin_ctz(mask),
                16 * panel + 32 - __builtin_clz(mask));
}

}  // namespace
}  // namespace evoq
