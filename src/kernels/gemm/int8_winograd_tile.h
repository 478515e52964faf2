// The parts of Winograd's convolution F(2 x 2, 3 x 3) in integers: plain data only, because it is
// included by files that are compiled for one instruction set.
//
//   4 y = A^T [ sum_c ((2 G) g_c (2 G)^T) * (B^T d_c B) ] A      * element by element; y 2 x 2
//   sums, g 3 x 3, d 4 x 4 inputs B^T = 1  0 -1  0     2 G = 2  0  0     A^T = 1  1  1  0
//         0  1  1  0           1  1  1           0  1 -1 -1
//         0 -1  1  0           1 -1  1
//         0  1  0 -1           0  0  2
// Twice G has no fractions, so that everything is exact: |B^T d B| <= 4 * 255 and |(2 G) g (2 G)^T|
// <= 9 * 128 are int16, whose products vpmaddwd adds; 4 y is an int32 for at most
// kInt8WinogradChannels channels.
#pragma once

#include <cstdint>

#include "kernels/gemm/gemm_int8_tile.h"

namespace evoq {

inline constexpr int64_t kInt8WinogradChannels =
    1824;  // 4 * 9 * 255 * 128 times as much is less than 2^31
inline constexpr int kInt8WinogradPositions = 16;
inline constexpr int kInt8WinogradRun = 16;

// Part of the output: the columns of one panel of up to kInt8WinogradRun neighbouring tiles of a
// line of tiles.
struct Int8WinogradOutput {
  const int32_t* product;   // [position][tile][column]
  int64_t position_stride;  // in elements
  int64_t tile_stride;
  int tiles;
  int lines, pixels;  // that exist: at most 2 and 2 * tiles
  // For the first line of pixels: y, residual and the columns' constants. One panel; rows are
  // pixels.
  Int8Tile tile;
  int64_t y_line, residual_line;  // distances of lines, bytes
};

struct Int8WinogradDef {
  const char* name;
  // v[position * position_stride + c] = (B^T d_c B)[position] for c < channels, a multiple of 16.
  // pixels: 4 x 4 addresses of `channels` bytes, int8 when is_signed; zero is what their 0 is
  // stored as.
  void (*input)(const uint8_t* const* pixels, int64_t channels, bool is_signed, int32_t zero,
                int64_t position_stride, int16_t* v);
  // out[i * out_stride + n] = sum_c v[i * v_stride + c] * u[c / 2][n][c % 2], i < rows, n < 16.
  void (*product)(const int16_t* v, int64_t v_stride, int64_t rows, int64_t channels,
                  const int16_t* u, int32_t* out, int64_t out_stride);
  void (*output)(const Int8WinogradOutput& output);
  // u[position * position_stride + (c / 2 * 16 + n) * 2 + c % 2] = ((2 G) g (2 G)^T)[position] for
  // four channels c of 16 columns n, whose taps are 64 bytes of k4n16 each, tap_stride apart.
  void (*weights)(const int8_t* g, int64_t tap_stride, int64_t position_stride, int16_t* u);
};

#if defined(__x86_64__)
extern const Int8WinogradDef kInt8WinogradAvx2;
#endif

}  // namespace evoq
