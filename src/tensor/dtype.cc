#include "tensor/dtype.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/normal_float.h"

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
    {DType::kString, "string", 8 * sizeof(std::string), false, false, false},
    {DType::kBool, "bool", 8, false, false, false},
    {DType::kFloat16, "float16", 16, true, false, true},
    {DType::kFloat64, "float64", 64, true, false, true},
    {DType::kUint32, "uint32", 32, false, true, false},
    {DType::kUint64, "uint64", 64, false, true, false},
    {DType::kBfloat16, "bfloat16", 16, true, false, true},
    {DType::kUint4, "uint4", 4, false, true, false},
    {DType::kInt4, "int4", 4, false, true, true},
    {DType::kFloat8E4M3FN, "float8e4m3fn", 8, true, false, true},
    {DType::kFloat8E4M3FNUZ, "float8e4m3fnuz", 8, true, false, true},
    {DType::kFloat8E5M2, "float8e5m2", 8, true, false, true},
    {DType::kFloat8E5M2FNUZ, "float8e5m2fnuz", 8, true, false, true},
    {DType::kFloat4E2M1, "float4e2m1", 4, true, false, true},
    {DType::kFloat8E8M0, "float8e8m0", 8, true, false, false},
    {DType::kUint2, "uint2", 2, false, true, false},
    {DType::kInt2, "int2", 2, false, true, true},
    {kNormalFloat4, "nf4", 4, true, false, true},
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

std::optional<DType> DTypeFromEtm(int number) {
  for (const Row& row : kRows) {
    if (number == static_cast<int>(row.dtype)) return row.dtype;
  }
  return std::nullopt;
}

std::optional<DType> DTypeFromOnnx(int number) {
  return number == static_cast<int>(kNormalFloat4) ? std::nullopt : DTypeFromEtm(number);
}

int DTypeBits(DType dtype) { return RowOf(dtype).bits; }
bool IsFloat(DType dtype) { return RowOf(dtype).is_float; }
bool IsTinyFloat(DType dtype) { return RowOf(dtype).is_float && RowOf(dtype).bits <= 8; }
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
  if (magnitude < 0x38800000u) {  // subnormal half: scale and let the FPU round
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

namespace {

// A format of sign, exponent and mantissa: value = (-1)^s * 2^(e - bias) * (1 + m / 2^mantissa),
// subnormal for e = 0.
struct TinyFormat {
  DType dtype;
  int mantissa, exponent, bias;
  bool infinity;  // e = all ones, m = 0 is infinity and other m are NaN, as in IEEE 754
  int nan;        // the magnitude bits of NaN; -1: NaN is the negative zero; -2: none
};

constexpr TinyFormat kTinyFormats[] = {
    {DType::kFloat8E4M3FN, 3, 4, 7, false, 0x7f}, {DType::kFloat8E4M3FNUZ, 3, 4, 8, false, -1},
    {DType::kFloat8E5M2, 2, 5, 15, true, 0x7e},   {DType::kFloat8E5M2FNUZ, 2, 5, 16, false, -1},
    {DType::kFloat4E2M1, 1, 2, 1, false, -2},
};

const TinyFormat& TinyFormatOf(DType dtype) {
  for (const TinyFormat& format : kTinyFormats) {
    if (format.dtype == dtype) return format;
  }
  return kTinyFormats[0];
}

// The value of magnitude bits that are neither NaN nor infinity.
float TinyMagnitude(const TinyFormat& f, int bits) {
  const int exponent = bits >> f.mantissa, mantissa = bits & ((1 << f.mantissa) - 1);
  const float fraction = static_cast<float>(mantissa) / static_cast<float>(1 << f.mantissa);
  return exponent == 0 ? std::ldexp(fraction, 1 - f.bias)
                       : std::ldexp(1 + fraction, exponent - f.bias);
}

// The largest magnitude bits that are a number.
int LargestTiny(const TinyFormat& f) {
  const int all = (1 << (f.mantissa + f.exponent)) - 1;
  if (f.infinity) return all - (1 << f.mantissa);
  return f.nan >= 0 ? f.nan - 1 : all;
}

uint8_t FloatToE8M0(float value, bool saturate, Rounding rounding) {
  if (std::isnan(value)) return 0xff;
  const float magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return saturate ? 0xfe : 0xff;
  if (magnitude == 0) return 0;
  int exponent = 0;
  const float fraction = std::frexp(magnitude, &exponent) * 2;  // in [1, 2), of 2^(exponent - 1)
  int power = exponent - 1;
  if (fraction > 1 && rounding == Rounding::kUp) ++power;
  // A tie goes up: the exponent's neighbour is as near, and scales rather grow than clip.
  if (fraction >= 1.5f && rounding == Rounding::kNearest) ++power;
  if (power > 127) return saturate ? 0xfe : 0xff;
  return static_cast<uint8_t>(power < -127 ? 0 : power + 127);
}

// The nearest; of two the lesser. NaN becomes 0.
uint8_t FloatToNormalFloat4(float value) {
  const auto& t = kNormalFloat4Values;
  if (std::isnan(value)) value = 0;
  uint8_t i = 0;
  while (i < 15 && value > (t[i] + t[i + 1]) / 2) ++i;
  return i;
}

}  // namespace

float TinyFloatToFloat(DType dtype, uint8_t bits) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  if (dtype == kNormalFloat4) return kNormalFloat4Values[bits & 15];
  if (dtype == DType::kFloat8E8M0) return bits == 0xff ? kNan : std::ldexp(1.0f, bits - 127);
  const TinyFormat& f = TinyFormatOf(dtype);
  const int sign = 1 << (f.mantissa + f.exponent), magnitude = bits & (sign - 1);
  const bool negative = (bits & sign) != 0;
  if (f.nan == -1 && negative && magnitude == 0) return kNan;
  if (magnitude > LargestTiny(f)) {
    const bool infinite = f.infinity && (magnitude & ((1 << f.mantissa) - 1)) == 0;
    return infinite ? (negative ? -1 : 1) * std::numeric_limits<float>::infinity() : kNan;
  }
  const float value = TinyMagnitude(f, magnitude);
  return negative ? -value : value;
}

uint8_t FloatToTinyFloat(DType dtype, float value, bool saturate, Rounding rounding) {
  if (dtype == DType::kFloat8E8M0) return FloatToE8M0(value, saturate, rounding);
  if (dtype == kNormalFloat4) return FloatToNormalFloat4(value);
  const TinyFormat& f = TinyFormatOf(dtype);
  const int sign = 1 << (f.mantissa + f.exponent), largest = LargestTiny(f);
  const bool negative = std::signbit(value);
  const auto with_sign = [&](int bits) {
    return static_cast<uint8_t>(negative ? bits | sign : bits);
  };
  // Where NaN has no bits of its own it becomes the negative zero, as in ONNX's cases.
  if (std::isnan(value)) return f.nan < 0 ? static_cast<uint8_t>(sign) : with_sign(f.nan);
  const float magnitude = std::fabs(value);
  // Steps of the format at this magnitude, rounded by the FPU; a carry goes into the exponent,
  // whose bits are next.
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int lowest = 1 - f.bias, power = magnitude == 0 ? lowest : std::max(exponent - 1, lowest);
  const float steps =
      std::isinf(magnitude) ? 0 : std::nearbyint(std::ldexp(magnitude, f.mantissa - power));
  const int64_t bits = std::isinf(magnitude)
                           ? largest + 1
                           : static_cast<int64_t>(steps) + (int64_t{power - lowest} << f.mantissa);
  if (bits <= largest) return bits == 0 && f.nan == -1 ? 0 : with_sign(static_cast<int>(bits));
  if (saturate || f.nan == -2) return with_sign(largest);
  if (f.infinity) return with_sign(largest + 1);
  return f.nan == -1 ? static_cast<uint8_t>(sign) : with_sign(f.nan);
}

}  // namespace evoq
