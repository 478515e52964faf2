#include "kernels/move/move.h"
#include "kernels/vec.h"

namespace evoq::EVOQ_ISA {
namespace {

// 16 x 16 elements in registers, by four rounds of interleaving: after round r, pairs 8 >> r rows apart are merged.
template <typename T>
inline void Block16(const T* x, T* y, int64_t x_stride, int64_t y_stride) {
  using V = Vec<T, 16>;
  V a[16], b[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) a[i] = LoadVec<T, 16>(x + i * x_stride);
#pragma GCC unroll 4
  for (int round = 0; round < 4; ++round) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      b[2 * i] = __builtin_shufflevector(a[i], a[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) a[i] = b[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) StoreVec<T, 16>(y + i * y_stride, a[i]);
}

inline void Block4(const uint32_t* x, uint32_t* y, int64_t x_stride, int64_t y_stride) {
  using V = Vec<uint32_t, 4>;
  V a[4], b[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) a[i] = LoadVec<uint32_t, 4>(x + i * x_stride);
#pragma GCC unroll 2
  for (int round = 0; round < 2; ++round) {
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      b[2 * i] = __builtin_shufflevector(a[i], a[i + 2], 0, 4, 1, 5);
      b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + 2], 2, 6, 3, 7);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) a[i] = b[i];
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) StoreVec<uint32_t, 4>(y + i * y_stride, a[i]);
}

// Few rows or columns: a loop whose inner dimension is the short one's partner, unrolled for 3 and 4.
template <typename T, int kColumns>
void Narrow(const T* x, T* y, int64_t rows, int64_t x_stride, int64_t y_stride) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int j = 0; j < kColumns; ++j) y[j * y_stride + i] = x[i * x_stride + j];
  }
}
template <typename T, int kRows>
void Short(const T* x, T* y, int64_t columns, int64_t x_stride, int64_t y_stride) {
  for (int64_t j = 0; j < columns; ++j) {
    for (int i = 0; i < kRows; ++i) y[j * y_stride + i] = x[i * x_stride + j];
  }
}

// Images to channels last: 16 pixels of three planes, by two interleavings for each third of them.
template <typename T>
void Planes3(const T* x, T* y, int64_t columns, int64_t x_stride, int64_t y_stride) {
  int64_t j = 0;
  for (; y_stride == 3 && j + 16 <= columns; j += 16, y += 48) {
    const auto a = LoadVec<T, 16>(x + j), b = LoadVec<T, 16>(x + x_stride + j), c = LoadVec<T, 16>(x + 2 * x_stride + j);
    const auto ab0 = __builtin_shufflevector(a, b, 0, 16, 0, 1, 17, 0, 2, 18, 0, 3, 19, 0, 4, 20, 0, 5);
    const auto ab1 = __builtin_shufflevector(a, b, 21, 0, 6, 22, 0, 7, 23, 0, 8, 24, 0, 9, 25, 0, 10, 26);
    const auto ab2 = __builtin_shufflevector(a, b, 0, 11, 27, 0, 12, 28, 0, 13, 29, 0, 14, 30, 0, 15, 31, 0);
    StoreVec<T, 16>(y, __builtin_shufflevector(ab0, c, 0, 1, 16, 3, 4, 17, 6, 7, 18, 9, 10, 19, 12, 13, 20, 15));
    StoreVec<T, 16>(y + 16, __builtin_shufflevector(ab1, c, 0, 21, 2, 3, 22, 5, 6, 23, 8, 9, 24, 11, 12, 25, 14, 15));
    StoreVec<T, 16>(y + 32, __builtin_shufflevector(ab2, c, 26, 1, 2, 27, 4, 5, 28, 7, 8, 29, 10, 11, 30, 13, 14, 31));
  }
  Short<T, 3>(x + j, y, columns - j, x_stride, y_stride);
}

template <typename T>
void Plain(const T* x, T* y, int64_t rows, int64_t columns, int64_t x_stride, int64_t y_stride) {
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) y[j * y_stride + i] = x[i * x_stride + j];
  }
}

// Tiles of kTile rows by kTile columns through `block`, what is left beside and below through `edge`.
template <typename T, int kTile, typename Block, typename Edge>
void Tiled(const T* x, T* y, int64_t rows, int64_t columns, int64_t x_stride, int64_t y_stride, const Block& block,
           const Edge& edge) {
  if (columns == 3) return Narrow<T, 3>(x, y, rows, x_stride, y_stride);
  if (columns == 4) return Narrow<T, 4>(x, y, rows, x_stride, y_stride);
  if (rows == 3) return Planes3<T>(x, y, columns, x_stride, y_stride);
  if (rows == 4) return Short<T, 4>(x, y, columns, x_stride, y_stride);
  const int64_t whole_rows = rows / kTile * kTile, whole_columns = columns / kTile * kTile;
  // Bands of 64 bytes of y's rows: their lines stay in the cache while x streams by.
  constexpr int64_t kBand = 64 / sizeof(T) > kTile ? 64 / sizeof(T) : kTile;
  for (int64_t i0 = 0; i0 < whole_rows; i0 += kBand) {
    const int64_t i1 = i0 + kBand < whole_rows ? i0 + kBand : whole_rows;
    for (int64_t j = 0; j < whole_columns; j += kTile) {
      for (int64_t i = i0; i < i1; i += kTile) block(x + i * x_stride + j, y + j * y_stride + i);
    }
  }
  edge(x + whole_columns, y + whole_columns * y_stride, whole_rows, columns - whole_columns, x_stride, y_stride);
  edge(x + whole_rows * x_stride, y + whole_rows, rows - whole_rows, columns, x_stride, y_stride);
}

template <typename T>
void TiledPlain(const T* x, T* y, int64_t rows, int64_t columns, int64_t x_stride, int64_t y_stride) {
  Tiled<T, 8>(x, y, rows, columns, x_stride, y_stride, [=](const T* p, T* q) {
    for (int j = 0; j < 8; ++j) {
      for (int i = 0; i < 8; ++i) q[j * y_stride + i] = p[i * x_stride + j];
    }
  }, Plain<T>);
}

void Words4(const uint32_t* x, uint32_t* y, int64_t rows, int64_t columns, int64_t x_stride, int64_t y_stride) {
  Tiled<uint32_t, 4>(x, y, rows, columns, x_stride, y_stride,
                     [=](const uint32_t* p, uint32_t* q) { Block4(p, q, x_stride, y_stride); }, Plain<uint32_t>);
}

void Words(const uint32_t* x, uint32_t* y, int64_t rows, int64_t columns, int64_t x_stride, int64_t y_stride) {
#if defined(__AVX512F__)
  // Planes to pixels: whole lines of 16 planes at once. Those are more streams than the hardware follows, and lines of y arrive
  // late for their stores: both are fetched here.
  const auto block = [=](const uint32_t* p, uint32_t* q) {
    for (int i = 0; i < 16; ++i) __builtin_prefetch(p + i * x_stride + 32);
    for (int i = 16; i < 32; ++i) __builtin_prefetch(q + i * y_stride, 1);
    Block16<uint32_t>(p, q, x_stride, y_stride);
  };
  if (x_stride > y_stride) return Tiled<uint32_t, 16>(x, y, rows, columns, x_stride, y_stride, block, Words4);
#endif
  Words4(x, y, rows, columns, x_stride, y_stride);
}

void Transpose(const void* x, void* y, int64_t rows, int64_t columns, int64_t x_stride, int64_t y_stride, int size) {
  switch (size) {
    case 1:
      return Tiled<uint8_t, 16>(static_cast<const uint8_t*>(x), static_cast<uint8_t*>(y), rows, columns, x_stride, y_stride,
                                [=](const uint8_t* p, uint8_t* q) { Block16<uint8_t>(p, q, x_stride, y_stride); }, Plain<uint8_t>);
    case 2:
      return TiledPlain(static_cast<const uint16_t*>(x), static_cast<uint16_t*>(y), rows, columns, x_stride, y_stride);
    case 4:
      return Words(static_cast<const uint32_t*>(x), static_cast<uint32_t*>(y), rows, columns, x_stride, y_stride);
    default:
      return TiledPlain(static_cast<const uint64_t*>(x), static_cast<uint64_t*>(y), rows, columns, x_stride, y_stride);
  }
}

}  // namespace

extern const MoveTable kMoveTable = {Transpose};

}  // namespace evoq::EVOQ_ISA
