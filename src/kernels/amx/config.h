// How the tiles of AMX are configured, and what kernels over them are written against.
//
// A kernel takes a `Unit` with these static functions, in which tiles are numbers known when it is
// compiled: the hardware (hardware.h) or plain C++ (software.h).
//
//   void Configure(const AmxConfig& config)    all tiles become zero
//   void Release()                             no tile may be used until the next Configure
//   void Load<tile>(const void* from, int64_t stride)
//                   row r of the tile is what lies at from + r * stride, as many bytes as it has
//   void LoadPassing<tile>(const void* from, int64_t stride)
//                   the same, of lines that may leave the nearest cache to others
//   void Store<tile>(void* to, int64_t stride)
//   void Zero<tile>()
//   void DotU8S8<c, a, b>()    c[m][n] += sum over k, i < 4: a[m][4 k + i] * b[k][4 n + i]
//                              int32 modulo 2^32, of unsigned a and signed b
//   void DotS8S8<c, a, b>()    the same of signed a
//   void DotBf16<c, a, b>()    float32 sums of pairs of bfloat16 (AmxDotBf16)
//
// Memory that a kernel has just written is read by loads, and stored tiles by what follows. A
// thread's configuration and tiles are its own.
#pragma once

#include <cstdint>

namespace evoq {

inline constexpr int kAmxTiles = 8, kAmxRows = 16, kAmxRowBytes = 64;

// What LDTILECFG reads (Intel's Software Developer's Manual, volume 2).
struct alignas(64) AmxConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};  // by tile; of those behind the eighth, 0
  uint8_t rows[16] = {};
};
static_assert(sizeof(AmxConfig) == 64);

}  // namespace evoq
