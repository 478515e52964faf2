#include "kernels/math/math.inl.h"
#include "kernels/quantize/quantize.h"

namespace evoq::EVOQ_ISA {
namespace {

// v = x / scale; the saturation bounds are integers, so clamping first gives the same integer.
inline uint8_t ToByte(float v, float low, float high, int32_t zero) {
  v = v == v ? v : 0.0f;
  v = v > low ? v : low;
  v = v < high ? v : high;
  return static_cast<uint8_t>(static_cast<int32_t>(ToBits(v + kRoundMagic) - 0x4B400000u) + zero);
}

void Quantize(const float* x, uint8_t* q, int64_t n, const Divisor& by, int32_t zero,
              ByteRange range) {
  const float scale = by.scale;
  const float low = static_cast<float>(range.low - zero),
              high = static_cast<float>(range.high - zero);
  for (int64_t i = 0; i < n; ++i) q[i] = ToByte(x[i] / scale, low, high, zero);
}

void QuantizeEach(const float* x, uint8_t* q, int64_t n, const float* scale, const int32_t* zero,
                  ByteRange range) {
  for (int64_t i = 0; i < n; ++i) {
    q[i] = ToByte(x[i] / scale[i], static_cast<float>(range.low - zero[i]),
                  static_cast<float>(range.high - zero[i]), zero[i]);
  }
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

void Dequantize(const void* q, IntegerKind kind, float* x, int64_t n, float scale, int32_t zero) {
  if (kind == IntegerKind::kUint8)
    return DequantizeRun(static_cast<const uint8_t*>(q), x, n, scale, zero);
  if (kind == IntegerKind::kInt8)
    return DequantizeRun(static_cast<const int8_t*>(q), x, n, scale, zero);
  DequantizeRun(static_cast<const int32_t*>(q), x, n, scale, zero);
}

void DequantizeEach(const void* q, IntegerKind kind, float* x, int64_t n, const float* scale,
                    const int32_t* zero) {
  if (kind == IntegerKind::kUint8)
    return DequantizeEachRun(static_cast<const uint8_t*>(q), x, n, scale, zero);
  if (kind == IntegerKind::kInt8)
    return DequantizeEachRun(static_cast<const int8_t*>(q), x, n, scale, zero);
  DequantizeEachRun(static_cast<const int32_t*>(q), x, n, scale, zero);
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
