#define EVOQ_ISA avx512
#define EVOQ_OWN_BYTES  // Add and Mul of bytes are here
#include <algorithm>

#include "kernels/bytes512.h"
#include "kernels/elementwise/binary.inl.h"

namespace evoq::avx512 {
namespace {

// The bytes [i, i + 64) of an input, or one byte for all.
struct Operand {
  const uint8_t* data;
  bool one;
  __m512i all;

  Operand(const uint8_t* p, int64_t step)
      : data(p), one(step == 0), all(_mm512_set1_epi8(static_cast<char>(*p))) {}
  template <typename Load>
  __m512i At(int64_t i, const Load& load) const {
    return one ? all : load(data + i);
  }
};

// compute(bytes of a, bytes of b) for every 64 bytes.
template <typename Compute>
inline __attribute__((always_inline)) void ForBytes(const uint8_t* a, const uint8_t* b, uint8_t* y,
                                                    const BinaryRows& rows,
                                                    const Compute& compute) {
  for (int64_t r = 0; r < rows.rows; ++r, y += rows.n) {
    const Operand left(a + r * rows.a_row, rows.a_step), right(b + r * rows.b_row, rows.b_step);
    Span{rows.n}.ForEach([&](int64_t i, const auto& load, const auto& store) {
      store(y + i, compute(left.At(i, load), right.At(i, load)));
    });
  }
}

void AddBytes512(const BinaryByteArgs& args, const uint8_t* a, const uint8_t* b, uint8_t* y,
                 const BinaryRows& rows) {
  const ByteClamp clamp(args.bounds);
  const __m512 raised = Raised(0), constant = _mm512_set1_ps(args.constant);
  const __m512 scale_a = _mm512_set1_ps(args.scale_a), scale_b = _mm512_set1_ps(args.scale_b);
  ForBytes(a, b, y, rows, [&](__m512i left, __m512i right) {
    const Floats p = WidenRaised(left), q = WidenRaised(right);
    Floats v;
    for (int k = 0; k < 4; ++k) {
      v.part[k] =
          _mm512_fmadd_ps(_mm512_sub_ps(p.part[k], raised), scale_a,
                          _mm512_fmadd_ps(_mm512_sub_ps(q.part[k], raised), scale_b, constant));
    }
    return clamp.Finish(v);
  });
}

// Both ratios 1: v is an integer.
void AddEqual512(const BinaryByteArgs& args, const uint8_t* a, const uint8_t* b, uint8_t* y,
                 const BinaryRows& rows) {
  const ByteClamp clamp(args.bounds);
  const __m512i none = _mm512_setzero_si512();
  const __m512i zero = _mm512_set1_epi16(static_cast<int16_t>(-args.constant));
  ForBytes(a, b, y, rows, [&](__m512i left, __m512i right) {
    const Words p = WidenBytes(left, zero), q = WidenBytes(right, none);
    return clamp.Clamp(_mm512_packus_epi16(_mm512_add_epi16(p.part[0], q.part[0]),
                                           _mm512_add_epi16(p.part[1], q.part[1])));
  });
}

void MulBytes512(const BinaryByteArgs& args, const uint8_t* a, const uint8_t* b, uint8_t* y,
                 const BinaryRows& rows) {
  const ByteClamp clamp(args.bounds);
  const __m512i zero_a = _mm512_set1_epi16(static_cast<int16_t>(args.zero_a)),
                zero_b = _mm512_set1_epi16(static_cast<int16_t>(args.zero_b));
  const __m512 scale = _mm512_set1_ps(args.scale_a);
  ForBytes(a, b, y, rows, [&](__m512i left, __m512i right) {
    const Words p = WidenBytes(left, zero_a), q = WidenBytes(right, zero_b);
    Floats v;
    for (int k = 0; k < 2; ++k) {
      const __m512i low = _mm512_mullo_epi16(p.part[k], q.part[k]),
                    high = _mm512_mulhi_epi16(p.part[k], q.part[k]);
      v.part[2 * k] = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_unpacklo_epi16(low, high)), scale);
      v.part[2 * k + 1] =
          _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_unpackhi_epi16(low, high)), scale);
    }
    return clamp.Finish(v);
  });
}

// The bytes as 4 x 16 floats 2^15 + byte.
inline Floats WidenRaised15(__m512i bytes) {
  const __m512i none = _mm512_setzero_si512(), exponent = _mm512_set1_epi16(0x4700);
  const __m512i low = _mm512_unpacklo_epi8(none, bytes), high = _mm512_unpackhi_epi8(none, bytes);
  return {{_mm512_castsi512_ps(_mm512_unpacklo_epi16(low, exponent)),
           _mm512_castsi512_ps(_mm512_unpackhi_epi16(low, exponent)),
           _mm512_castsi512_ps(_mm512_unpacklo_epi16(high, exponent)),
           _mm512_castsi512_ps(_mm512_unpackhi_epi16(high, exponent))}};
}

// Times factors that serve many bytes, one for each lane or one for all:
// (2^15 + a) f - (2^15 + zero_a) f is (a - zero_a) f, each of them below 2^24 and so exact.
struct Scaler {
  ByteClamp clamp;
  __m512 scale, raised_zero, minus_zero;
  __m512i zero_y;

  Scaler(const BinaryByteArgs& args, int32_t zero)
      : clamp(args.bounds),
        scale(_mm512_set1_ps(args.scale_a)),
        raised_zero(_mm512_set1_ps(static_cast<float>(-32768 - zero))),
        minus_zero(_mm512_set1_ps(static_cast<float>(-zero))),
        zero_y(_mm512_set1_epi32(args.bounds.zero)) {}

  Floats Offsets(const Floats& factors) const {
    Floats offsets;
    for (int k = 0; k < 4; ++k) offsets.part[k] = _mm512_mul_ps(factors.part[k], raised_zero);
    return offsets;
  }
  __m512i Times(__m512i bytes, const Floats& factors, const Floats& offsets) const {
    Floats v = WidenRaised15(bytes);
    for (int k = 0; k < 4; ++k)
      v.part[k] =
          _mm512_mul_ps(_mm512_fmadd_ps(v.part[k], factors.part[k], offsets.part[k]), scale);
    return clamp.Finish(v);
  }
  // 16 bytes: rows are often planes of few pixels, with short ends.
  __m128i Times16(__m128i bytes, __m512 factor) const {
    const __m512 centred =
        _mm512_add_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)), minus_zero);
    const __m512i r = _mm512_add_epi32(
        _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_mul_ps(centred, factor), scale)), zero_y);
    const __m128i q = _mm512_cvtusepi32_epi8(_mm512_max_epi32(r, _mm512_setzero_si512()));
    return _mm_min_epu8(_mm_max_epu8(q, _mm512_castsi512_si128(clamp.low)),
                        _mm512_castsi512_si128(clamp.high));
  }
};

// Rows times one value each: f[r * f_row].
void ScaleRows512(const BinaryByteArgs& args, const uint8_t* a, int64_t a_row, int32_t zero_a,
                  const uint8_t* f, int64_t f_row, int32_t zero_f, uint8_t* y, int64_t n,
                  int64_t rows) {
  const Scaler scaler(args, zero_a);
  // Whole bytes in front; a short end by 16 bytes that overlap those before, read before anything
  // may be written over them.
  const int64_t tail = n >= 32 && n % 64 <= 32 ? n % 64 : 0;
  for (int64_t r = 0; r < rows; ++r, a += a_row, f += f_row, y += n) {
    const __m512 factor = _mm512_set1_ps(static_cast<float>(*f - zero_f));
    const Floats factors{{factor, factor, factor, factor}}, offsets = scaler.Offsets(factors);
    const auto end = [n](auto* p) { return p + n - 16; };
    const __m128i last =
        tail > 0 ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(end(a))) : _mm_setzero_si128();
    const __m128i before =
        tail > 16 ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(end(a) - 16)) : last;
    Span{n - tail}.ForEach([&](int64_t i, const auto& load, const auto& store) {
      store(y + i, scaler.Times(load(a + i), factors, offsets));
    });
    if (tail > 16)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(end(y) - 16), scaler.Times16(before, factor));
    if (tail > 0)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(end(y)), scaler.Times16(last, factor));
  }
}

// Every row times the same row f, 64 columns after the other.
void ScaleColumns512(const BinaryByteArgs& args, const uint8_t* a, int64_t a_row, int32_t zero_a,
                     const uint8_t* f, int32_t zero_f, uint8_t* y, int64_t n, int64_t rows) {
  const Scaler scaler(args, zero_a);
  Span{n}.ForEach([&](int64_t i, const auto& load, const auto& store) {
    Floats factors = WidenRaised(load(f + i));
    for (__m512& part : factors.part) part = _mm512_sub_ps(part, Raised(zero_f));
    const Floats offsets = scaler.Offsets(factors);
    for (int64_t r = 0; r < rows; ++r)
      store(y + r * n + i, scaler.Times(load(a + r * a_row + i), factors, offsets));
  });
}

// Where one input's values serve many of the other's.
bool MulScales(const BinaryByteArgs& args, const uint8_t* a, const uint8_t* b, uint8_t* y,
               const BinaryRows& r) {
  if (r.b_step == 0)
    return ScaleRows512(args, a, r.a_row, args.zero_a, b, r.b_row, args.zero_b, y, r.n, r.rows),
           true;
  if (r.a_step == 0)
    return ScaleRows512(args, b, r.b_row, args.zero_b, a, r.a_row, args.zero_a, y, r.n, r.rows),
           true;
  if (r.rows < 4) return false;
  if (r.b_row == 0)
    return ScaleColumns512(args, a, r.a_row, args.zero_a, b, args.zero_b, y, r.n, r.rows), true;
  if (r.a_row == 0)
    return ScaleColumns512(args, b, r.b_row, args.zero_b, a, args.zero_a, y, r.n, r.rows), true;
  return false;
}

// |v| of Add and Mul stays far below 2^31.
bool IsSmall(const BinaryByteArgs& args) {
  return 255.0f * 255.0f * (args.scale_a + args.scale_b) < 1e9f && !args.bounds.leaky;
}

void OwnBytes(const BinaryByteArgs& args, const uint8_t* a, const uint8_t* b, uint8_t* y,
              const BinaryRows& rows) {
  const bool small = IsSmall(args);
  if (args.kind == BinaryKind::kAdd && small) {
    return args.scale_a == 1.0f && args.scale_b == 1.0f ? AddEqual512(args, a, b, y, rows)
                                                        : AddBytes512(args, a, b, y, rows);
  }
  if (args.kind == BinaryKind::kMul && small) {
    if (!MulScales(args, a, b, y, rows)) MulBytes512(args, a, b, y, rows);
    return;
  }
  Bytes(args, a, b, y, rows);
}

}  // namespace

extern const BinaryTable kBinaryTable = {
    .f32 = Float,
    .u8 = OwnBytes,
};

}  // namespace evoq::avx512
