// Element types. The numbers are ONNX's TensorProto.DataType.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace evoq {

enum class DType : int8_t {
  kUndefined = 0,
  kFloat32 = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,  // elements are std::string
  kBool = 9,
  kFloat16 = 10,
  kFloat64 = 11,
  kUint32 = 12,
  kUint64 = 13,
  kBfloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUint4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUint2 = 25,
  kInt2 = 26,
};

// ONNX's lower-case names: "float32", "uint8", ..., "undefined".
const char* DTypeName(DType dtype);
std::optional<DType> DTypeFromName(std::string_view name);
// The DType with this ONNX number, or nothing when evoq has no such type.
std::optional<DType> DTypeFromOnnx(int number);

// Bits of one element. Those of fewer than 8 (4 or 2) are packed, the first element in a byte's
// lowest bits.
int DTypeBits(DType dtype);

bool IsFloat(DType dtype);      // any floating-point type, of 4 to 64 bits
bool IsTinyFloat(DType dtype);  // a floating-point type of 8 bits or fewer
bool IsInteger(DType dtype);    // any signed or unsigned integer; not bool
bool IsSigned(DType dtype);

// The range of an integer type that fits int64 (uint64's maximum is cut to int64's).
int64_t IntegerMin(DType dtype);
int64_t IntegerMax(DType dtype);

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kFloat32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kFloat64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kUint8;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::kInt8;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType value = DType::kUint16;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::kInt16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kInt32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kInt64;
};
template <>
struct DTypeOf<uint32_t> {
  static constexpr DType value = DType::kUint32;
};
template <>
struct DTypeOf<uint64_t> {
  static constexpr DType value = DType::kUint64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};
template <>
struct DTypeOf<std::string> {
  static constexpr DType value = DType::kString;
};

// Bit patterns of the 16-bit float types. Conversions round to nearest, ties to even.
float HalfToFloat(uint16_t bits);
uint16_t FloatToHalf(float value);
inline float Bfloat16ToFloat(uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16);
}
uint16_t FloatToBfloat16(float value);

// How float8e8m0, which holds powers of two only, stands for what lies between two of them.
enum class Rounding { kNearest, kUp, kDown };

// Bit patterns of the floating-point types of 8 bits or fewer (IsTinyFloat), in the low bits of a
// byte. Rounds to nearest, ties to even. What is too large becomes the largest number with
// `saturate`, else infinity, or NaN where the type has no infinity. float8e8m0 is 2^(bits - 127),
// rounded as `rounding` says.
float TinyFloatToFloat(DType dtype, uint8_t bits);
uint8_t FloatToTinyFloat(DType dtype, float value, bool saturate = true,
                         Rounding rounding = Rounding::kUp);

}  // namespace evoq
