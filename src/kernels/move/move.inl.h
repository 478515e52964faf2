#include "kernels/move/move.h"
#include "kernels/vec.h"

#ifdef __AVX512BW__
#include <immintrin.h>
#endif

namespace evoq::EVOQ_ISA {
namespace {

template <typename T>
struct InterleaveVec {
  static Vec<T, 16> Low(Vec<T, 16> a, Vec<T, 16> b) {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  }
  static Vec<T, 16> High(Vec<T, 16> a, Vec<T, 16> b) {
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                   31);
  }
};

// 16 rows become 16 columns by four rounds of interleaving: after round r, pairs 8 >> r rows apart
// are merged.
template <typename Interleave, typename V>
inline void Turn16(V (&a)[16]) {
  V b[16];
#pragma GCC unroll 4
  for (int round = 0; round < 4; ++round) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      b[2 * i] = Interleave::Low(a[i], a[i + 8]);
      b[2 * i + 1] = Interleave::High(a[i], a[i + 8]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) a[i] = b[i];
  }
}

// 16 x 16 elements in registers.
template <typename T>
inline void Block16(const T* x, T* y, int64_t x_stride, int64_t y_stride) {
  Vec<T, 16> a[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) a[i] = LoadVec<T, 16>(x + i * x_stride);
  Turn16<InterleaveVec<T>>(a);
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

// Few rows or columns: a loop whose inner dimension is the short one's partner, unrolled for 3
// and 4.
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
    const auto a = LoadVec<T, 16>(x + j), b = LoadVec<T, 16>(x + x_stride + j),
               c = LoadVec<T, 16>(x + 2 * x_stride + j);
    const auto ab0 =
        __builtin_shufflevector(a, b, 0, 16, 0, 1, 17, 0, 2, 18, 0, 3, 19, 0, 4, 20, 0, 5);
    const auto ab1 =
        __builtin_shufflevector(a, b, 21, 0, 6, 22, 0, 7, 23, 0, 8, 24, 0, 9, 25, 0, 10, 26);
    const auto ab2 =
        __builtin_shufflevector(a, b, 0, 11, 27, 0, 12, 28, 0, 13, 29, 0, 14, 30, 0, 15, 31, 0);
    StoreVec<T, 16>(y, __builtin_shufflevector(ab0, c, 0, 1, 16, 3, 4, 17, 6, 7, 18, 9, 10, 19, 12,
                                               13, 20, 15));
    StoreVec<T, 16>(y + 16, __builtin_shufflevector(ab1, c, 0, 21, 2, 3, 22, 5, 6, 23, 8, 9, 24, 11,
                                                    12, 25, 14, 15));
    StoreVec<T, 16>(y + 32, __builtin_shufflevector(ab2, c, 26, 1, 2, 27, 4, 5, 28, 7, 8, 29, 10,
                                                    11, 30, 13, 14, 31));
  }
  Short<T, 3>(x + j, y, columns - j, x_stride, y_stride);
}

template <typename T>
void Plain(const T* x, T* y, int64_t rows, int64_t columns, int64_t x_stride, int64_t y_stride) {
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) y[j * y_stride + i] = x[i * x_stride + j];
  }
}

// Tiles of kTile rows by kTile columns through `block`, what is left beside and below through
// `edge`.
template <typename T, int kTile, typename Block, typename Edge>
void Tiled(const T* x, T* y, int64_t rows, int64_t columns, int64_t x_stride, int64_t y_stride,
           const Block& block, const Edge& edge) {
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
  edge(x + whole_columns, y + whole_columns * y_stride, whole_rows, columns - whole_columns,
       x_stride, y_stride);
  edge(x + whole_rows * x_stride, y + whole_rows, rows - whole_rows, columns, x_stride, y_stride);
}

template <typename T>
[[gnu::noinline]] void TiledPlain(const T* x, T* y, int64_t rows, int64_t columns, int64_t x_stride,
                                  int64_t y_stride) {
  Tiled<T, 8>(
      x, y, rows, columns, x_stride, y_stride,
      [=](const T* p, T* q) {
        for (int j = 0; j < 8; ++j) {
          for (int i = 0; i < 8; ++i) q[j * y_stride + i] = p[i * x_stride + j];
        }
      },
      Plain<T>);
}

void Words4(const uint32_t* x, uint32_t* y, int64_t rows, int64_t columns, int64_t x_stride,
            int64_t y_stride) {
  Tiled<uint32_t, 4>(
      x, y, rows, columns, x_stride, y_stride,
      [=](const uint32_t* p, uint32_t* q) { Block4(p, q, x_stride, y_stride); }, Plain<uint32_t>);
}

#if defined(__AVX2__)
template <typename T>
[[gnu::noinline]] void BlockOf16(const T* x, T* y, int64_t x_stride, int64_t y_stride) {
  Block16<T>(x, y, x_stride, y_stride);
}

// Pixels to planes, at least 16 of each: whole lines of 16 planes at once, some of a plane before
// the next planes. The last block beside and below overlaps the one before it.
template <typename T>
void BlocksOf16(const T* x, T* y, int64_t rows, int64_t columns, int64_t x_stride,
                int64_t y_stride) {
  constexpr int64_t kBand = 64;
  for (int64_t i0 = 0; i0 < rows; i0 += kBand) {
    const int64_t i1 = i0 + kBand < rows ? i0 + kBand : rows;
    for (int64_t j0 = 0; j0 < columns; j0 += 16) {
      const int64_t j = j0 + 16 < columns ? j0 : columns - 16;
      for (int64_t i2 = i0; i2 < i1; i2 += 16) {
        const int64_t i = i2 + 16 < rows ? i2 : rows - 16;
        BlockOf16(x + i * x_stride + j, y + j * y_stride + i, x_stride, y_stride);
      }
    }
  }
}
#endif

void Words(const uint32_t* x, uint32_t* y, int64_t rows, int64_t columns, int64_t x_stride,
           int64_t y_stride) {
#if defined(__AVX512F__)
  // Planes to pixels: whole lines of 16 planes at once. Those are more streams than the hardware
  // follows, and lines of y arrive late for their stores: both are fetched here.
  const auto block = [=](const uint32_t* p, uint32_t* q) {
    for (int i = 0; i < 16; ++i) __builtin_prefetch(p + i * x_stride + 32);
    for (int i = 16; i < 32; ++i) __builtin_prefetch(q + i * y_stride, 1);
    BlockOf16(p, q, x_stride, y_stride);
  };
  if (x_stride > y_stride)
    return Tiled<uint32_t, 16>(x, y, rows, columns, x_stride, y_stride, block, Words4);
  if (rows >= 16 && columns >= 16) return BlocksOf16(x, y, rows, columns, x_stride, y_stride);
#endif
  Words4(x, y, rows, columns, x_stride, y_stride);
}

#if defined(__AVX512BW__)
struct InterleaveLanes {
  static __m512i Low(__m512i a, __m512i b) { return _mm512_unpacklo_epi8(a, b); }
  static __m512i High(__m512i a, __m512i b) { return _mm512_unpackhi_epi8(a, b); }
};

// 16 rows of 64 bytes: each 128-bit lane is a block of 16 x 16.
inline void Block64(const uint8_t* x, uint8_t* y, int64_t x_stride, int64_t y_stride) {
  __m512i a[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) a[i] = _mm512_loadu_si512(x + i * x_stride);
  Turn16<InterleaveLanes>(a);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    const auto store = [&](int lane, __m128i v) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(y + (16 * lane + i) * y_stride), v);
    };
    store(0, _mm512_castsi512_si128(a[i]));
    store(1, _mm512_extracti32x4_epi32(a[i], 1));
    store(2, _mm512_extracti32x4_epi32(a[i], 2));
    store(3, _mm512_extracti32x4_epi32(a[i], 3));
  }
}
constexpr int kBlockColumns = 64;
#else
inline void Block64(const uint8_t*, uint8_t*, int64_t, int64_t) {}
constexpr int kBlockColumns = 16;
#endif

// At least 16 rows and columns: the last block beside and below overlaps the one before it.
void ByteBlocks(const uint8_t* x, uint8_t* y, int64_t rows, int64_t columns, int64_t x_stride,
                int64_t y_stride) {
  constexpr int64_t kBand = 64;  // a line of y's rows stays in the cache while x streams by
  const int64_t step = columns >= kBlockColumns ? kBlockColumns : 16;
  for (int64_t i0 = 0; i0 < rows; i0 += kBand) {
    const int64_t i1 = i0 + kBand < rows ? i0 + kBand : rows;
    for (int64_t j0 = 0; j0 < columns; j0 += step) {
      const int64_t j = j0 + step < columns ? j0 : columns - step;
      for (int64_t i = i0; i < i1; i += 16) {
        const int64_t row = i + 16 < rows ? i : rows - 16;
        const uint8_t* from = x + row * x_stride + j;
        uint8_t* to = y + j * y_stride + row;
        step == 64 ? Block64(from, to, x_stride, y_stride)
                   : Block16<uint8_t>(from, to, x_stride, y_stride);
      }
    }
  }
}

// Fewer than 16 planes to pixels that lie behind each other: 16 bytes are stored for each pixel,
// and the next pixel's are stored over what was too many. The last pixels go by themselves.
void FewPlanes(const uint8_t* x, uint8_t* y, int64_t rows, int64_t columns, int64_t x_stride) {
  int64_t j = 0;
  for (; (j + 15) * rows + 16 <= columns * rows; j += 16) {
    Vec<uint8_t, 16> a[16] = {};
    for (int64_t i = 0; i < rows; ++i) a[i] = LoadVec<uint8_t, 16>(x + i * x_stride + j);
    Turn16<InterleaveVec<uint8_t>>(a);
#pragma GCC unroll 16
    for (int k = 0; k < 16; ++k) StoreVec<uint8_t, 16>(y + (j + k) * rows, a[k]);
  }
  Plain(x + j, y + j * rows, rows, columns - j, x_stride, rows);
}

// Pixels of fewer than 16 bytes behind each other to planes.
void FewColumns(const uint8_t* x, uint8_t* y, int64_t rows, int64_t columns, int64_t y_stride) {
  int64_t i = 0;
  for (; (i + 15) * columns + 16 <= rows * columns; i += 16) {
    Vec<uint8_t, 16> a[16];
#pragma GCC unroll 16
    for (int k = 0; k < 16; ++k) a[k] = LoadVec<uint8_t, 16>(x + (i + k) * columns);
    Turn16<InterleaveVec<uint8_t>>(a);
    for (int64_t k = 0; k < columns; ++k) StoreVec<uint8_t, 16>(y + k * y_stride + i, a[k]);
  }
  Plain(x + i * columns, y + i, rows - i, columns, columns, y_stride);
}

void Bytes(const uint8_t* x, uint8_t* y, int64_t rows, int64_t columns, int64_t x_stride,
           int64_t y_stride) {
  if (rows == 3) return Planes3(x, y, columns, x_stride, y_stride);
  if (rows >= 16 && columns >= 16) return ByteBlocks(x, y, rows, columns, x_stride, y_stride);
  if (rows < 16 && columns >= 16 && y_stride == rows)
    return FewPlanes(x, y, rows, columns, x_stride);
  if (columns < 16 && rows >= 16 && x_stride == columns)
    return FewColumns(x, y, rows, columns, y_stride);
  TiledPlain(x, y, rows, columns, x_stride, y_stride);
}

void Halves(const uint16_t* x, uint16_t* y, int64_t rows, int64_t columns, int64_t x_stride,
            int64_t y_stride) {
#if defined(__AVX2__)
  if (rows >= 16 && columns >= 16) return BlocksOf16(x, y, rows, columns, x_stride, y_stride);
#endif
  TiledPlain(x, y, rows, columns, x_stride, y_stride);
}

using Bytes16 = Vec<uint8_t, 16>;

// Signed bytes become unsigned ones of another zero point as they are read.
struct Dequantizer {
  float scale;
  int32_t zero;
  uint8_t flipped;  // 0x80 of signed bytes, else 0

  float Real(uint8_t q) const { return static_cast<float>((q ^ flipped) - zero) * scale; }
  Bytes16 Load(const uint8_t* from) const { return LoadVec<uint8_t, 16>(from) ^ flipped; }
  void Store(float* to, Bytes16 q) const {
    StoreVec<float, 16>(to, Convert<float, 16>(Convert<int32_t, 16>(q) - zero) * scale);
  }
};

// 16 rows, some of 16 columns.
inline void RealBlock16(const Dequantizer& by, const uint8_t* x, float* y, int64_t x_stride,
                        int64_t y_stride, int64_t columns) {
  Bytes16 a[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) a[i] = by.Load(x + i * x_stride);
  Turn16<InterleaveVec<uint8_t>>(a);
  for (int64_t i = 0; i < columns; ++i) by.Store(y + i * y_stride, a[i]);
}

#if defined(__AVX512BW__)
// The lines of y that are written next but one are fetched.
inline void RealBlock64(const Dequantizer& by, const uint8_t* x, float* y, int64_t x_stride,
                        int64_t y_stride) {
  const __m512i flipped = _mm512_set1_epi8(static_cast<char>(by.flipped));
  __m512i a[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i)
    a[i] = _mm512_xor_si512(_mm512_loadu_si512(x + i * x_stride), flipped);
  Turn16<InterleaveLanes>(a);
  const auto store = [&](int column, __m128i q) {
    float* to = y + column * y_stride;
    __builtin_prefetch(to + 32, 1);
    by.Store(to, __builtin_bit_cast(Bytes16, q));
  };
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    store(i, _mm512_castsi512_si128(a[i]));
    store(16 + i, _mm512_extracti32x4_epi32(a[i], 1));
    store(32 + i, _mm512_extracti32x4_epi32(a[i], 2));
    store(48 + i, _mm512_extracti32x4_epi32(a[i], 3));
  }
}
#else
inline void RealBlock64(const Dequantizer&, const uint8_t*, float*, int64_t, int64_t) {}
#endif

void Dequantize(const ByteScale& scale, const uint8_t* x, float* y, int64_t rows, int64_t columns,
                int64_t x_stride, int64_t y_stride) {
  const Dequantizer by = {scale.scale, scale.zero + (scale.is_signed ? 128 : 0),
                          static_cast<uint8_t>(scale.is_signed ? 0x80 : 0)};
  int64_t done = 0;
  if (rows >= 16 && columns >= 16) {  // the last blocks overlap those before
    const int64_t step = columns >= kBlockColumns ? kBlockColumns : 16;
    for (int64_t j0 = 0; j0 < columns; j0 += step) {
      const int64_t j = j0 + step < columns ? j0 : columns - step;
      for (int64_t i0 = 0; i0 < rows; i0 += 16) {
        const int64_t i = i0 + 16 < rows ? i0 : rows - 16;
        const uint8_t* from = x + i * x_stride + j;
        float* to = y + j * y_stride + i;
        step == 64 ? RealBlock64(by, from, to, x_stride, y_stride)
                   : RealBlock16(by, from, to, x_stride, y_stride, 16);
      }
    }
    return;
  }
  if (columns < 16 && x_stride == columns) {  // pixels of few channels behind each other
    for (; (done + 15) * columns + 16 <= rows * columns; done += 16) {
      RealBlock16(by, x + done * columns, y + done, columns, y_stride, columns);
    }
  }
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = done; i < rows; ++i) y[j * y_stride + i] = by.Real(x[i * x_stride + j]);
  }
}

void Transpose(const void* x, void* y, int64_t rows, int64_t columns, int64_t x_stride,
               int64_t y_stride, int size) {
  switch (size) {
    case 1:
      return Bytes(static_cast<const uint8_t*>(x), static_cast<uint8_t*>(y), rows, columns,
                   x_stride, y_stride);
    case 2:
      return Halves(static_cast<const uint16_t*>(x), static_cast<uint16_t*>(y), rows, columns,
                    x_stride, y_stride);
    case 4:
      return Words(static_cast<const uint32_t*>(x), static_cast<uint32_t*>(y), rows, columns,
                   x_stride, y_stride);
    default:
      return TiledPlain(static_cast<const uint64_t*>(x), static_cast<uint64_t*>(y), rows, columns,
                        x_stride, y_stride);
  }
}

#ifdef EVOQ_OWN_PICK
// PickRows of bytes, or false where it takes other code.
bool PickBytes(const uint8_t* x, uint8_t* y, int64_t rows, int64_t columns, int64_t x_columns,
               const int32_t* from);
#endif

template <typename T>
void PickRows(const T* x, T* y, int64_t rows, int64_t columns, int64_t x_columns,
              const int32_t* from) {
  for (int64_t i = 0; i < rows; ++i, x += x_columns, y += columns) {
    for (int64_t j = 0; j < columns; ++j) y[j] = x[from[j]];
  }
}

void Pick(const void* x, void* y, int64_t rows, int64_t columns, int64_t x_columns,
          const int32_t* from, int size) {
  const auto as = [&](auto element) {
    using T = decltype(element);
    PickRows(static_cast<const T*>(x), static_cast<T*>(y), rows, columns, x_columns, from);
  };
#ifdef EVOQ_OWN_PICK
  if (size == 1 && PickBytes(static_cast<const uint8_t*>(x), static_cast<uint8_t*>(y), rows,
                             columns, x_columns, from))
    return;
#endif
  switch (size) {
    case 1: return as(uint8_t{});
    case 2: return as(uint16_t{});
    case 4: return as(uint32_t{});
    default: return as(uint64_t{});
  }
}

}  // namespace

extern const MoveTable kMoveTable = {
    .transpose = Transpose,
    .dequantize = Dequantize,
    .pick = Pick,
};

}  // namespace evoq::EVOQ_ISA
