// int8 depthwise rows with VNNI: four vertical taps of a channel make one operand of a dot product.
#define EVOQ_ISA avx512
#include <cmath>

#include "kernels/dwconv/dwconv_f32.inl.h"
#include "kernels/dwconv/dwconv_int8.inl.h"

namespace evoq::avx512 {
namespace {

using Bytes = const uint8_t*;

inline __m512i Widen(Bytes p, __mmask16 mask) {
  return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, p));
}

// lane c = x[row 0][c] | x[row 1][c] << 8 | x[row 2][c] << 16 | x[row 3][c] << 24
inline __m512i Interleave(const Bytes* pixel, int64_t c, __mmask16 mask) {
  const __m512i low =
      _mm512_or_si512(Widen(pixel[0] + c, mask), _mm512_slli_epi32(Widen(pixel[1] + c, mask), 8));
  const __m512i high = _mm512_or_si512(_mm512_slli_epi32(Widen(pixel[2] + c, mask), 16),
                                       _mm512_slli_epi32(Widen(pixel[3] + c, mask), 24));
  return _mm512_or_si512(low, high);
}

struct Epilogue {
  explicit Epilogue(const DwInt8Args& a)
      : args(a),
        low(_mm512_set1_ps(a.bounds.low)),
        high(_mm512_set1_ps(a.bounds.high)),
        zero(_mm512_set1_epi32(a.bounds.zero)),
        zeros(_mm512_set1_epi16(static_cast<int16_t>(a.bounds.zero))),
        outside(_mm512_set1_epi8(static_cast<char>(a.padding[0]))) {
    if (!a.plain) return;
    lowest = _mm512_set1_epi8(
        static_cast<char>(static_cast<int32_t>(std::nearbyint(a.bounds.low)) + a.bounds.zero));
    highest = _mm512_set1_epi8(
        static_cast<char>(static_cast<int32_t>(std::nearbyint(a.bounds.high)) + a.bounds.zero));
  }
  const DwInt8Args& args;
  __m512 low, high;
  __m512i zero;
  __m512i zeros, lowest, highest;  // of `plain` bytes: zero points, and the bounds with them
  __m512i outside;

  // Of channels c, c + 1, ...
  inline void Store(__m512i acc, int64_t c, int64_t at, __mmask16 mask, const void* residual,
                    void* y) const {
    __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(acc), _mm512_loadu_ps(args.multiplier + c));
    if (args.offset != nullptr) v = _mm512_add_ps(v, _mm512_loadu_ps(args.offset + c));
    if (args.has_residual) {
      if (args.float_output) {
        v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, static_cast<const float*>(residual) + at));
      } else {
        const __m512i r =
            _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, static_cast<Bytes>(residual) + at));
        const __m512 centred =
            _mm512_cvtepi32_ps(_mm512_sub_epi32(r, _mm512_set1_epi32(args.residual_zero)));
        v = _mm512_add_ps(v, _mm512_mul_ps(centred, _mm512_set1_ps(args.residual_multiplier)));
      }
    }
    if (args.slopes != nullptr) {
      const __mmask16 negative = _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ);
      v = _mm512_mask_mul_ps(v, negative, v, _mm512_loadu_ps(args.slopes + c));
    }
    v = _mm512_min_ps(high, _mm512_max_ps(low, v));
    if (args.float_output) {
      _mm512_mask_storeu_ps(static_cast<float*>(y) + at, mask, v);
      return;
    }
    const __m128i q = _mm512_cvtepi32_epi8(_mm512_add_epi32(_mm512_cvtps_epi32(v), zero));
    _mm_mask_storeu_epi8(static_cast<uint8_t*>(y) + at, mask, q);
  }
};

}  // namespace
}  // namespace evoq::avx512

#include "kernels/dwconv/dwconv_ring.inl.h"

namespace evoq::avx512 {
namespace {

// Any kernel, stride and dilation: one output pixel of 16 channels at a time.
void Int8AnyRow(const Epilogue& epilogue, const uint8_t* x_image, int64_t oy, int64_t out_row,
                const void* residual, void* y) {
  const DwInt8Args& args = epilogue.args;
  const DwShape& shape = args.shape;
  const int64_t channels = shape.channels, quads = shape.quads(),
                top = oy * shape.h.stride - shape.h.pad;
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
            const bool inside = iy >= 0 && iy < shape.h.in && ix >= 0 && ix < shape.w.in &&
                                q * 4 + i < shape.h.kernel;
            pixel[i] = inside ? x_image + (iy * shape.w.in + ix) * channels : args.padding;
          }
          const __m512i x = Interleave(pixel, c, mask);
          for (int part = 0; part < args.parts; ++part) {
            acc = _mm512_dpbusd_epi32(
                acc, x, _mm512_loadu_si512(weights + part * part_bytes + (kx * quads + q) * 64));
          }
        }
      }
      const int64_t at = (out_row * shape.w.out + ox) * channels + c;
      epilogue.Store(acc, c, at, mask, residual, y);
    }
  }
}

void Int8Rows(const DwInt8Args& args, const uint8_t* x, const void* residual, void* y,
              int64_t begin, int64_t end) {
  if (args.quads == nullptr) return Int8RowsPlain(args, x, residual, y, begin, end);
  const DwShape& shape = args.shape;
  const Epilogue epilogue(args);
  if (args.ring != nullptr) {
    // Four rows of all blocks at a time: the blocks share the input's lines.
    for (int64_t row = begin; row < end; row += 4) {
      for (int64_t block = 0; block * 64 < shape.channels; ++block)
        RingRows(args, RingFor(args, args.block(block)), block, x, residual, y, row,
                 row + 4 < end ? row + 4 : end);
    }
    return;
  }
  for (int64_t row = begin; row < end; ++row) {
    const uint8_t* x_image = x + row / shape.h.out * shape.h.in * shape.w.in * shape.channels;
    Int8AnyRow(epilogue, x_image, row % shape.h.out, row, residual, y);
  }
}

}  // namespace

extern const DwTable kDwTable = {
    .int8_rows = Int8Rows, .float_rows = RowsOf<float>, .ring_lanes = 64};

}  // namespace evoq::avx512
