#include "kernels/elementwise/binary.h"
#include "kernels/math/math.inl.h"

namespace evoq::EVOQ_ISA {
namespace {

template <BinaryKind kKind>
struct BinaryFn;
#define EVOQ_BINARY(op, definition)                                      \
  template <>                                                            \
  struct BinaryFn<BinaryKind::k##op> {                                   \
    static inline float Compute(float a, float b) { return definition; } \
  };
EVOQ_BINARY_LIST
#undef EVOQ_BINARY

// y[i] = f(a[i or 0], b[i or 0]).
template <typename T, typename F>
inline void Steps(const T* a, const T* b, T* y, int64_t n, int64_t a_step, int64_t b_step,
                  const F& f) {
  if (a_step != 0 && b_step != 0) {
    EVOQ_ELEMENTWISE
    for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
  } else if (a_step != 0) {
    const T one = *b;
    EVOQ_ELEMENTWISE
    for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], one);
  } else {
    const T one = *a;
    EVOQ_ELEMENTWISE
    for (int64_t i = 0; i < n; ++i) y[i] = f(one, b_step != 0 ? b[i] : *b);
  }
}

void Float(BinaryKind kind, const float* a, const float* b, float* y, int64_t n, int64_t a_step,
           int64_t b_step) {
  switch (kind) {
#define EVOQ_BINARY(op, definition) \
  case BinaryKind::k##op:           \
    return Steps(a, b, y, n, a_step, b_step, BinaryFn<BinaryKind::k##op>::Compute);
    EVOQ_BINARY_LIST
#undef EVOQ_BINARY
  }
}

template <typename F>
inline void RowSteps(const uint8_t* a, const uint8_t* b, uint8_t* y, const BinaryRows& r,
                     const F& f) {
  for (int64_t i = 0; i < r.rows; ++i)
    Steps(a + i * r.a_row, b + i * r.b_row, y + i * r.n, r.n, r.a_step, r.b_step, f);
}

// v inside the bounds, so that the sum's last mantissa bits are the rounded integer.
inline uint8_t ToByte(float v, float low, float high, int32_t zero) {
  v = v > low ? v : low;
  v = v < high ? v : high;
  return static_cast<uint8_t>(static_cast<int32_t>(ToBits(v + kRoundMagic) - 0x4B400000u) + zero);
}

// Both ratios 1: v is an integer, and 16 bits hold it.
void AddEqual(const BinaryByteArgs& args, const uint8_t* a, const uint8_t* b, uint8_t* y,
              const BinaryRows& rows) {
  const auto offset = static_cast<int32_t>(args.constant);
  const auto low = static_cast<int16_t>(RoundToInteger(args.bounds.low, args.bounds.zero, 0, 255));
  const auto high =
      static_cast<int16_t>(RoundToInteger(args.bounds.high, args.bounds.zero, 0, 255));
  RowSteps(a, b, y, rows, [=](uint8_t p, uint8_t q) {
    const auto v = static_cast<int16_t>(p + q + offset);
    const int16_t above = v > low ? v : low;
    return static_cast<uint8_t>(above < high ? above : high);
  });
}

template <bool kLeaky>
void AddBytes(const BinaryByteArgs& args, const uint8_t* a, const uint8_t* b, uint8_t* y,
              const BinaryRows& rows) {
  const OutputBounds bounds = args.bounds;
  const float scale_a = args.scale_a, scale_b = args.scale_b, constant = args.constant,
              middle = args.middle;
  RowSteps(a, b, y, rows, [=](uint8_t p, uint8_t q) {
    float v = __builtin_fmaf(static_cast<float>(p), scale_a,
                             __builtin_fmaf(static_cast<float>(q), scale_b, constant));
    if (kLeaky) v = v < middle ? (v - middle) * bounds.slope + middle : v;
    return ToByte(v, bounds.low, bounds.high, bounds.zero);
  });
}

void MulBytes(const BinaryByteArgs& args, const uint8_t* a, const uint8_t* b, uint8_t* y,
              const BinaryRows& rows) {
  const OutputBounds bounds = args.bounds;
  const float scale = args.scale_a;
  const int32_t zero_a = args.zero_a, zero_b = args.zero_b;
  RowSteps(a, b, y, rows, [=](uint8_t p, uint8_t q) {
    return ToByte(static_cast<float>((p - zero_a) * (q - zero_b)) * scale, bounds.low, bounds.high,
                  bounds.zero);
  });
}

// By way of real numbers, a piece of a row at a time.
void RealBytes(const BinaryByteArgs& args, const uint8_t* a, const uint8_t* b, uint8_t* y,
               const BinaryRows& rows) {
  constexpr int64_t kPiece = 256;
  float x[kPiece], z[kPiece];
  const auto real = [](const uint8_t* from, int64_t n, int32_t zero, float scale, float* to) {
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i] - zero) * scale;
  };
  for (int64_t r = 0; r < rows.rows; ++r, a += rows.a_row, b += rows.b_row, y += rows.n) {
    for (int64_t first = 0; first < rows.n; first += kPiece) {
      const int64_t n = rows.n - first < kPiece ? rows.n - first : kPiece;
      real(a + first * rows.a_step, rows.a_step != 0 ? n : 1, args.zero_a, args.scale_a, x);
      real(b + first * rows.b_step, rows.b_step != 0 ? n : 1, args.zero_b, args.scale_b, z);
      float v[kPiece];
      Float(args.kind, x, z, v, n, rows.a_step, rows.b_step);
      for (int64_t i = 0; i < n; ++i) {
        const float scaled = v[i] / args.scale_y;
        y[first + i] = ToByte(scaled == scaled ? scaled : 0.0f, args.bounds.low, args.bounds.high,
                              args.bounds.zero);
      }
    }
  }
}

void Bytes(const BinaryByteArgs& args, const uint8_t* a, const uint8_t* b, uint8_t* y,
           const BinaryRows& rows) {
  switch (args.kind) {
    case BinaryKind::kAdd:
      if (args.scale_a == 1.0f && args.scale_b == 1.0f && !args.bounds.leaky)
        return AddEqual(args, a, b, y, rows);
      return args.bounds.leaky ? AddBytes<true>(args, a, b, y, rows)
                               : AddBytes<false>(args, a, b, y, rows);
    case BinaryKind::kMul: return MulBytes(args, a, b, y, rows);
    default: return RealBytes(args, a, b, y, rows);
  }
}

}  // namespace

#ifndef EVOQ_OWN_BYTES
extern const BinaryTable kBinaryTable = {
    .f32 = Float,
    .u8 = Bytes,
};
#endif

}  // namespace evoq::EVOQ_ISA
