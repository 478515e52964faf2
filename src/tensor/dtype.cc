#include "tensor/dtype.h"

#include <cmath>
#include <limits>

namespace evoq {
namespace {

struct Row {
  DType dtype;
  const char* name;
  int bits;
  bool is_float;
  bool is_integer;
  bool is_signed;
};

constexpr Row kRows[] = {
    {DType::kUndefined, "undefined", 0, false, false, false},
    {DType::kFloat32, "float32", 32, true, false, true},
    {DType::kUint8, "uint8", 8, false, true, false},
    {DType::kInt8, "int8", 8, false, true, true},
    {DType::kUint16, "uint16", 16, false, true, false},
    {DType::kInt16, "int16", 16, false, true, true},
    {DType::kInt32, "int32", 32, false, true, true},
    {DType::kInt64, "int64", 64, false, true, true},
    {DType::kBool, "bool", 8, false, false, false},
    {DType::kFloat16, "float16", 16, true, false, true},
    {DType::kFloat64, "float64", 64, true, false, true},
    {DType::kUint32, "uint32", 32, false, true, false},
    {DType::kUint64, "uint64", 64, false, true, false},
    {DType::kBfloat16, "bfloat16", 16, true, false, true},
    {DType::kUint4, "uint4", 4, false, true, false},
    {DType::kInt4, "int4", 4, false, true, true},
};

const Row& RowOf(DType dtype) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return row;
  }
  return kRows[0];
}

}  // namespace

const char* DTypeName(DType dtype) { return RowOf(dtype).name; }

std::optional<DType> DTypeFromName(std::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.name) return row.dtype;
  }
  return std::nullopt;
}

std::optional<DType> DTypeFromOnnx(int number) {
  for (const Row& row : kRows) {
    if (number == static_cast<int>(row.dtype)) return row.dtype;
  }
  return std::nullopt;
}

int DTypeBits(DType dtype) { return RowOf(dtype).bits; }
bool IsFloat(DType dtype) { return RowOf(dtype).is_float; }
bool IsInteger(DType dtype) { return RowOf(dtype).is_integer; }
bool IsSigned(DType dtype) { return RowOf(dtype).is_signed; }

int64_t IntegerMin(DType dtype) {
  if (!IsSigned(dtype)) return 0;
  const int bits = DTypeBits(dtype);
  return bits == 64 ? std::numeric_limits<int64_t>::min() : -(int64_t{1} << (bits - 1));
}

int64_t IntegerMax(DType dtype) {
  const int bits = DTypeBits(dtype) - (IsSigned(dtype) ? 1 : 0);
  return bits >= 63 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << bits) - 1;
}

float HalfToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 31;
  const uint32_t mantissa = bits & 1023;
  if (exponent == 31) return __builtin_bit_cast(float, sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return __builtin_bit_cast(float, sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t FloatToHalf(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00;   // NaN
  if (magnitude >= 0x477ff000u) return sign | 0x7c00;  // rounds to infinity
  if (magnitude < 0x38800000u) {                       // subnormal half: scale and let the FPU round
    const float scaled = __builtin_bit_cast(float, magnitude) * 0x1p24f;
    return sign | static_cast<uint16_t>(std::nearbyintf(scaled));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1);
  return sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13);
}

uint16_t FloatToBfloat16(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

}  // namespace evoq
