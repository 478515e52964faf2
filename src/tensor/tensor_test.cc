#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/attrs.h"

namespace evoq {
namespace {

TEST(DType, HalfRoundTripsEveryPattern) {
  for (int bits = 0; bits < 65536; ++bits) {
    const float value = HalfToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(value))));
    } else {
      EXPECT_EQ(FloatToHalf(value), bits) << value;
    }
  }
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(65519.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(1.0f + 0x1p-11f), 0x3c00) << "ties to even";
}

TEST(Type, BytesStopAtOverflow) {
  EXPECT_EQ(TensorType(DType::kInt4, Shape{3}).bytes(), 2);
  EXPECT_EQ(TensorType(DType::kFloat32, Shape{int64_t{1} << 62}).bytes(), std::nullopt);
  EXPECT_EQ(TensorType(DType::kFloat32, Shape(std::vector<Dim>{Dim()})).bytes(), std::nullopt);
}

TEST(Tensor, QuantizeRoundsHalfToEvenAndSaturates) {
  const Tensor x =
      Tensor::FromValues<float>(Shape{6}, {0.5f, 1.5f, 2.5f, -10, 1000, std::nanf("")});
  const auto q =
      QuantizeTensor(x, TensorType(DType::kUint8, Shape{6}, QuantParams::PerTensor(1, 3)));
  ASSERT_TRUE(q) << q.error().message();
  EXPECT_EQ(ToInt64s(*q).value(), (std::vector<int64_t>{3, 5, 5, 0, 255, 3}));
  EXPECT_EQ(ToFloat32(*q).value().data<float>()[1], 2);
}

TEST(Tensor, QuantizesPerAxisAndPerBlock) {
  const Tensor x = Tensor::FromValues<float>(Shape{2, 3}, {1, 2, 3, 10, 20, 30});
  const auto per_row =
      QuantizeTensor(x, TensorType(DType::kInt8, Shape{2, 3}, QuantParams{{1, 10}, {0, 0}, 0, 0}));
  EXPECT_EQ(ToInt64s(per_row.value()).value(), (std::vector<int64_t>{1, 2, 3, 1, 2, 3}));
  const auto blocked = QuantizeTensor(
      x, TensorType(DType::kInt4, Shape{2, 3}, QuantParams{{1, 3, 10, 15}, {0, 0, 0, 0}, 1, 2}));
  EXPECT_EQ(ToInt64s(blocked.value()).value(), (std::vector<int64_t>{1, 2, 1, 1, 2, 2}));
}

TEST(Quant, ValidationNamesTheFault) {
  const auto error = [](QuantParams q) {
    return ValidateQuant(TensorType(DType::kInt8, Shape{2, 3}, std::move(q))).error().message();
  };
  EXPECT_EQ(error({{1, 2, 3}, {0, 0, 0}, 0, 0}), "3 scales on axis 0 of size 2");
  EXPECT_EQ(error({{0}, {0}, -1, 0}), "scale 0, expected a finite number > 0");
  EXPECT_EQ(error({{1}, {200}, -1, 0}), "zero point 200 outside int8's range");
}

TEST(Attrs, PrintsSortedWithKinds) {
  Attrs attrs;
  attrs.Set("pads", std::vector<int64_t>{1, 1});
  attrs.Set("alpha", 0.5f);
  attrs.Set("mode", "linear");
  EXPECT_EQ(attrs.ToString(), "{alpha=0.5, mode=\"linear\", pads=[1, 1]}");
  EXPECT_EQ(attrs.Int("alpha", 7), 7) << "another kind reads as the default";
}

// Every number of a tiny float is its own nearest one, and half a step decides between neighbours.
TEST(TinyFloat, RoundTrip) {
  for (DType dtype : {DType::kFloat8E4M3FN, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2,
                      DType::kFloat8E5M2FNUZ, DType::kFloat4E2M1, DType::kFloat8E8M0}) {
    for (int bits = 0; bits < 1 << DTypeBits(dtype); ++bits) {
      const float value = TinyFloatToFloat(dtype, static_cast<uint8_t>(bits));
      if (std::isnan(value)) continue;
      EXPECT_EQ(FloatToTinyFloat(dtype, value, /*saturate=*/false), bits) << DTypeName(dtype);
    }
  }
}

TEST(TinyFloat, Limits) {
  const auto back = [](DType dtype, float v, bool saturate) {
    return TinyFloatToFloat(dtype, FloatToTinyFloat(dtype, v, saturate));
  };
  EXPECT_EQ(back(DType::kFloat8E4M3FN, 1e6f, true), 448.0f);
  EXPECT_TRUE(std::isnan(back(DType::kFloat8E4M3FN, 1e6f, false)));
  EXPECT_EQ(back(DType::kFloat8E5M2, 1e6f, true), 57344.0f);
  EXPECT_TRUE(std::isinf(back(DType::kFloat8E5M2, -1e6f, false)));
  EXPECT_EQ(back(DType::kFloat8E4M3FNUZ, 1e6f, true), 240.0f);
  EXPECT_EQ(back(DType::kFloat4E2M1, -7.0f, true), -6.0f);
  EXPECT_EQ(back(DType::kFloat8E4M3FN, 1.0625f, true), 1.0f);  // a tie goes to the even mantissa
  EXPECT_EQ(back(DType::kFloat8E4M3FN, 1.1875f, true), 1.25f);
}

// Each has its own bytes, which live as long as any of them does.
TEST(Tensor, AllocatedTogetherTheyAreApart) {
  const std::vector<TensorType> types = {{DType::kInt8, Shape{3}},
                                         {DType::kFloat32, Shape{0, 7}},
                                         {DType::kFloat32, Shape{1 << 20}},
                                         {DType::kInt4, Shape{5}},
                                         {DType::kFloat16, Shape{2, 33}}};
  std::vector<Tensor> tensors = Tensor::AllocateTogether(types);
  ASSERT_EQ(tensors.size(), types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    EXPECT_EQ(tensors[i].type(), types[i]);
    EXPECT_EQ(tensors[i].bytes(), static_cast<size_t>(*types[i].bytes()));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensors[i].raw()) % 64, 0u);
    EXPECT_EQ(std::count(tensors[i].raw(), tensors[i].raw() + tensors[i].bytes(), std::byte{0}),
              static_cast<ptrdiff_t>(tensors[i].bytes()));
  }
  for (size_t i = 0; i < types.size(); ++i)
    std::fill_n(tensors[i].mutable_raw(), tensors[i].bytes(), static_cast<std::byte>(i + 1));
  for (size_t i = 0; i < types.size(); ++i)
    EXPECT_EQ(std::count(tensors[i].raw(), tensors[i].raw() + tensors[i].bytes(),
                         static_cast<std::byte>(i + 1)),
              static_cast<ptrdiff_t>(tensors[i].bytes()));
  const Tensor last = tensors.back();
  tensors.clear();
  EXPECT_EQ(last.raw()[last.bytes() - 1], std::byte{5});
  EXPECT_TRUE(Tensor::AllocateTogether({}).empty());
}

TEST(Tensor, StringsAndContainers) {
  const Tensor words = Tensor::FromValues<std::string>(Shape{2}, {"a", std::string(100, 'b')});
  EXPECT_TRUE(BitEqual(words, words.Clone()));
  EXPECT_FALSE(BitEqual(words, Tensor::FromValues<std::string>(Shape{2}, {"a", "b"})));
  const Tensor list = Tensor::Of(ValueKind::kSequence, TensorType(DType::kFloat32, Shape{}),
                                 {Tensor::FromValues<float>(Shape{1, 2}, {1, 2}),
                                  Tensor::FromValues<float>(Shape{3, 2}, {1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(list.type().ToString(), "sequence(float32[?, 2])");
  EXPECT_TRUE(list.defined());
  EXPECT_TRUE(BitEqual(list, list.Clone()));
  EXPECT_FALSE(list.type().bytes().has_value());
}

}  // namespace
}  // namespace evoq
