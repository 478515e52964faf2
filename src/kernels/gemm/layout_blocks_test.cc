#include "kernels/gemm/layout_blocks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "kernels/test_util.h"

namespace evoq {
namespace {

// A plain tensor of which every fourth block of 4 x 4 or 1 x 16 holds numbers.
Tensor Weights(DType dtype, const Shape& shape) {
  Tensor t = Tensor::Allocate(TensorType(dtype, shape));
  std::mt19937 random(7);
  for (size_t i = 0; i < t.bytes(); ++i)
    t.mutable_raw()[i] = std::byte{dtype == DType::kUint8 ? uint8_t{128} : uint8_t{0}};
  for (int i = 0; i < 40; ++i)
    t.mutable_raw()[random() % t.bytes()] = static_cast<std::byte>(random());
  return t;
}

Tensor Changed(const Tensor& packed, size_t at, uint32_t value, size_t bytes = 4) {
  std::vector<std::byte> data(packed.raw(), packed.raw() + packed.bytes());
  std::memcpy(data.data() + at, &value, bytes);
  return Tensor::Packed(packed.type(), packed.layout(), std::move(data));
}

TEST(LayoutBlocks, UnpackIsTheInverse) {
  for (const char* name : {"blocks4x4-conv", "blocks1x16-conv"}) {
    for (const DType dtype : {DType::kInt8, DType::kUint8}) {
      for (const Shape& shape : {Shape{17, 5, 3}, Shape{4, 16, 1, 1}, Shape{33, 20, 3, 2}}) {
        const Tensor plain = Weights(dtype, shape);
        const auto packed = FindLayout(name)->pack(plain);
        ASSERT_TRUE(packed) << packed.error().message();
        EXPECT_TRUE(BitEqual(*ToPlain(*packed), plain)) << name << plain.type().ToString();
        EXPECT_LE(static_cast<int64_t>(packed->bytes()), *FindLayout(name)->bytes(plain.type()));
        EXPECT_TRUE(FindLayout(name)->check(*packed));
      }
    }
  }
  for (const char* name : {"blocks4x4-matmul", "blocks1x16-matmul"}) {
    const Tensor plain = Weights(DType::kInt8, Shape{37, 18});
    EXPECT_TRUE(BitEqual(*ToPlain(*FindLayout(name)->pack(plain)), plain)) << name;
  }
}

// Two blocks by hand: columns 4 to 7 x k 0 to 3, and columns 0 to 3 x k 4 to 7.
TEST(LayoutBlocks, Bytes) {
  Tensor plain = Tensor::Allocate(TensorType(DType::kInt8, Shape{8, 8}));
  std::memset(plain.mutable_raw(), 0, plain.bytes());
  plain.mutable_data<int8_t>()[1 * 8 + 6] = 5;   // k 1, column 6
  plain.mutable_data<int8_t>()[7 * 8 + 3] = -9;  // k 7, column 3
  const Tensor packed = *FindLayout("blocks4x4-matmul")->pack(plain);
  // begin[5], groups[2], to 32 bytes; two blocks
  ASSERT_EQ(packed.bytes(), 64u);
  const BlockWeights blocks = *ReadBlocks(packed);
  EXPECT_EQ(std::vector<uint32_t>(blocks.begin.begin(), blocks.begin.end()),
            (std::vector<uint32_t>{0, 1, 2, 2, 2}));
  EXPECT_EQ(blocks.groups[0], 1);
  EXPECT_EQ(blocks.groups[1], 0);
  EXPECT_EQ(blocks.weights[3 * 4 + 3], -9);
  EXPECT_EQ(blocks.weights[16 + 2 * 4 + 1], 5);
}

TEST(LayoutBlocks, RefusesDamage) {
  const Tensor plain = Weights(DType::kInt8, Shape{33, 20, 3, 2});
  const LayoutDef& layout = *FindLayout("blocks4x4-conv");
  const Tensor packed = *layout.pack(plain);
  const BlockWeights blocks = *ReadBlocks(packed);
  const size_t groups_at = 4 * blocks.begin.size();
  const auto why = [&](const Tensor& t) { return layout.check(t).error().message(); };
  EXPECT_NE(why(Changed(packed, 0, 1)).find("do not rise from 0"), std::string::npos);
  EXPECT_NE(why(Changed(packed, 4, 1u << 30)).find("do not rise from 0"), std::string::npos);
  EXPECT_NE(why(Changed(packed, groups_at, 30, 2)).find("a block lies beyond K"),
            std::string::npos);
  EXPECT_NE(why(Changed(packed, groups_at - 4, 1u << 31)).find("bytes for"), std::string::npos);
  size_t line = 0;
  while (blocks.begin[line + 1] - blocks.begin[line] < 2) ++line;
  EXPECT_NE(why(Changed(packed, groups_at + 2 * blocks.begin[line] + 2,
                        blocks.groups[blocks.begin[line]], 2))
                .find("do not rise"),
            std::string::npos);
  EXPECT_NE(why(Tensor::Packed(packed.type(), packed.layout(), std::vector<std::byte>(8)))
                .find("too few bytes"),
            std::string::npos);
  // A small file may not stand for large weights.
  const Tensor large = Tensor::Packed(TensorType(DType::kInt8, Shape{64, 1 << 16, 1}),
                                      "blocks4x4-conv", std::vector<std::byte>(80));
  EXPECT_NE(why(large).find("0 of 262144 blocks, expected at least one in 64"), std::string::npos);
  EXPECT_FALSE(layout.unpack(Changed(packed, 0, 1)));
  EXPECT_FALSE(layout.bytes(TensorType(DType::kInt8, Shape{4, 1 << 20, 1})));
  EXPECT_FALSE(layout.bytes(TensorType(DType::kFloat32, Shape{4, 4, 1})));
}

}  // namespace
}  // namespace evoq
