// int8 depthwise rows with VNNI: four vertical taps of 16 channels make one vector of dot products,
//   lane c = x[row 0][c] | x[row 1][c] << 8 | x[row 2][c] << 16 | x[row 3][c] << 24.
// It depends only on the column, so in a tile of outputs it is built once per input column and used for every output
// whose window holds that column.
#define EVOQ_ISA avx512
#include "kernels/dwconv/dwconv_f32.inl.h"
#include "kernels/dwconv/dwconv_int8.inl.h"

namespace evoq::avx512 {
namespace {

using Bytes = const uint8_t*;

template <bool kTail>
inline __m512i Widen(Bytes p, __mmask16 mask) {
  if (kTail) return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, p));
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// `rows` of the four taps are present; the others have zero weights.
template <int kRows, bool kTail>
inline __m512i Interleave(const Bytes* pixel, int64_t c, __mmask16 mask) {
  __m512i v = Widen<kTail>(pixel[0] + c, mask);
  if (kRows > 1) v = _mm512_or_si512(v, _mm512_slli_epi32(Widen<kTail>(pixel[1] + c, mask), 8));
  __m512i high = _mm512_setzero_si512();
  if (kRows > 2) high = _mm512_slli_epi32(Widen<kTail>(pixel[2] + c, mask), 16);
  if (kRows > 3) high = _mm512_or_si512(high, _mm512_slli_epi32(Widen<kTail>(pixel[3] + c, mask), 24));
  return kRows > 2 ? _mm512_or_si512(v, high) : v;
}

struct Epilogue {
  explicit Epilogue(const DwInt8Args& a)
      : args(a), low(_mm512_set1_ps(a.bounds.low)), high(_mm512_set1_ps(a.bounds.high)), zero(_mm512_set1_epi32(a.bounds.zero)) {}
  const DwInt8Args& args;
  __m512 low, high;
  __m512i zero;

  // kPlain: uint8 output, no residual, not leaky.
  template <bool kPlain>
  inline void Store(__m512i acc, __m512 multiplier, int64_t at, __mmask16 mask, const void* residual, void* y) const {
    __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(acc), multiplier);
    if (!kPlain && args.has_residual) {
      if (args.float_output) {
        v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, static_cast<const float*>(residual) + at));
      } else {
        const __m512i r = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, static_cast<Bytes>(residual) + at));
        const __m512 centred = _mm512_cvtepi32_ps(_mm512_sub_epi32(r, _mm512_set1_epi32(args.residual_zero)));
        v = _mm512_add_ps(v, _mm512_mul_ps(centred, _mm512_set1_ps(args.residual_multiplier)));
      }
    }
    if (!kPlain && args.bounds.leaky) {
      const __mmask16 negative = _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ);
      v = _mm512_mask_mul_ps(v, negative, v, _mm512_set1_ps(args.bounds.slope));
    }
    v = _mm512_min_ps(_mm512_max_ps(v, low), high);
    if (!kPlain && args.float_output) {
      _mm512_mask_storeu_ps(static_cast<float*>(y) + at, mask, v);
      return;
    }
    const __m128i q = _mm512_cvtepi32_epi8(_mm512_add_epi32(_mm512_cvtps_epi32(v), zero));
    _mm_mask_storeu_epi8(static_cast<uint8_t*>(y) + at, mask, q);
  }
};

template <int KH, int KW, int S>
struct BytePixels {
  static constexpr int kColumns = (kTile - 1) * S + KW;
  Bytes at[kColumns][KH];
};

template <int KH, int KW, int S, bool kPlain, bool kTail>
inline void Int8Tile(const Epilogue& epilogue, const BytePixels<KH, KW, S>& pixels, int64_t at, int count, int64_t block,
                     __mmask16 mask, const void* residual, void* y) {
  constexpr int kQuads = (KH + 3) / 4;
  const DwInt8Args& args = epilogue.args;
  const int64_t c = block * kDwBlock;
  const int8_t* weights = args.quads + block * (KW * kQuads * 64);
  __m512i acc[kTile];
  for (int t = 0; t < kTile; ++t) acc[t] = _mm512_loadu_si512(args.bias + c);
  for (int part = 0; part < args.parts; ++part, weights += args.shape.blocks() * (KW * kQuads * 64)) {
#pragma GCC unroll 32
    for (int column = 0; column < BytePixels<KH, KW, S>::kColumns; ++column) {
#pragma GCC unroll 2
      for (int q = 0; q < kQuads; ++q) {
        constexpr int kLast = KH - (kQuads - 1) * 4;
        const Bytes* pixel = pixels.at[column] + q * 4;
        const __m512i x = q + 1 < kQuads ? Interleave<4, kTail>(pixel, c, mask) : Interleave<kLast, kTail>(pixel, c, mask);
#pragma GCC unroll 8
        for (int kx = 0; kx < KW; ++kx) {
          const int t = (column - kx) / S;
          if (column < kx || (column - kx) % S != 0 || t >= kTile) continue;
          acc[t] = _mm512_dpbusd_epi32(acc[t], x, _mm512_loadu_si512(weights + (kx * kQuads + q) * 64));
        }
      }
    }
  }
  const __m512 multiplier = _mm512_loadu_ps(args.multiplier + c);
#pragma GCC unroll 8
  for (int t = 0; t < kTile; ++t) {
    if (t >= count) break;
    epilogue.Store<kPlain>(acc[t], multiplier, at + t * args.shape.channels + c, mask, residual, y);
  }
}

template <int KH, int KW, int S, bool kPlain>
void Int8Row(const Epilogue& epilogue, const Bytes* rows, int64_t out_row, const void* residual, void* y) {
  const DwInt8Args& args = epilogue.args;
  const DwShape& shape = args.shape;
  const int64_t channels = shape.channels, whole = channels / kDwBlock;
  const __mmask16 tail = static_cast<__mmask16>((1u << (channels % kDwBlock)) - 1);
  using P = BytePixels<KH, KW, S>;
  for (int64_t ox = 0; ox < shape.w.out; ox += kTile) {
    P pixels;
    const int64_t left = ox * S - shape.w.pad;
    for (int column = 0; column < P::kColumns; ++column) {
      const int64_t ix = left + column;
      const bool inside = ix >= 0 && ix < shape.w.in;
      for (int ky = 0; ky < KH; ++ky) {
        pixels.at[column][ky] = inside && rows[ky] != nullptr ? rows[ky] + ix * channels : args.padding;
      }
    }
    const int count = static_cast<int>(shape.w.out - ox < kTile ? shape.w.out - ox : kTile);
    const int64_t at = (out_row * shape.w.out + ox) * channels;
    for (int64_t block = 0; block < whole; ++block) {
      Int8Tile<KH, KW, S, kPlain, false>(epilogue, pixels, at, count, block, 0xffff, residual, y);
    }
    if (tail != 0) Int8Tile<KH, KW, S, kPlain, true>(epilogue, pixels, at, count, whole, tail, residual, y);
  }
}

// Any kernel, stride and dilation: one output pixel of 16 channels at a time.
void Int8AnyRow(const Epilogue& epilogue, const uint8_t* x_image, int64_t oy, int64_t out_row, const void* residual, void* y) {
  const DwInt8Args& args = epilogue.args;
  const DwShape& shape = args.shape;
  const int64_t channels = shape.channels, quads = shape.quads(), top = oy * shape.h.stride - shape.h.pad;
  for (int64_t ox = 0; ox < shape.w.out; ++ox) {
    const int64_t left = ox * shape.w.stride - shape.w.pad;
    for (int64_t block = 0; block < shape.blocks(); ++block) {
      const int64_t c = block * kDwBlock, n = channels - c < kDwBlock ? channels - c : kDwBlock;
      const __mmask16 mask = static_cast<__mmask16>((1u << n) - 1);
      const int64_t part_bytes = shape.blocks() * shape.w.kernel * quads * 64;
      const int8_t* weights = args.quads + block * shape.w.kernel * quads * 64;
      __m512i acc = _mm512_loadu_si512(args.bias + c);
      for (int64_t kx = 0; kx < shape.w.kernel; ++kx) {
        const int64_t ix = left + kx * shape.w.dilation;
        for (int64_t q = 0; q < quads; ++q) {
          Bytes pixel[4];
          for (int i = 0; i < 4; ++i) {
            const int64_t iy = top + (q * 4 + i) * shape.h.dilation;
            const bool inside = iy >= 0 && iy < shape.h.in && ix >= 0 && ix < shape.w.in && q * 4 + i < shape.h.kernel;
            pixel[i] = inside ? x_image + (iy * shape.w.in + ix) * channels : args.padding;
          }
          const __m512i x = Interleave<4, true>(pixel, c, mask);
          for (int part = 0; part < args.parts; ++part) {
            acc = _mm512_dpbusd_epi32(acc, x, _mm512_loadu_si512(weights + part * part_bytes + (kx * quads + q) * 64));
          }
        }
      }
      const int64_t at = (out_row * shape.w.out + ox) * channels + c;
      epilogue.Store<false>(acc, _mm512_loadu_ps(args.multiplier + c), at, mask, residual, y);
    }
  }
}

using Int8RowFn = void (*)(const Epilogue&, const Bytes*, int64_t, const void*, void*);

template <int K, int S>
Int8RowFn FixedInt8Row(bool plain) {
  return plain ? Int8Row<K, K, S, true> : Int8Row<K, K, S, false>;
}
Int8RowFn FixedInt8Row(const DwInt8Args& args) {
  const DwShape& shape = args.shape;
  if (shape.h.kernel != shape.w.kernel || shape.h.dilation != 1 || shape.w.dilation != 1) return nullptr;
  const bool plain = !args.has_residual && !args.float_output && !args.bounds.leaky;
  const int64_t k = shape.w.kernel, s = shape.w.stride;
  if (k == 3 && s == 1) return FixedInt8Row<3, 1>(plain);
  if (k == 3 && s == 2) return FixedInt8Row<3, 2>(plain);
  if (k == 5 && s == 1) return FixedInt8Row<5, 1>(plain);
  if (k == 5 && s == 2) return FixedInt8Row<5, 2>(plain);
  if (k == 7 && s == 1) return FixedInt8Row<7, 1>(plain);
  if (k == 7 && s == 2) return FixedInt8Row<7, 2>(plain);
  return nullptr;
}

void Int8Rows(const DwInt8Args& args, const uint8_t* x, const void* residual, void* y, int64_t begin, int64_t end) {
  if (args.quads == nullptr) return Int8RowsPlain(args, x, residual, y, begin, end);
  const DwShape& shape = args.shape;
  const int64_t in_row = shape.w.in * shape.channels;
  const Int8RowFn fixed = FixedInt8Row(args);
  const Epilogue epilogue(args);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t oy = row % shape.h.out, top = oy * shape.h.stride - shape.h.pad;
    const uint8_t* x_image = x + row / shape.h.out * shape.h.in * in_row;
    if (fixed == nullptr) {
      Int8AnyRow(epilogue, x_image, oy, row, residual, y);
      continue;
    }
    Bytes rows[8];
    for (int64_t ky = 0; ky < shape.h.kernel; ++ky) {
      const int64_t iy = top + ky;
      rows[ky] = iy >= 0 && iy < shape.h.in ? x_image + iy * in_row : nullptr;
    }
    fixed(epilogue, rows, row, residual, y);
  }
}

}  // namespace

extern const DwTable kDwTable = {Int8Rows, FloatRows};

}  // namespace evoq::avx512
