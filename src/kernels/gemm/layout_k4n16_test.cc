#include <gtest/gtest.h>

#include "kernels/layout.h"

namespace evoq {
namespace {

Tensor Counting(TensorType type) {
  Tensor t = Tensor::Allocate(std::move(type));
  for (size_t i = 0; i < t.bytes(); ++i) t.mutable_raw()[i] = static_cast<std::byte>(i * 37 + 11);
  return t;
}

TEST(LayoutK4N16, RoundTrips) {
  for (DType dtype : {DType::kInt8, DType::kUint8}) {
    for (const char* name : {"k4n16-conv", "k4n16-matmul"}) {
      const bool conv = std::string_view(name) == "k4n16-conv";
      const std::vector<Shape> shapes =
          conv ? std::vector<Shape>{{1, 1, 1}, {17, 5, 3, 3}, {16, 4, 1, 1}, {40, 3, 2, 2, 2}}
               : std::vector<Shape>{{1, 1}, {5, 17}, {64, 64}, {7, 100}};
      for (const Shape& shape : shapes) {
        const LayoutDef* layout = FindLayout(name);
        ASSERT_NE(layout, nullptr);
        const Tensor plain = Counting(TensorType(dtype, shape, QuantParams::PerTensor(0.5f, 3)));
        auto packed = layout->pack(plain);
        ASSERT_TRUE(packed) << packed.error().message();
        EXPECT_EQ(static_cast<int64_t>(packed->bytes()), *layout->bytes(plain.type()));
        EXPECT_EQ(packed->type(), plain.type());
        EXPECT_EQ(packed->layout(), name);
        EXPECT_TRUE(BitEqual(*ToPlain(*packed), plain)) << name << shape.ToString();
      }
    }
  }
}

TEST(LayoutK4N16, FollowsItsFormula) {
  const Tensor w = Counting(TensorType(DType::kInt8, Shape{18, 6, 2, 2}));
  auto packed = FindLayout("k4n16-conv")->pack(w);
  ASSERT_TRUE(packed);
  // m = 17, tap (1, 0), c = 5: panel 1 of 4 taps x 2 groups, group 1, column 1, byte 1.
  EXPECT_EQ(packed->raw()[4 * 2 * 64 + (2 * 2 + 1) * 64 + 1 * 4 + 1],
            w.raw()[(17 * 6 + 5) * 4 + 2]);
  const Tensor b = Counting(TensorType(DType::kUint8, Shape{9, 20}));
  packed = FindLayout("k4n16-matmul")->pack(b);
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->raw()[3 * 64 + 2 * 64 + 3 * 4], b.raw()[8 * 20 + 19] ^ std::byte{0x80});
}

TEST(LayoutK4N16, RefusesOtherTypes) {
  EXPECT_FALSE(FindLayout("k4n16-conv")->bytes(TensorType(DType::kFloat32, Shape{1, 1, 1})));
  EXPECT_FALSE(FindLayout("k4n16-conv")->bytes(TensorType(DType::kInt8, Shape{1, 1})));
  EXPECT_FALSE(FindLayout("k4n16-matmul")->bytes(TensorType(DType::kInt8, Shape{1, 1, 1})));
  EXPECT_FALSE(FindLayout("k4n16-matmul")
                   ->bytes(TensorType(DType::kInt8, Shape{int64_t{1} << 40, int64_t{1} << 40})));
  const TensorType type(DType::kInt8, Shape{4, 16});
  EXPECT_FALSE(FindLayout("k4n16-matmul")
                   ->unpack(Tensor::Packed(type, "k4n16-matmul", std::vector<std::byte>(63))));
}

}  // namespace
}  // namespace evoq
