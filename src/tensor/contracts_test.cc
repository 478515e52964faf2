// Types, shapes, values: every row of the table of element types, and what stands at the limits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/attrs.h"
#include "tensor/half.h"
#include "tensor/normal_float.h"
#include "tensor/tensor.h"

namespace evoq {
namespace {

// ONNX's numbers, names and properties, written down a second time.
TEST(DType, TheWholeTable) {
  const struct {
    int number;
    const char* name;
    int bits;
    char kind;  // f: float, i: signed integer, u: unsigned integer, o: other
    double low, high;
  } rows[] = {
      {1, "float32", 32, 'f', 0, 0},
      {2, "uint8", 8, 'u', 0, 255},
      {3, "int8", 8, 'i', -128, 127},
      {4, "uint16", 16, 'u', 0, 65535},
      {5, "int16", 16, 'i', -32768, 32767},
      {6, "int32", 32, 'i', -2147483648.0, 2147483647.0},
      {7, "int64", 64, 'i', -0x1p63, 0x1p63},
      {8, "string", 256, 'o', 0, 0},
      {9, "bool", 8, 'o', 0, 0},
      {10, "float16", 16, 'f', 0, 0},
      {11, "float64", 64, 'f', 0, 0},
      {12, "uint32", 32, 'u', 0, 4294967295.0},
      {13, "uint64", 64, 'u', 0, 0x1p63},
      {16, "bfloat16", 16, 'f', 0, 0},
      {17, "float8e4m3fn", 8, 'f', 0, 0},
      {18, "float8e4m3fnuz", 8, 'f', 0, 0},
      {19, "float8e5m2", 8, 'f', 0, 0},
      {20, "float8e5m2fnuz", 8, 'f', 0, 0},
      {21, "uint4", 4, 'u', 0, 15},
      {22, "int4", 4, 'i', -8, 7},
      {23, "float4e2m1", 4, 'f', 0, 0},
      {24, "float8e8m0", 8, 'f', 0, 0},
      {25, "uint2", 2, 'u', 0, 3},
      {26, "int2", 2, 'i', -2, 1},
  };
  int found = 0;
  for (int number = -5; number < 60; ++number) {
    const auto dtype = DTypeFromOnnx(number);
    if (number == 0) continue;  // undefined
    const auto row = std::find_if(std::begin(rows), std::end(rows),
                                  [&](const auto& r) { return r.number == number; });
    ASSERT_EQ(dtype.has_value(), row != std::end(rows)) << number;
    if (!dtype) continue;
    ++found;
    EXPECT_STREQ(DTypeName(*dtype), row->name);
    EXPECT_EQ(DTypeFromName(row->name), dtype);
    EXPECT_EQ(DTypeBits(*dtype), row->bits) << row->name;
    EXPECT_EQ(IsFloat(*dtype), row->kind == 'f') << row->name;
    EXPECT_EQ(IsTinyFloat(*dtype), row->kind == 'f' && row->bits <= 8) << row->name;
    EXPECT_EQ(IsInteger(*dtype), row->kind == 'i' || row->kind == 'u') << row->name;
    EXPECT_EQ(IsSigned(*dtype), row->kind == 'i' || (row->kind == 'f' && row->number != 24))
        << row->name;
    if (row->kind != 'i' && row->kind != 'u') continue;
    EXPECT_EQ(static_cast<double>(IntegerMin(*dtype)), row->low) << row->name;
    EXPECT_EQ(static_cast<double>(IntegerMax(*dtype)), row->high) << row->name;
  }
  EXPECT_EQ(found, 24);
  EXPECT_EQ(IntegerMax(DType::kInt64), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(IntegerMax(DType::kUint64), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(DTypeFromName("float"), std::nullopt);
}

TEST(DTypes, TheHalfAtLeast) {
  EXPECT_EQ(HalfAtLeast(0), 0);
  EXPECT_EQ(HalfAtLeast(1), 0x3c00) << "itself";
  EXPECT_EQ(HalfAtLeast(1 + 0x1p-20f), 0x3c01) << "up, where the nearest is below";
  EXPECT_EQ(HalfAtLeast(1 + 0x1.8p-11f), 0x3c01);
  EXPECT_EQ(HalfAtLeast(0x1p-40f), 1) << "the smallest";
  EXPECT_EQ(HalfAtLeast(65504), 0x7bff);
  for (const float large : {65504.5f, 1e30f, INFINITY}) EXPECT_EQ(HalfAtLeast(large), 0x7bff);
}

TEST(DType, HalvesAndBfloatsRoundToEven) {
  // 1 + 2^-11 lies between 1 and 1 + 2^-10; 1 + 3 * 2^-11 between that and 1 + 2^-9.
  EXPECT_EQ(FloatToHalf(1 + 0x1p-11f), 0x3c00);
  EXPECT_EQ(FloatToHalf(1 + 0x1.8p-11f), 0x3c01);
  EXPECT_EQ(FloatToHalf(1 + 3 * 0x1p-11f), 0x3c02);
  EXPECT_EQ(FloatToHalf(-1 - 3 * 0x1p-11f), 0xbc02);
  // Subnormal halves are multiples of 2^-24.
  EXPECT_EQ(FloatToHalf(0x1p-25f), 0x0000) << "a tie to zero";
  EXPECT_EQ(FloatToHalf(0x1.8p-24f), 0x0002) << "a tie between 1 and 2";
  EXPECT_EQ(FloatToHalf(0x1p-14f), 0x0400);
  EXPECT_EQ(FloatToHalf(0x1.ff8p-15f), 0x03ff);
  EXPECT_EQ(FloatToHalf(0x1.ffcp-15f), 0x0400) << "a tie between 1023 and 1024";
  EXPECT_EQ(FloatToHalf(-0.0f), 0x8000);
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(FloatToHalf(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(HalfToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(HalfToFloat(0x8001), -0x1p-24f);
  EXPECT_EQ(HalfToFloat(0x3555), 0x1.554p-2f);
  // bfloat16: 8 bits of precision.
  EXPECT_EQ(FloatToBfloat16(1.0f), 0x3f80);
  EXPECT_EQ(FloatToBfloat16(1 + 0x1p-8f), 0x3f80);
  EXPECT_EQ(FloatToBfloat16(1 + 3 * 0x1p-8f), 0x3f82);
  EXPECT_EQ(FloatToBfloat16(1 + 0x1.02p-8f), 0x3f81);
  EXPECT_EQ(FloatToBfloat16(std::numeric_limits<float>::max()), 0x7f80) << "rounds to infinity";
  EXPECT_TRUE(std::isnan(Bfloat16ToFloat(FloatToBfloat16(__builtin_bit_cast(float, 0x7f800001u)))));
  EXPECT_EQ(Bfloat16ToFloat(0xc049), -3.140625f);
}

TEST(DType, PowersOfTwoAsScales) {
  const auto power = [](float value, Rounding rounding, bool saturate = true) {
    return static_cast<int>(FloatToTinyFloat(DType::kFloat8E8M0, value, saturate, rounding));
  };
  EXPECT_EQ(power(1, Rounding::kUp), 127);
  EXPECT_EQ(power(1.25f, Rounding::kUp), 128);
  EXPECT_EQ(power(1.25f, Rounding::kDown), 127);
  EXPECT_EQ(power(1.25f, Rounding::kNearest), 127);
  EXPECT_EQ(power(1.5f, Rounding::kNearest), 128);
  EXPECT_EQ(power(-8, Rounding::kDown), 130);
  EXPECT_EQ(power(0, Rounding::kUp), 0);
  EXPECT_EQ(power(0x1p-149f, Rounding::kDown), 0);
  EXPECT_EQ(power(0x1p127f, Rounding::kUp), 254);
  EXPECT_EQ(power(0x1.8p127f, Rounding::kUp), 254);
  EXPECT_EQ(power(0x1.8p127f, Rounding::kUp, false), 255);
  EXPECT_EQ(power(std::numeric_limits<float>::infinity(), Rounding::kUp), 254);
  EXPECT_EQ(power(std::numeric_limits<float>::infinity(), Rounding::kUp, false), 255);
  EXPECT_EQ(power(std::nanf(""), Rounding::kUp), 255);
  EXPECT_TRUE(std::isnan(TinyFloatToFloat(DType::kFloat8E8M0, 255)));
  EXPECT_EQ(TinyFloatToFloat(DType::kFloat8E8M0, 254), 0x1p127f);
  EXPECT_EQ(TinyFloatToFloat(DType::kFloat8E8M0, 0), 0x1p-127f);
}

TEST(Shape, TextSizesAndAxes) {
  const Shape mixed(std::vector<Dim>{Dim::Symbolic("N"), Dim(3), Dim()});
  EXPECT_EQ(mixed.ToString(), "[N, 3, ?]");
  EXPECT_EQ(Shape{}.ToString(), "[]");
  EXPECT_EQ(Shape::UnknownRank().ToString(), "[...]");
  EXPECT_FALSE(mixed.is_static());
  EXPECT_FALSE(Shape::UnknownRank().is_static());
  EXPECT_TRUE(Shape{}.is_static());
  EXPECT_EQ(mixed.elements(), std::nullopt);
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_EQ((Shape{2, 0, 5}).elements(), 0);
  EXPECT_EQ((Shape{int64_t{1} << 40, int64_t{1} << 40}).elements(), std::nullopt);
  EXPECT_EQ(mixed.sizes(), (std::vector<int64_t>{-1, 3, -1}));
  EXPECT_EQ(RowMajorStrides({2, 3, 4}), (std::vector<int64_t>{12, 4, 1}));
  EXPECT_TRUE(RowMajorStrides({}).empty());
  EXPECT_EQ(NormalizeAxis(-3, 3).value(), 0);
  EXPECT_EQ(NormalizeAxis(2, 3).value(), 2);
  EXPECT_EQ(NormalizeAxis(0, 3).value(), 0);
  EXPECT_FALSE(NormalizeAxis(3, 3));
  EXPECT_FALSE(NormalizeAxis(-4, 3));
  EXPECT_FALSE(NormalizeAxis(0, 0));
  EXPECT_FALSE(Shape{3} == Shape::UnknownRank());
  EXPECT_FALSE(Shape(std::vector<Dim>{Dim::Symbolic("N")}) ==
               Shape(std::vector<Dim>{Dim::Symbolic("M")}));
}

TEST(Type, BytesTextAndEquality) {
  EXPECT_EQ(TensorType(DType::kFloat32, Shape{2, 3}).bytes(), 24);
  EXPECT_EQ(TensorType(DType::kUint4, Shape{4}).bytes(), 2);
  EXPECT_EQ(TensorType(DType::kUint4, Shape{5}).bytes(), 3);
  EXPECT_EQ(TensorType(DType::kInt2, Shape{5}).bytes(), 2);
  EXPECT_EQ(TensorType(DType::kInt2, Shape{0}).bytes(), 0);
  EXPECT_EQ(TensorType(DType::kUint8, Shape{int64_t{1} << 59}).bytes(), int64_t{1} << 59);
  EXPECT_EQ(TensorType(DType::kUint8, Shape{int64_t{1} << 60}).bytes(), std::nullopt)
      << "its bits do not fit";
  EXPECT_EQ(TensorType::In(ValueKind::kSequence, DType::kFloat32, Shape{2}).bytes(), std::nullopt);
  const TensorType plain(DType::kUint8, Shape{1, 8});
  const TensorType scaled(DType::kUint8, Shape{1, 8}, QuantParams::PerTensor(0.02f, 128));
  EXPECT_EQ(scaled.ToString(), "uint8[1, 8](scale 0.02, zero 128)");
  EXPECT_EQ(TensorType(DType::kInt8, Shape{2, 3}, QuantParams{{1, 2}, {0, 0}, 0, 0}).ToString(),
            "int8[2, 3](2 scales on axis 0)");
  EXPECT_EQ(TensorType(DType::kInt4, Shape{2, 4}, QuantParams{{1, 2, 3, 4}, {0, 0, 0, 0}, 1, 2})
                .ToString(),
            "int4[2, 4](4 scales on axis 1, block 2)");
  EXPECT_EQ(TensorType::In(ValueKind::kOptional, DType::kFloat32, Shape{2}).ToString(),
            "optional(float32[2])");
  EXPECT_EQ(
      TensorType::In(ValueKind::kOptionalSequence, DType::kInt64, Shape::UnknownRank()).ToString(),
      "optional(sequence(int64[...]))");
  EXPECT_TRUE(plain == TensorType(DType::kUint8, Shape{1, 8}));
  EXPECT_FALSE(plain == scaled);
  EXPECT_FALSE(scaled == plain);
  EXPECT_TRUE(scaled == TensorType(DType::kUint8, Shape{1, 8}, QuantParams::PerTensor(0.02f, 128)));
  EXPECT_FALSE(scaled ==
               TensorType(DType::kUint8, Shape{1, 8}, QuantParams::PerTensor(0.02f, 127)));
  EXPECT_FALSE(scaled ==
               TensorType(DType::kUint8, Shape{1, 8}, QuantParams::PerTensor(0.03f, 128)));
  EXPECT_FALSE(plain == TensorType(DType::kInt8, Shape{1, 8}));
  EXPECT_FALSE(plain == TensorType(DType::kUint8, Shape{8}));
  EXPECT_FALSE(plain == TensorType::In(ValueKind::kSequence, DType::kUint8, Shape{1, 8}));
  EXPECT_TRUE(scaled.Dequantized() == TensorType(DType::kFloat32, Shape{1, 8}));
  EXPECT_TRUE(plain.Dequantized() == plain);
}

TEST(Type, QuantizationIsValidated) {
  const auto error = [](DType dtype, Shape shape, QuantParams q) -> std::string {
    const Status status = ValidateQuant(TensorType(dtype, std::move(shape), std::move(q)));
    return status ? "" : status.error().message();
  };
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(error(DType::kInt8, {2, 3}, {{1}, {127}, -1, 0}), "");
  EXPECT_EQ(error(DType::kInt8, {2, 3}, {{1}, {-128}, -1, 0}), "");
  EXPECT_EQ(error(DType::kInt8, {2, 3}, {{1}, {128}, -1, 0}),
            "zero point 128 outside int8's range");
  EXPECT_EQ(error(DType::kInt8, {2, 3}, {{1}, {-129}, -1, 0}),
            "zero point -129 outside int8's range");
  EXPECT_EQ(error(DType::kUint8, {2, 3}, {{1}, {-1}, -1, 0}),
            "zero point -1 outside uint8's range");
  EXPECT_EQ(error(DType::kUint4, {2, 3}, {{1}, {16}, -1, 0}),
            "zero point 16 outside uint4's range");
  EXPECT_EQ(
      error(DType::kFloat32, {2, 3}, {{1}, {0}, -1, 0}),
      "a quantized type of float32, expected an integer type, a float of 4 bits, float8e4m3fn "
      "or float8e5m2");
  EXPECT_EQ(error(DType::kFloat4E2M1, {2, 3}, {{1}, {0}, -1, 0}), "");
  EXPECT_EQ(error(DType::kFloat4E2M1, {2, 3}, {{1}, {1}, -1, 0}),
            "zero point 1 of float4e2m1, expected 0");
  for (DType dtype : {DType::kFloat8E4M3FN, DType::kFloat8E5M2}) {
    EXPECT_EQ(error(dtype, {2, 3}, {{1}, {0}, -1, 0}), "");
    EXPECT_NE(error(dtype, {2, 3}, {{1}, {1}, -1, 0}), "");
  }
  EXPECT_NE(error(DType::kFloat8E4M3FNUZ, {2, 3}, {{1}, {0}, -1, 0}), "");
  EXPECT_NE(error(DType::kInt8, {2, 3}, {{}, {}, -1, 0}), "");
  EXPECT_NE(error(DType::kInt8, {2, 3}, {{1, 2}, {0}, 0, 0}), "");
  EXPECT_EQ(error(DType::kInt8, {2, 3}, {{1, 2}, {0, 0}, -1, 0}),
            "2 scales without an axis, expected 1");
  EXPECT_EQ(error(DType::kInt8, {2, 3}, {{1, 2}, {0, 0}, 0, 0}), "");
  EXPECT_EQ(error(DType::kInt8, {2, 3}, {{1, 2}, {0, 0}, 1, 0}), "2 scales on axis 1 of size 3");
  EXPECT_EQ(error(DType::kInt8, {2, 3}, {{1, 2}, {0, 0}, 2, 0}),
            "quantization axis 2 of a tensor of rank 2");
  EXPECT_EQ(error(DType::kInt8, {2, 3}, {{1, 2, 3, 4}, {0, 0, 0, 0}, 1, 2}), "")
      << "blocks of 2 and 1 in each row";
  EXPECT_NE(error(DType::kInt8, {2, 3}, {{1, 2, 3}, {0, 0, 0}, 1, 2}), "");
  EXPECT_EQ(error(DType::kInt8, {2, 3}, {{1, 2}, {0, 0}, 1, -1}),
            "blocks of -1 on axis 1 of a tensor of rank 2");
  EXPECT_EQ(error(DType::kInt8, {2, 3}, {{1, 2}, {0, 0}, 2, 3}),
            "blocks of 3 on axis 2 of a tensor of rank 2");
  EXPECT_EQ(error(DType::kInt8, {2, 3}, {{1, 0}, {0, 0}, 0, 0}),
            "scale 0, expected a finite number > 0");
  EXPECT_NE(error(DType::kInt8, {2, 3}, {{1, -1}, {0, 0}, 0, 0}), "");
  EXPECT_NE(error(DType::kInt8, {2, 3}, {{inf}, {0}, -1, 0}), "");
  EXPECT_NE(error(DType::kInt8, {2, 3}, {{std::nanf("")}, {0}, -1, 0}), "");
  EXPECT_EQ(error(DType::kInt8, {2, 3}, {{0x1p-149f}, {0}, -1, 0}), "");
}

// Numbers of float4e2m1 times the scale of their block: 3 and -0.5 are 5 and 9 in bits.
TEST(Tensor, QuantizedFloats) {
  const TensorType type(DType::kFloat4E2M1, Shape{3, 1}, QuantParams{{2, 0.25f}, {0, 0}, 0, 2});
  const Tensor real = Tensor::FromValues<float>(Shape{3, 1}, {6.9f, -1, 0.8f});
  const Tensor q = QuantizeTensor(real, type).value();
  EXPECT_EQ(PackedBits(q.raw(), 0, 4), 5);
  EXPECT_EQ(PackedBits(q.raw(), 1, 4), 9);
  EXPECT_EQ(PackedBits(q.raw(), 2, 4), 5);
  const Tensor back = ToFloat32(q).value();
  EXPECT_EQ(std::vector<float>(back.data<float>(), back.data<float>() + 3),
            (std::vector<float>{6, -1, 0.75f}));
}

// Each number of NF4 is its own, the lesser neighbour of two, and of what lies outside the end.
TEST(Tensor, NormalFloats) {
  EXPECT_STREQ(DTypeName(kNormalFloat4), "nf4");
  EXPECT_EQ(DTypeFromName("nf4"), kNormalFloat4);
  EXPECT_EQ(DTypeFromOnnx(64), std::nullopt);
  EXPECT_EQ(DTypeFromEtm(64), kNormalFloat4);
  EXPECT_EQ(DTypeFromEtm(22), DType::kInt4);
  EXPECT_EQ(DTypeFromEtm(65), std::nullopt);
  for (int i = 0; i < 16; ++i) {
    const float value = TinyFloatToFloat(kNormalFloat4, static_cast<uint8_t>(i));
    EXPECT_EQ(value, kNormalFloat4Values[i]);
    EXPECT_EQ(FloatToTinyFloat(kNormalFloat4, value), i);
    if (i == 0) continue;
    EXPECT_EQ(FloatToTinyFloat(kNormalFloat4, (value + kNormalFloat4Values[i - 1]) / 2), i - 1);
    EXPECT_EQ(FloatToTinyFloat(kNormalFloat4, 0.49f * kNormalFloat4Values[i - 1] + 0.51f * value),
              i);
  }
  EXPECT_EQ(FloatToTinyFloat(kNormalFloat4, -7), 0);
  EXPECT_EQ(FloatToTinyFloat(kNormalFloat4, INFINITY), 15);
  EXPECT_EQ(FloatToTinyFloat(kNormalFloat4, NAN), 7);
}

// Elements of 4 and 2 bits, the first in the lowest bits: -1, 7, -8 as int4 are 0xf, 0x7, 0x8.
TEST(Tensor, PackedElements) {
  const std::byte nibbles[] = {std::byte{0x7f}, std::byte{0x08}};
  const Tensor four = Tensor::View(TensorType(DType::kInt4, Shape{3}), nibbles, nullptr);
  EXPECT_EQ(ToInt64s(four).value(), (std::vector<int64_t>{-1, 7, -8}));
  const Tensor unsigned_four = Tensor::View(TensorType(DType::kUint4, Shape{3}), nibbles, nullptr);
  EXPECT_EQ(ToInt64s(unsigned_four).value(), (std::vector<int64_t>{15, 7, 8}));
  const std::byte pairs[] = {std::byte{0b10'01'11'00}, std::byte{0b01}};
  EXPECT_EQ(ToInt64s(Tensor::View(TensorType(DType::kInt2, Shape{5}), pairs, nullptr)).value(),
            (std::vector<int64_t>{0, -1, 1, -2, 1}));
  EXPECT_EQ(ToInt64s(Tensor::View(TensorType(DType::kUint2, Shape{5}), pairs, nullptr)).value(),
            (std::vector<int64_t>{0, 3, 1, 2, 1}));
  EXPECT_EQ(ToFloat32(four).value().data<float>()[2], -8);
  const Tensor x = Tensor::FromValues<float>(Shape{3}, {-1, 100, -100});
  const Tensor q =
      QuantizeTensor(x, TensorType(DType::kInt4, Shape{3}, QuantParams::PerTensor(1, 0))).value();
  EXPECT_EQ(ToInt64s(q).value(), (std::vector<int64_t>{-1, 7, -8}));
  EXPECT_EQ(q.raw()[0], nibbles[0]);
}

// As float32 the largest integers of 32 and 64 bits are one more than themselves.
TEST(QuantizeTensorTest, SaturatesToIntegersThatFloat32DoesNotHold) {
  const Tensor x = Tensor::FromValues<float>(Shape{4}, {3e9f, -3e9f, 1e30f, -1e30f});
  const auto to = [&](DType dtype) {
    return QuantizeTensor(x, TensorType(dtype, x.shape(), QuantParams::PerTensor(1, 0))).value();
  };
  const Tensor narrow = to(DType::kInt32), wide = to(DType::kInt64);
  EXPECT_EQ(narrow.data<int32_t>()[0], INT32_MAX);
  EXPECT_EQ(narrow.data<int32_t>()[1], INT32_MIN);
  EXPECT_EQ(wide.data<int64_t>()[0], 3000000000);
  EXPECT_EQ(wide.data<int64_t>()[2], INT64_MAX);
  EXPECT_EQ(wide.data<int64_t>()[3], INT64_MIN);
}

TEST(Tensor, ConversionsRefuseWhatHasNoNumbers) {
  EXPECT_FALSE(ToInt64s(Tensor::FromValues<float>(Shape{1}, {1})));
  EXPECT_FALSE(
      ToInt64s(Tensor::Packed(TensorType(DType::kInt8, Shape{1}), "l", std::vector<std::byte>(4))));
  EXPECT_EQ(ToInt64s(Tensor::FromValues<bool>(Shape{2}, {true, false})).value(),
            (std::vector<int64_t>{1, 0}));
  EXPECT_FALSE(ToFloat32(Tensor::FromValues<std::string>(Shape{1}, {"1"})));
  EXPECT_FALSE(ToFloat32(
      Tensor::Packed(TensorType(DType::kFloat32, Shape{1}), "l", std::vector<std::byte>(4))));
  // (q - zero) * scale, by row.
  Tensor q = Tensor::Allocate(
      TensorType(DType::kUint8, Shape{2, 2}, QuantParams{{0.5f, 2}, {10, 20}, 0, 0}));
  for (int i = 0; i < 4; ++i)
    q.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(12 + 7 * i);  // 12, 19, 26, 33
  const Tensor real = ToFloat32(q).value();
  EXPECT_EQ(std::vector<float>(real.data<float>(), real.data<float>() + 4),
            (std::vector<float>{1, 4.5f, 12, 26}));
  const Tensor x = Tensor::FromValues<float>(Shape{2}, {1, 2});
  EXPECT_FALSE(QuantizeTensor(x, TensorType(DType::kInt8, Shape{2})));
  EXPECT_FALSE(
      QuantizeTensor(x, TensorType(DType::kInt8, Shape{1, 2}, QuantParams::PerTensor(1, 0))));
  EXPECT_FALSE(QuantizeTensor(q, q.type()));
}

TEST(Tensor, EqualBitForBit) {
  const Tensor a = Tensor::FromValues<float>(Shape{2}, {0, 1});
  EXPECT_TRUE(BitEqual(a, a.Clone()));
  EXPECT_NE(a.raw(), a.Clone().raw());
  EXPECT_FALSE(BitEqual(a, Tensor::FromValues<float>(Shape{2}, {-0.0f, 1})));
  EXPECT_FALSE(BitEqual(a, Tensor::FromValues<float>(Shape{1, 2}, {0, 1})));
  EXPECT_FALSE(BitEqual(a, Tensor::FromValues<float>(Shape{2}, {0, 2})));
  const float nan = std::nanf("");
  EXPECT_TRUE(BitEqual(Tensor::FromValues<float>(Shape{1}, {nan}),
                       Tensor::FromValues<float>(Shape{1}, {nan})));
  const Tensor row = a.WithType(TensorType(DType::kFloat32, Shape{1, 2}));
  EXPECT_EQ(row.raw(), a.raw());
  EXPECT_EQ(row.elements(), 2);
  EXPECT_FALSE(BitEqual(Tensor::Packed(a.type(), "x", std::vector<std::byte>(8)),
                        Tensor::Packed(a.type(), "y", std::vector<std::byte>(8))));
}

TEST(Attrs, KindsNamesAndEquality) {
  Attrs a;
  EXPECT_EQ(a.ToString(), "");
  EXPECT_TRUE(a.empty());
  a.Set("i", 3);
  a.Set("f", 0.5f);
  a.Set("s", "text");
  a.Set("is", std::vector<int64_t>{1, 2});
  a.Set("fs", std::vector<float>{1, 2});
  EXPECT_TRUE(a.Has("i") && a.KindIs<int64_t>("i") && !a.KindIs<float>("i") &&
              !a.KindIs<float>("none"));
  EXPECT_EQ(a.Int("i", 9), 3);
  EXPECT_EQ(a.Int("none", 9), 9);
  EXPECT_EQ(a.Float("f"), 0.5f);
  EXPECT_EQ(a.Float("i", 2), 2);
  EXPECT_EQ(a.String("s"), "text");
  EXPECT_EQ(a.Ints("is"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(a.Floats("fs").size(), 2u);
  EXPECT_TRUE(a.Ints("fs").empty());
  Attrs b = a;
  EXPECT_TRUE(a == b);
  b.Set("i", 4);
  EXPECT_FALSE(a == b);
  b.Set("i", 3.0f);
  EXPECT_FALSE(a == b) << "another kind";
  b = a;
  b.Erase("s");
  EXPECT_FALSE(a == b);
  EXPECT_FALSE(b == a);
  b.Set("t", "text");
  EXPECT_FALSE(a == b) << "another name";
}

}  // namespace
}  // namespace evoq
