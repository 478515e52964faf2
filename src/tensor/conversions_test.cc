// Numbers as they are stored: every element type's way to float32 and to int64 and back, and what
// tensors keep when they are copied, viewed and packed.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tensor/attrs.h"
#include "tensor/tensor.h"

namespace evoq {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> Floats(const Tensor& tensor) {
  const auto out = ToFloat32(tensor);
  EXPECT_TRUE(out) << tensor.type().ToString();
  const auto values = out.value().values<float>();
  return {values.begin(), values.end()};
}

// (-1)^s 2^(e - 15) (1 + m / 1024) of IEEE 754, 2^-14 m / 1024 for e = 0.
TEST(DTypeValues, EveryHalf) {
  for (int bits = 0; bits < 0x8000; ++bits) {
    const int exponent = bits / 1024, mantissa = bits % 1024;
    if (exponent == 31) break;
    const double value = exponent == 0 ? std::ldexp(mantissa / 1024.0, -14)
                                       : std::ldexp(1 + mantissa / 1024.0, exponent - 15);
    EXPECT_EQ(HalfToFloat(static_cast<uint16_t>(bits)), value) << bits;
    EXPECT_EQ(HalfToFloat(static_cast<uint16_t>(bits + 0x8000)), -value) << bits;
  }
  EXPECT_EQ(HalfToFloat(0x7c00), kInfinity);
  EXPECT_EQ(HalfToFloat(0xfc00), -kInfinity);
  EXPECT_TRUE(std::isnan(HalfToFloat(0x7c01)));
  const auto from = [](uint32_t bits) { return __builtin_bit_cast(float, bits); };
  EXPECT_EQ(FloatToHalf(from(0x7f800001)), 0x7e00) << "any NaN becomes the quiet one";
  EXPECT_EQ(FloatToHalf(from(0xffc00000)), 0xfe00);
  // NaN keeps the bits that bfloat16 has, and becomes quiet.
  EXPECT_EQ(FloatToBfloat16(from(0x7f800001)), 0x7fc0);
  EXPECT_EQ(FloatToBfloat16(from(0xff810000)), 0xffc1);
  EXPECT_EQ(FloatToBfloat16(kInfinity), 0x7f80);
  EXPECT_EQ(FloatToBfloat16(-kInfinity), 0xff80);
}

// Numbers of the tables of the OCP specifications (OFP8 1.0, MX 1.0) and of ONNX's page on float8.
TEST(DTypeValues, TinyFloats) {
  const struct {
    DType dtype;
    std::vector<std::pair<int, double>> numbers;
    std::vector<int> nans;
    int nan, negative_nan;  // what NaN becomes
    int beyond;             // and 1e6, where it does not saturate
  } rows[] = {
      {DType::kFloat8E4M3FN,
       {{0x01, 0x1p-9}, {0x08, 0x1p-6}, {0x38, 1}, {0x7e, 448}},
       {0x7f, 0xff},
       0x7f,
       0xff,
       0x7f},
      {DType::kFloat8E4M3FNUZ,
       {{0x01, 0x1p-10}, {0x08, 0x1p-7}, {0x40, 1}, {0x7f, 240}},
       {0x80},
       0x80,
       0x80,
       0x80},
      {DType::kFloat8E5M2,
       {{0x01, 0x1p-16}, {0x04, 0x1p-14}, {0x3c, 1}, {0x7b, 57344}, {0x7c, HUGE_VAL}},
       {0x7d, 0x7e, 0x7f, 0xfd, 0xfe, 0xff},
       0x7e,
       0xfe,
       0x7c},
      {DType::kFloat8E5M2FNUZ,
       {{0x01, 0x1p-17}, {0x04, 0x1p-15}, {0x40, 1}, {0x7f, 57344}},
       {0x80},
       0x80,
       0x80,
       0x80},
      {DType::kFloat4E2M1, {{0x1, 0.5}, {0x2, 1}, {0x3, 1.5}, {0x7, 6}}, {}, 0x8, 0x8, 0x7},
  };
  for (const auto& row : rows) {
    const char* const name = DTypeName(row.dtype);
    const int sign = 1 << (DTypeBits(row.dtype) - 1);
    const auto to = [&](float value, bool saturate = true) {
      return static_cast<int>(FloatToTinyFloat(row.dtype, value, saturate));
    };
    const auto from = [&](int bits) {
      return TinyFloatToFloat(row.dtype, static_cast<uint8_t>(bits));
    };
    for (const auto& [bits, value] : row.numbers) {
      EXPECT_EQ(from(bits), value) << name;
      EXPECT_EQ(from(bits + sign), -value) << name;
    }
    int nans = 0;
    for (int bits = 0; bits < 2 * sign; ++bits) nans += std::isnan(from(bits));
    EXPECT_EQ(nans, static_cast<int>(row.nans.size())) << name;
    for (const int bits : row.nans) EXPECT_TRUE(std::isnan(from(bits))) << name << bits;
    const float nan = std::nanf("");
    EXPECT_EQ(to(nan), row.nan) << name;
    EXPECT_EQ(to(-nan), row.negative_nan) << name;
    EXPECT_EQ(to(1e6f, false), row.beyond) << name;
    EXPECT_EQ(to(kInfinity, false), row.beyond) << name;
    const bool infinite = std::isinf(from(row.numbers.back().first));
    const int largest = row.numbers.back().first - infinite;
    EXPECT_EQ(to(kInfinity), largest) << name;
    EXPECT_EQ(to(-1e6f), largest + sign) << name;
    const bool one_zero = row.nans == std::vector<int>{0x80};
    EXPECT_EQ(to(-0.0f), one_zero ? 0 : sign) << name;
    EXPECT_EQ(to(-1e-9f), one_zero ? 0 : sign) << name;
    EXPECT_EQ(to(0), 0) << name;
  }
  // Unless the caller says otherwise: saturated, and powers of two rounded up.
  EXPECT_EQ(FloatToTinyFloat(DType::kFloat8E4M3FN, 1e6f), 0x7e);
  EXPECT_EQ(FloatToTinyFloat(DType::kFloat8E8M0, 1.25f), 128);
}

TEST(DTypeValues, TheUndefinedType) {
  for (const DType none : {DType::kUndefined, static_cast<DType>(99)}) {
    EXPECT_STREQ(DTypeName(none), "undefined");
    EXPECT_EQ(DTypeBits(none), 0);
    EXPECT_FALSE(IsFloat(none) || IsTinyFloat(none) || IsInteger(none) || IsSigned(none));
  }
  EXPECT_EQ(DTypeFromOnnx(0), DType::kUndefined);
}

template <typename T>
void ExpectNumbers(const std::vector<T>& values, const std::vector<double>& numbers) {
  const Tensor t = Tensor::FromValues(values);
  const std::vector<float> floats = Floats(t);
  for (size_t i = 0; i < numbers.size(); ++i)
    EXPECT_EQ(floats[i], static_cast<float>(numbers[i])) << t.type().ToString();
  if (!IsInteger(t.dtype()) && t.dtype() != DType::kBool) return;
  const std::vector<int64_t> integers = ToInt64s(t).value();
  for (size_t i = 0; i < numbers.size(); ++i)
    EXPECT_EQ(static_cast<double>(integers[i]), numbers[i]) << t.type().ToString();
}

TEST(TensorValues, OfEveryType) {
  ExpectNumbers<float>({-1.5f, 3}, {-1.5, 3});
  ExpectNumbers<double>({-1.5, 0x1p40}, {-1.5, 0x1p40});
  ExpectNumbers<uint8_t>({255, 3}, {255, 3});
  ExpectNumbers<int8_t>({-128, 3}, {-128, 3});
  ExpectNumbers<uint16_t>({65535, 3}, {65535, 3});
  ExpectNumbers<int16_t>({-32768, 3}, {-32768, 3});
  ExpectNumbers<int32_t>({-65536, 3}, {-65536, 3});
  ExpectNumbers<uint32_t>({4000000000u, 3}, {4e9, 3});
  ExpectNumbers<int64_t>({int64_t{-1} << 40, 3}, {-0x1p40, 3});
  ExpectNumbers<uint64_t>({uint64_t{1} << 40, 3}, {0x1p40, 3});
  ExpectNumbers<bool>({true, false}, {1, 0});
  // Written as their bits: 1.5, -2.
  const struct {
    DType dtype;
    std::vector<int> bytes;
  } rows[] = {{DType::kFloat16, {0x00, 0x3e, 0x00, 0xc0}},
              {DType::kBfloat16, {0xc0, 0x3f, 0x00, 0xc0}},
              {DType::kFloat8E4M3FN, {0x3c, 0xc0}},
              {DType::kFloat4E2M1, {0xc3}}};
  for (const auto& row : rows) {
    std::vector<std::byte> bytes;
    for (const int b : row.bytes) bytes.push_back(static_cast<std::byte>(b));
    const Tensor t = Tensor::View(TensorType(row.dtype, Shape{2}), bytes.data(), nullptr);
    EXPECT_EQ(t.bytes(), bytes.size());
    EXPECT_EQ(Floats(t), (std::vector<float>{1.5f, -2})) << DTypeName(row.dtype);
  }
}

// Blocks of 2 along the middle axis of [2, 3, 2]: (o, a, i) has the scale of (o, a / 2, i), of 2 x
// 2 x 2. The number of each element is 100 o + 10 a + i, each scale 1 + its number, each zero point
// its number.
TEST(TensorValues, BlocksAlongTheMiddleAxis) {
  QuantParams q;
  for (int s = 0; s < 8; ++s) {
    q.scales.push_back(static_cast<float>(1 + s));
    q.zero_points.push_back(s);
  }
  q.axis = 1;
  q.block = 2;
  const TensorType type(DType::kInt16, Shape{2, 3, 2}, q);
  Tensor stored = Tensor::Allocate(type);
  std::vector<float> real;
  for (int o = 0; o < 2; ++o) {
    for (int a = 0; a < 3; ++a) {
      for (int i = 0; i < 2; ++i) {
        const int number = 100 * o + 10 * a + i, s = 4 * o + 2 * (a / 2) + i;
        stored.mutable_data<int16_t>()[real.size()] = static_cast<int16_t>(number);
        real.push_back(static_cast<float>((number - s) * (1 + s)));
      }
    }
  }
  EXPECT_EQ(Floats(stored), real);
  const Tensor again =
      QuantizeTensor(Tensor::FromValues<float>(Shape{2, 3, 2}, real), type).value();
  EXPECT_TRUE(BitEqual(again, stored));
}

TEST(TensorValues, EveryTypeIsQuantizedTo) {
  const Tensor x = Tensor::FromValues<float>(Shape{3}, {-1e30f, 5, 1e30f});
  for (const DType dtype :
       {DType::kUint2, DType::kInt2, DType::kUint4, DType::kInt4, DType::kUint8, DType::kInt8,
        DType::kUint16, DType::kInt16, DType::kInt32, DType::kUint32, DType::kInt64}) {
    const Tensor q =
        QuantizeTensor(x, TensorType(dtype, Shape{3}, QuantParams::PerTensor(5, 0))).value();
    EXPECT_EQ(ToInt64s(q).value(), (std::vector<int64_t>{IntegerMin(dtype), 1, IntegerMax(dtype)}))
        << DTypeName(dtype);
  }
  // The first numbers that do not fit any more, exactly.
  const Tensor edge = Tensor::FromValues<float>(Shape{2}, {0x1p31f, 0x1p63f});
  const auto to = [&](DType dtype) {
    return ToInt64s(QuantizeTensor(edge, TensorType(dtype, Shape{2}, QuantParams::PerTensor(1, 0)))
                        .value())
        .value();
  };
  EXPECT_EQ(to(DType::kInt32), (std::vector<int64_t>{INT32_MAX, INT32_MAX}));
  EXPECT_EQ(to(DType::kInt64), (std::vector<int64_t>{int64_t{1} << 31, INT64_MAX}));
}

TEST(TensorValues, WrongParametersAreRefused) {
  const TensorType wrong(DType::kInt8, Shape{1}, QuantParams::PerTensor(0, 0));
  const auto real = ToFloat32(Tensor::Allocate(wrong));
  ASSERT_FALSE(real);
  EXPECT_EQ(real.error().message(), "scale 0, expected a finite number > 0");
  const Tensor x = Tensor::FromValues<float>(Shape{1}, {1});
  const auto q = QuantizeTensor(x, wrong);
  ASSERT_FALSE(q);
  EXPECT_EQ(q.error().message(), "scale 0, expected a finite number > 0");
  const TensorType good(DType::kInt8, Shape{1}, QuantParams::PerTensor(1, 0));
  const Tensor quantized =
      Tensor::Allocate(TensorType(DType::kFloat32, Shape{1}, QuantParams::PerTensor(1, 0)));
  EXPECT_FALSE(QuantizeTensor(quantized, good));
  EXPECT_FALSE(QuantizeTensor(Tensor::FromValues<double>(Shape{1}, {1}), good));
}

// What a shape does not tell cannot be wrong.
TEST(QuantOfFreeSizes, IsNotComparedWithThem) {
  const auto good = [](Shape shape, QuantParams q) {
    return ValidateQuant(TensorType(DType::kInt8, std::move(shape), std::move(q))).has_value();
  };
  const Shape free(std::vector<Dim>{Dim(), Dim(4)});
  const QuantParams axis{{1, 2, 3}, {0, 0, 0}, 0, 0}, blocks{{1, 2, 3}, {0, 0, 0}, 1, 2};
  EXPECT_TRUE(good(Shape::UnknownRank(), axis));
  EXPECT_TRUE(good(Shape::UnknownRank(), blocks));
  EXPECT_TRUE(good(free, axis));
  EXPECT_TRUE(good(free, blocks));
  EXPECT_FALSE(good(Shape{2, 4}, blocks));
  EXPECT_FALSE(good(Shape{0, 4}, axis));
  EXPECT_EQ(QuantParams().axis, -1);
  EXPECT_EQ(QuantParams().block, 0);
  EXPECT_EQ(QuantParams::PerTensor(2, 3), (QuantParams{{2}, {3}, -1, 0}));
}

TEST(TensorMemory, ViewsKeepTheirOwner) {
  const TensorType type(DType::kUint8, Shape{4});
  for (const bool packed : {false, true}) {
    auto owner = std::make_shared<std::vector<std::byte>>(4);
    const std::weak_ptr<std::vector<std::byte>> seen = owner;
    const std::byte* const data = owner->data();
    Tensor t = packed ? Tensor::PackedView(type, "rows", std::span(data, 4), std::move(owner))
                      : Tensor::View(type, data, std::move(owner));
    EXPECT_FALSE(seen.expired());
    EXPECT_EQ(t.raw(), data);
    EXPECT_EQ(t.elements(), 4);
    EXPECT_EQ(t.bytes(), 4u);
    t = Tensor();
    EXPECT_TRUE(seen.expired());
  }
  std::byte byte{};
  const TensorType one(DType::kUint8, Shape{1});
  EXPECT_DEATH(Tensor::View(one, &byte, nullptr).mutable_raw(), "a view is not writable");
  EXPECT_EQ(Tensor::Borrow(one, &byte).mutable_raw(), &byte);
  EXPECT_FALSE(Tensor().defined());
  EXPECT_EQ(Tensor().elements(), 0);
  EXPECT_EQ(Tensor().bytes(), 0u);
  EXPECT_TRUE(BitEqual(Tensor(), Tensor()));
}

// Memory that was used before is zeros again.
TEST(TensorMemory, IsFilledWithZeros) {
  const TensorType type(DType::kUint8, Shape{4096});
  for (int round = 0; round < 4; ++round) {
    Tensor t = Tensor::Allocate(type);
    for (int64_t i = 0; i < t.elements(); ++i) ASSERT_EQ(t.data<uint8_t>()[i], 0);
    std::memset(t.mutable_raw(), 0xff, t.bytes());
  }
  EXPECT_TRUE(Tensor::Allocate(TensorType(DType::kString, Shape{0})).defined());
  EXPECT_TRUE(Tensor::Allocate(TensorType(DType::kFloat32, Shape{0})).defined());
}

TEST(TensorMemory, PackedLayouts) {
  const std::vector<std::byte> bytes = {std::byte{1}, std::byte{2}, std::byte{3}};
  const TensorType type(DType::kInt8, Shape{2});
  const Tensor t = Tensor::Packed(type, "rows", bytes);
  EXPECT_EQ(t.layout(), "rows");
  EXPECT_EQ(t.bytes(), 3u);
  EXPECT_EQ(t.elements(), 2);
  EXPECT_EQ(std::memcmp(t.raw(), bytes.data(), 3), 0);
  const Tensor copy = t.Clone();
  EXPECT_EQ(copy.layout(), "rows");
  EXPECT_NE(copy.raw(), t.raw());
  EXPECT_TRUE(BitEqual(copy, t));
  EXPECT_FALSE(BitEqual(t, Tensor::Packed(type, "rows", {std::byte{1}, std::byte{2}})));
  const Shape free(std::vector<Dim>{Dim()});
  EXPECT_EQ(Tensor::Packed(TensorType(DType::kInt8, free), "rows", {}).elements(), 0);
  EXPECT_EQ(ToFloat32(t).error().code(), ErrorCode::kUnsupported);
}

TEST(TensorMemory, EqualityLooksAtEveryByte) {
  EXPECT_FALSE(BitEqual(Tensor::Scalar<uint8_t>(1), Tensor::Scalar<uint8_t>(2)));
  EXPECT_FALSE(BitEqual(Tensor::Scalar<uint8_t>(1), Tensor::Scalar<int8_t>(1)));
  const Tensor four = Tensor::Allocate(TensorType(DType::kInt4, Shape{4}));
  const Tensor two = four.WithType(TensorType(DType::kInt8, Shape{2}));
  EXPECT_EQ(two.elements(), 2);
  EXPECT_EQ(two.dtype(), DType::kInt8);
  const auto list = [](std::vector<Tensor> items) {
    return Tensor::Of(ValueKind::kSequence, TensorType(DType::kFloat32, Shape{}), std::move(items));
  };
  const Tensor a = Tensor::FromValues<float>(Shape{2}, {1, 2}),
               b = Tensor::FromValues<float>(Shape{2}, {1, 3});
  EXPECT_TRUE(BitEqual(list({a, b}), list({a.Clone(), b.Clone()})));
  EXPECT_FALSE(BitEqual(list({a, b}), list({b, a})));
  EXPECT_FALSE(BitEqual(list({a}), list({a, a})));
  EXPECT_EQ(list({a, b}).items().size(), 2u);
  EXPECT_TRUE(a.items().empty());
  // The shape of all items, whichever comes first.
  const Tensor scalar = Tensor::Scalar<float>(1), row = Tensor::FromValues<float>(Shape{1, 1}, {1});
  EXPECT_EQ(list({a, scalar, row}).type().ToString(), "sequence(float32[...])");
  EXPECT_EQ(list({a, row, scalar}).type().ToString(), "sequence(float32[...])");
  EXPECT_EQ(list({scalar, scalar}).type().ToString(), "sequence(float32[])");
}

TEST(AttrsValues, DefaultsAndText) {
  Attrs a;
  EXPECT_EQ(a.Int("none"), 0);
  EXPECT_EQ(a.Float("none"), 0);
  EXPECT_EQ(a.String("none"), "");
  EXPECT_EQ(a.String("none", "x"), "x");
  EXPECT_FALSE(a.TensorOr("none").defined());
  a.Set("i", int64_t{5});
  a.Set("t", AttrValue(Tensor::Scalar<float>(2)));
  a.Set("words", AttrValue(std::vector<std::string>{"x", "y"}));
  a.Set("fs", AttrValue(std::vector<float>{0.5f, 2}));
  EXPECT_EQ(a.Int("i"), 5);
  EXPECT_EQ(a.TensorOr("t").data<float>()[0], 2);
  EXPECT_EQ(a.Strings("words"), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(a.Ints("none", {7}), std::vector<int64_t>{7});
  EXPECT_EQ(a.Floats("none", {7}), std::vector<float>{7});
  EXPECT_EQ(a.ToString(), "{fs=[0.5, 2], i=5, t=float32[], words=[x, y]}");
  Attrs b = a;
  b.Set("t", AttrValue(Tensor::Scalar<float>(2)));
  EXPECT_TRUE(a == b) << "tensors are equal by their bits";
  b.Set("t", AttrValue(Tensor::Scalar<float>(3)));
  EXPECT_FALSE(a == b);
}

}  // namespace
}  // namespace evoq
