// Elements of files as float32. Inline code is in the unnamed namespace (kernels/isa_table.h).
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstring>

#include "kernels/vec.h"
#include "quant/low_bits/rounding.h"
#include "quant/stored_matrix.h"

namespace evoq::EVOQ_ISA {
namespace {

constexpr int kLanes = 8;
using Floats = Vec<float, kLanes>;
using Bits = Vec<int32_t, kLanes>;

EVOQ_ALWAYS_INLINE Bits BitsOf(Floats v) {
  Bits bits;
  std::memcpy(&bits, &v, sizeof(bits));
  return bits;
}
EVOQ_ALWAYS_INLINE Floats FloatsOf(Bits bits) {
  Floats v;
  std::memcpy(&v, &bits, sizeof(v));
  return v;
}

struct Float32 {
  using Type = float;
  EVOQ_ALWAYS_INLINE static Floats Load(const float* p) { return LoadVec<float, kLanes>(p); }
};

struct Bfloat16 {
  using Type = uint16_t;
  EVOQ_ALWAYS_INLINE static Floats Load(const uint16_t* p) {
    return FloatsOf(Convert<int32_t, kLanes>(LoadVec<uint16_t, kLanes>(p)) << 16);
  }
};

// HalfToFloat of tensor/dtype.h.
struct Float16 {
  using Type = uint16_t;
  EVOQ_ALWAYS_INLINE static Floats Load(const uint16_t* p) {
#if defined(__F16C__)
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#else
    const Bits x = Convert<int32_t, kLanes>(LoadVec<uint16_t, kLanes>(p));
    const Bits magnitude = x & 0x7fff, sign = (x & 0x8000) << 16;
    const Bits subnormal = BitsOf(Convert<float, kLanes>(magnitude) * 0x1p-24f);
    const Bits normal =
        (magnitude << 13) + (magnitude < 0x7c00 ? Bits{} + (112 << 23) : Bits{} + 0x70000000);
    return FloatsOf((magnitude < 0x0400 ? subnormal : normal) | sign);
#endif
  }
};

// Whether elements were finite: all bits of the exponent are set in those that are not.
struct Seen {
  Bits bad = {};
  EVOQ_ALWAYS_INLINE void Add(Floats v) { bad |= (BitsOf(v) & 0x7fffffff) > 0x7f7fffff; }
  bool Finite() const {
    int32_t any = 0;
    for (int i = 0; i < kLanes; ++i) any |= bad[i];
    return any == 0;
  }
};

// The first n < kLanes elements, the others 0.
template <typename T>
EVOQ_ALWAYS_INLINE Floats LoadPart(const typename T::Type* p, int64_t n) {
  typename T::Type part[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = p[i];
  return T::Load(part);
}

template <typename T>
bool Rows(const std::byte* from, int64_t step, int64_t depth, int64_t count, float* to,
          int64_t stride) {
  Seen seen;
  for (int64_t j = 0; j < count; ++j) {
    const auto* run = reinterpret_cast<const typename T::Type*>(from) + j * step;
    float* y = to + j * stride;
    int64_t i = 0;
    for (; i + kLanes <= depth; i += kLanes) {
      const Floats v = T::Load(run + i);
      seen.Add(v);
      StoreVec<float, kLanes>(y + i, v);
    }
    if (i == depth) continue;
    const Floats v = LoadPart<T>(run + i, depth - i);
    seen.Add(v);
    for (int64_t rest = 0; i + rest < depth; ++rest) y[i + rest] = v[rest];
  }
  return seen.Finite();
}

// r[i][j] becomes r[j][i].
EVOQ_ALWAYS_INLINE void Transpose(Floats (&r)[kLanes]) {
  Floats pairs[kLanes], fours[kLanes];
  for (int i = 0; i < kLanes; i += 2) {
    pairs[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    pairs[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < kLanes; i += 4) {
    for (int h = 0; h < 2; ++h) {
      fours[i + 2 * h] =
          __builtin_shufflevector(pairs[i + h], pairs[i + 2 + h], 0, 1, 8, 9, 4, 5, 12, 13);
      fours[i + 2 * h + 1] =
          __builtin_shufflevector(pairs[i + h], pairs[i + 2 + h], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = __builtin_shufflevector(fours[i], fours[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    r[i + 4] = __builtin_shufflevector(fours[i], fours[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

template <typename T>
bool Columns(const std::byte* from, int64_t step, int64_t depth, int64_t count, float* to,
             int64_t stride) {
  const auto* runs = reinterpret_cast<const typename T::Type*>(from);
  Seen seen;
  for (int64_t j = 0; j < count; j += kLanes) {
    const int64_t some = count - j < kLanes ? count - j : kLanes;
    for (int64_t i = 0; i < depth; i += kLanes) {
      const int64_t part = depth - i < kLanes ? depth - i : kLanes;
      const auto* p = runs + j * step + i;
      Floats r[kLanes] = {};
      if (some == kLanes && part == kLanes) {
        for (int row = 0; row < kLanes; ++row) r[row] = T::Load(p + row * step);
      } else {
        for (int row = 0; row < some; ++row) r[row] = LoadPart<T>(p + row * step, part);
      }
      for (const Floats& v : r) seen.Add(v);
      Transpose(r);
      float* y = to + i * stride + j;
      if (some == kLanes && part == kLanes) {
        for (int row = 0; row < kLanes; ++row) StoreVec<float, kLanes>(y + row * stride, r[row]);
      } else {
        for (int row = 0; row < part; ++row) {
          for (int c = 0; c < some; ++c) y[row * stride + c] = r[row][c];
        }
      }
    }
  }
  return seen.Finite();
}

float Largest(const float* w, int64_t count) {
  Floats most = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Floats size = FloatsOf(BitsOf(Float32::Load(w + i)) & 0x7fffffff);
    most = most < size ? size : most;
  }
  float largest = 0;
  for (int lane = 0; lane < kLanes; ++lane) largest = More(largest, most[lane]);
  for (; i < count; ++i) largest = More(largest, __builtin_fabsf(w[i]));
  return largest;
}

void Round(const float* w, float scale, int64_t count, int8_t* q) {
  for (int64_t i = 0; i < count; ++i)
    q[i] = static_cast<int8_t>(static_cast<int32_t>(RoundEven(Clamped(w[i] / scale, -127, 127))));
}

template <typename T>
constexpr StoredLoops::Of ReadOf() {
  return {.rows = Rows<T>, .columns = Columns<T>};
}

}  // namespace

extern const StoredLoops kStoredLoops = {.float32 = ReadOf<Float32>(),
                                         .float16 = ReadOf<Float16>(),
                                         .bfloat16 = ReadOf<Bfloat16>(),
                                         .largest = Largest,
                                         .round = Round};

}  // namespace evoq::EVOQ_ISA
