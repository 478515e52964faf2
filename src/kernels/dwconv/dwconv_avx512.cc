// int8 depthwise rows with VNNI: four vertical taps of a channel make one operand of a dot product.
#define EVOQ_ISA avx512
#include <cmath>

#include "kernels/dwconv/dwconv_f32.inl.h"
#include "kernels/dwconv/dwconv_int8.inl.h"

namespace evoq::avx512 {
namespace {

using Bytes = const uint8_t*;

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

#include "kernels/dwconv/dwconv_bytes.inl.h"
#include "kernels/dwconv/dwconv_ring.inl.h"

namespace evoq::avx512 {
namespace {

struct LineMachine {
  using V = __m512i;

  const Epilogue& epilogue;

  static V Integers(Vec v) { return _mm512_cvtps_epi32(v); }
  static V Add(V a, V b) { return _mm512_add_epi32(a, b); }
  V Bias(int64_t c) const { return _mm512_loadu_si512(epilogue.args.bias + c); }
  void Store(const V* sums, int64_t c, int64_t n, int64_t at, const void* residual, void* y) const {
    epilogue.Store(sums[0], c, at, static_cast<__mmask16>((1u << n) - 1), residual, y);
  }
};

void Int8Rows(const DwInt8Args& args, const uint8_t* x, const void* residual, void* y,
              int64_t begin, int64_t end) {
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
  const LineMachine machine{epilogue};
  ByteLine<LineMachine> line(machine, args);
  if (!line.fits()) return Int8RowsPlain(args, x, residual, y, begin, end);
  line.Rows(x, residual, y, begin, end);
}

}  // namespace

extern const DwTable kDwTable = {
    .int8_rows = Int8Rows, .float_rows = RowsOf<float>, .ring_lanes = 64, .float_lines = true};

}  // namespace evoq::avx512
