#define EVOQ_ISA avx512
#define EVOQ_OWN_BYTES  // Add and Mul of bytes are here
#include "kernels/elementwise/binary.inl.h"

#include "kernels/bytes512.h"

namespace evoq::avx512 {
namespace {

// The bytes [i, i + 64) of an input, or one byte for all.
struct Operand {
  const uint8_t* data;
  bool one;
  __m512i all;

  Operand(const uint8_t* p, int64_t step) : data(p), one(step == 0), all(_mm512_set1_epi8(static_cast<char>(*p))) {}
  template <typename Load>
  __m512i At(int64_t i, const Load& load) const {
    return one ? all : load(data + i);
  }
};

void AddBytes512(const BinaryByteArgs& args, const uint8_t* a, const uint8_t* b, uint8_t* y, int64_t n, int64_t a_step,
                 int64_t b_step) {
  const Operand left(a, a_step), right(b, b_step);
  const ByteClamp clamp(args.bounds);
  const __m512 zero_a = Raised(args.zero_a), zero_b = Raised(args.zero_b);
  const __m512 scale_a = _mm512_set1_ps(args.scale_a), scale_b = _mm512_set1_ps(args.scale_b);
  Span{n}.ForEach([&](int64_t i, const auto& load, const auto& store) {
    const Floats p = WidenRaised(left.At(i, load)), q = WidenRaised(right.At(i, load));
    Floats v;
    for (int k = 0; k < 4; ++k) {
      v.part[k] = _mm512_add_ps(_mm512_mul_ps(_mm512_sub_ps(p.part[k], zero_a), scale_a),
                                _mm512_mul_ps(_mm512_sub_ps(q.part[k], zero_b), scale_b));
    }
    store(y + i, clamp.Finish(v));
  });
}

void MulBytes512(const BinaryByteArgs& args, const uint8_t* a, const uint8_t* b, uint8_t* y, int64_t n, int64_t a_step,
                 int64_t b_step) {
  const Operand left(a, a_step), right(b, b_step);
  const ByteClamp clamp(args.bounds);
  const __m512i zero_a = _mm512_set1_epi16(static_cast<int16_t>(args.zero_a)), zero_b = _mm512_set1_epi16(static_cast<int16_t>(args.zero_b));
  const __m512 scale = _mm512_set1_ps(args.scale_a);
  Span{n}.ForEach([&](int64_t i, const auto& load, const auto& store) {
    const Words p = WidenBytes(left.At(i, load), zero_a), q = WidenBytes(right.At(i, load), zero_b);
    Floats v;
    for (int k = 0; k < 2; ++k) {
      const __m512i low = _mm512_mullo_epi16(p.part[k], q.part[k]), high = _mm512_mulhi_epi16(p.part[k], q.part[k]);
      v.part[2 * k] = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_unpacklo_epi16(low, high)), scale);
      v.part[2 * k + 1] = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_unpackhi_epi16(low, high)), scale);
    }
    store(y + i, clamp.Finish(v));
  });
}

// |v| of Add and Mul stays far below 2^31.
bool IsSmall(const BinaryByteArgs& args) {
  return 255.0f * 255.0f * (args.scale_a + args.scale_b) < 1e9f && !args.bounds.leaky;
}

void OwnBytes(const BinaryByteArgs& args, const uint8_t* a, const uint8_t* b, uint8_t* y, int64_t n, int64_t a_step,
              int64_t b_step) {
  if (args.kind == BinaryKind::kAdd && IsSmall(args)) return AddBytes512(args, a, b, y, n, a_step, b_step);
  if (args.kind == BinaryKind::kMul && IsSmall(args)) return MulBytes512(args, a, b, y, n, a_step, b_step);
  Bytes(args, a, b, y, n, a_step, b_step);
}

}  // namespace

extern const BinaryTable kBinaryTable = {Float, OwnBytes};

}  // namespace evoq::avx512
