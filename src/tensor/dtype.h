// Element types. The numbers are ONNX's TensorProto.DataType.
#pragma once

#include <cstdint>
#include <optional>
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
  kBool = 9,
  kFloat16 = 10,
  kFloat64 = 11,
  kUint32 = 12,
  kUint64 = 13,
  kBfloat16 = 16,
  kUint4 = 21,
  kInt4 = 22,
};

// ONNX's lower-case names: "float32", "uint8", ..., "undefined".
const char* DTypeName(DType dtype);
std::optional<DType> DTypeFromName(std::string_view name);
// The DType with this ONNX number, or nothing when evoq has no such type.
std::optional<DType> DTypeFromOnnx(int number);

// Bits of one element; 4 for the nibble types, which are packed two to a byte, first element in the low nibble.
int DTypeBits(DType dtype);

bool IsFloat(DType dtype);    // float16, bfloat16, float32, float64
bool IsInteger(DType dtype);  // any signed or unsigned integer; not bool
bool IsSigned(DType dtype);

// The range of an integer type that fits int64 (uint64's maximum is cut to int64's).
int64_t IntegerMin(DType dtype);
int64_t IntegerMax(DType dtype);

template <typename T>
struct DTypeOf;
template <> struct DTypeOf<float> { static constexpr DType value = DType::kFloat32; };
template <> struct DTypeOf<double> { static constexpr DType value = DType::kFloat64; };
template <> struct DTypeOf<uint8_t> { static constexpr DType value = DType::kUint8; };
template <> struct DTypeOf<int8_t> { static constexpr DType value = DType::kInt8; };
template <> struct DTypeOf<uint16_t> { static constexpr DType value = DType::kUint16; };
template <> struct DTypeOf<int16_t> { static constexpr DType value = DType::kInt16; };
template <> struct DTypeOf<int32_t> { static constexpr DType value = DType::kInt32; };
template <> struct DTypeOf<int64_t> { static constexpr DType value = DType::kInt64; };
template <> struct DTypeOf<uint32_t> { static constexpr DType value = DType::kUint32; };
template <> struct DTypeOf<uint64_t> { static constexpr DType value = DType::kUint64; };
template <> struct DTypeOf<bool> { static constexpr DType value = DType::kBool; };

// Bit patterns of the 16-bit float types. Conversions round to nearest, ties to even.
float HalfToFloat(uint16_t bits);
uint16_t FloatToHalf(float value);
inline float Bfloat16ToFloat(uint16_t bits) { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }
uint16_t FloatToBfloat16(float value);

}  // namespace evoq
