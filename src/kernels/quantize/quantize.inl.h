#include "kernels/math/math.inl.h"
#include "kernels/quantize/quantize.h"

namespace evoq::EVOQ_ISA {
namespace {

// v = x / scale; the saturation bounds are integers, so clamping first gives the same integer.
template <typename T>
inline T ToStored(float v, float low, float high, int32_t zero) {
  v = v == v ? v : 0.0f;
  v = v > low ? v : low;
  v = v < high ? v : high;
  return static_cast<T>(static_cast<int32_t>(ToBits(v + kRoundMagic) - 0x4B400000u) + zero);
}

template <typename T>
void QuantizeRun(const float* x, T* q, int64_t n, float scale, int32_t zero, IntegerRange range) {
  const float low = static_cast<float>(range.low - zero),
              high = static_cast<float>(range.high - zero);
  for (int64_t i = 0; i < n; ++i) q[i] = ToStored<T>(x[i] / scale, low, high, zero);
}
template <typename T>
void QuantizeEachRun(const float* x, T* q, int64_t n, const float* scale, const int32_t* zero,
                     IntegerRange range) {
  for (int64_t i = 0; i < n; ++i) {
    q[i] = ToStored<T>(x[i] / scale[i], static_cast<float>(range.low - zero[i]),
                       static_cast<float>(range.high - zero[i]), zero[i]);
  }
}

void Quantize(const float* x, uint8_t* q, int64_t n, const Divisor& by, int32_t zero,
              IntegerRange range) {
  QuantizeRun(x, q, n, by.scale, zero, range);
}
void QuantizeWords(const float* x, uint16_t* q, int64_t n, float scale, int32_t zero,
                   IntegerRange range) {
  QuantizeRun(x, q, n, scale, zero, range);
}
void QuantizeEach(const float* x, uint8_t* q, int64_t n, const float* scale, const int32_t* zero,
                  IntegerRange range) {
  QuantizeEachRun(x, q, n, scale, zero, range);
}
void QuantizeWordsEach(const float* x, uint16_t* q, int64_t n, const float* scale,
                       const int32_t* zero, IntegerRange range) {
  QuantizeEachRun(x, q, n, scale, zero, range);
}

// int32 differences may wrap: the definition's q - zero is exact, so they are taken in 64 bits
// there.
template <typename T>
inline float Real(T q, int32_t zero, float scale) {
  if constexpr (sizeof(T) == 4) return static_cast<float>(static_cast<int64_t>(q) - zero) * scale;
  return static_cast<float>(static_cast<int32_t>(q) - zero) * scale;
}

template <typename T>
void DequantizeRun(const T* q, float* x, int64_t n, float scale, int32_t zero) {
  for (int64_t i = 0; i < n; ++i) x[i] = Real(q[i], zero, scale);
}
template <typename T>
void DequantizeEachRun(const T* q, float* x, int64_t n, const float* scale, const int32_t* zero) {
  for (int64_t i = 0; i < n; ++i) x[i] = Real(q[i], zero[i], scale[i]);
}

// run(q) with q as pointer to its integers.
template <typename Run>
void WithIntegers(const void* q, IntegerKind kind, const Run& run) {
  switch (kind) {
    case IntegerKind::kUint8: return run(static_cast<const uint8_t*>(q));
    case IntegerKind::kInt8: return run(static_cast<const int8_t*>(q));
    case IntegerKind::kUint16: return run(static_cast<const uint16_t*>(q));
    case IntegerKind::kInt16: return run(static_cast<const int16_t*>(q));
    case IntegerKind::kInt32: return run(static_cast<const int32_t*>(q));
  }
}

void Dequantize(const void* q, IntegerKind kind, float* x, int64_t n, float scale, int32_t zero) {
  WithIntegers(q, kind, [&](const auto* of) { DequantizeRun(of, x, n, scale, zero); });
}

void DequantizeEach(const void* q, IntegerKind kind, float* x, int64_t n, const float* scale,
                    const int32_t* zero) {
  WithIntegers(q, kind, [&](const auto* of) { DequantizeEachRun(of, x, n, scale, zero); });
}

void Range(const float* x, int64_t n, float* low, float* high) {
  const float least = MinInline(x, n), most = MaxInline(x, n);
  *low = least < 0.0f ? least : 0.0f;
  *high = most > 0.0f ? most : 0.0f;
}

[[maybe_unused]] void LookupPlain(const uint8_t* table, const uint8_t* x, uint8_t* y, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int j = 0; j < 8; ++j) y[i + j] = table[x[i + j]];
  }
  for (; i < n; ++i) y[i] = table[x[i]];
}

}  // namespace
}  // namespace evoq::EVOQ_ISA
