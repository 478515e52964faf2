// Every packed layout: documented, and its inverse.
#include "kernels/layout.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace evoq {
namespace {

TEST(Layouts, EachStandsInItsPage) {
  std::ifstream file(std::string(EVOQ_SOURCE_DIR) + "/docs/layouts.md");
  std::stringstream page;
  page << file.rdbuf();
  ASSERT_FALSE(AllLayouts().empty());
  for (const LayoutDef* layout : AllLayouts()) {
    EXPECT_NE(page.str().find("`" + std::string(layout->name) + "`"), std::string::npos)
        << layout->name;
    EXPECT_NE(page.str().find(layout->formula), std::string::npos)
        << layout->name << ": " << layout->formula;
    EXPECT_EQ(FindLayout(layout->name), layout);
  }
}

// What a layout cannot hold, and packed bytes of another size.
TEST(Layouts, RefuseWhatTheyCannotHold) {
  const int64_t large = int64_t{1} << 60;
  const DType f = DType::kFloat32, b = DType::kBfloat16, i8 = DType::kInt8;
  const Shape unknown(std::vector<Dim>{Dim::Symbolic("N"), Dim(3)});
  const QuantParams quant = QuantParams::PerTensor(0.5f, 3);
  struct Case {
    const char* layout;
    TensorType type;
    const char* why;
  };
  const Case cases[] = {
      {"taps-c", TensorType(DType::kInt16, Shape{4, 1, 3}),
       "layout taps-c: int16 weights, expected int8, uint8, float32 or bfloat16"},
      {"taps-c", TensorType(i8, Shape{4, 1}),
       "layout taps-c: weights [4, 1], expected a static [C, 1, k...]"},
      {"taps-c", TensorType(i8, Shape{4, 2, 3}),
       "layout taps-c: weights [4, 2, 3], expected a static [C, 1, k...]"},
      {"taps-c", TensorType(i8, unknown),
       "layout taps-c: weights [N, 3], expected a static [C, 1, k...]"},
      {"taps-c", TensorType(i8, Shape{1, 1, large / 2}),
       "layout taps-c: weights [1, 1, 576460752303423488] are too large"},
      {"k1n16-matmul-f32", TensorType(b, Shape{4, 3}),
       "layout k1n16-matmul-f32 of bfloat16[4, 3]: expected float32 with a static shape"},
      {"k1n16-matmul-f32", TensorType(f, unknown),
       "layout k1n16-matmul-f32 of float32[N, 3]: expected float32 with a static shape"},
      {"k1n16-matmul-f32", TensorType(f, Shape{4, 3, 1}),
       "layout k1n16-matmul-f32 of float32[4, 3, 1]: rank 3, expected 2"},
      {"k1n16-matmul-f32", TensorType(f, Shape{large, 1}),
       "layout k1n16-matmul-f32 of float32[1152921504606846976, 1]"},
      {"k1n16-conv-f32", TensorType(f, Shape{large, 0, large}),
       "layout k1n16-conv-f32 of float32[1152921504606846976, 0, 1152921504606846976]"},
      {"k1n16-conv-f32", TensorType(f, Shape{4, 3}),
       "layout k1n16-conv-f32 of float32[4, 3]: rank 2, expected at least 3"},
      {"k1n16-convtranspose-f32", TensorType(f, Shape{4, 3}),
       "layout k1n16-convtranspose-f32 of float32[4, 3]: rank 2, expected at least 3"},
      {"k2n16-matmul-bf16", TensorType(f, Shape{4, 3}),
       "layout k2n16-matmul-bf16 of float32[4, 3]: expected bfloat16"},
      {"k4n16-conv", TensorType(f, Shape{1, 1, 1}),
       "layout k4n16 holds int8 or uint8, got float32[1, 1, 1]"},
      {"k4n16-conv", TensorType(i8, Shape{1, 1}),
       "layout k4n16-conv needs [M, C, k...], got int8[1, 1]"},
      {"k4n16-conv", TensorType(i8, Shape(std::vector<Dim>{Dim::Symbolic("N"), Dim(3), Dim(3)})),
       "layout k4n16 needs a static shape, got int8[N, 3, 3]"},
      {"k4n16-conv", TensorType(i8, Shape{1, 0, large, large}),
       "int8[1, 0, 1152921504606846976, 1152921504606846976] is too large to pack"},
      {"k4n16-conv", TensorType(i8, Shape{1, 1, large}),
       "int8[1, 1, 1152921504606846976] is too large to pack"},
      {"k4n16-matmul", TensorType(i8, Shape{1, 1, 1}),
       "layout k4n16-matmul needs [K, N], got int8[1, 1, 1]"},
      {"k4n16-matmul", TensorType(i8, Shape{large, 1}),
       "int8[1152921504606846976, 1] is too large to pack"},
      {"k1n16-matmul-w8", TensorType(f, Shape{4, 3}),
       "layout k1n16-matmul-w8 of float32[4, 3]: expected a static matrix of bytes"},
      {"k1n16-matmul-w8", TensorType(i8, Shape{4, 3, 1}),
       "layout k1n16-matmul-w8 of int8[4, 3, 1]: expected a static matrix of bytes"},
      {"k1n16-matmul-w8", TensorType(i8, unknown),
       "layout k1n16-matmul-w8 of int8[N, 3]: expected a static matrix of bytes"},
      {"k1n16-matmul-w8", TensorType(i8, Shape{large / 2, 1}),
       "layout k1n16-matmul-w8 of int8[576460752303423488, 1]"},
  };
  for (const Case& c : cases) {
    const LayoutDef* layout = FindLayout(c.layout);
    ASSERT_NE(layout, nullptr) << c.layout;
    const auto bytes = layout->bytes(c.type);
    ASSERT_FALSE(bytes) << c.layout << " " << c.type.ToString();
    EXPECT_EQ(bytes.error().message(), c.why);
  }
  // Of nothing there is nothing to pack, whatever the other sizes are that a type may have.
  EXPECT_EQ(FindLayout("k1n16-conv-f32")->bytes(TensorType(f, Shape{large, 0, 4})).value(), 0);
  // Zeros up to whole panels of 16 columns, pairs or fours; a packed tensor is not packed again.
  struct Packed {
    const char* layout;
    TensorType type;
    int64_t bytes;
    const char* again;
    const char* cut;
  };
  const Packed packed[] = {
      {"taps-c", TensorType(i8, Shape{17, 1, 3}, quant), 96, "",
       "layout taps-c: 95 bytes for int8[17, 1, 3](scale 0.5, zero 3), expected 96"},
      {"taps-c", TensorType(b, Shape{16, 1, 3}), 96, "",
       "layout taps-c: 95 bytes for bfloat16[16, 1, 3], expected 96"},
      {"k1n16-matmul-f32", TensorType(f, Shape{5, 17}), 640,
       "layout k1n16-matmul-f32 of a tensor in layout k1n16-matmul-f32",
       "layout k1n16-matmul-f32 of float32[5, 17]: 639 bytes, expected 640"},
      {"k1n16-conv-f32", TensorType(f, Shape{17, 5, 3}), 1920,
       "layout k1n16-conv-f32 of a tensor in layout k1n16-conv-f32",
       "layout k1n16-conv-f32 of float32[17, 5, 3]: 1919 bytes, expected 1920"},
      {"k1n16-convtranspose-f32", TensorType(f, Shape{5, 17, 3}), 1920,
       "layout k1n16-convtranspose-f32 of a tensor in layout k1n16-convtranspose-f32",
       "layout k1n16-convtranspose-f32 of float32[5, 17, 3]: 1919 bytes, expected 1920"},
      {"k2n16-matmul-bf16", TensorType(b, Shape{5, 17}), 384,
       "layout k2n16-matmul-bf16 of a tensor in layout k2n16-matmul-bf16",
       "bfloat16[5, 17] in layout k2n16-matmul-bf16: 383 bytes, expected 384"},
      {"k2n16-conv-bf16", TensorType(b, Shape{17, 5, 3}), 1024,
       "layout k2n16-conv-bf16 of a tensor in layout k2n16-conv-bf16",
       "bfloat16[17, 5, 3] in layout k2n16-conv-bf16: 1023 bytes, expected 1024"},
      {"k2n16-convtranspose-bf16", TensorType(b, Shape{5, 17, 3}), 1024,
       "layout k2n16-convtranspose-bf16 of a tensor in layout k2n16-convtranspose-bf16",
       "bfloat16[5, 17, 3] in layout k2n16-convtranspose-bf16: 1023 bytes, expected 1024"},
      {"k4n16-conv", TensorType(i8, Shape{17, 5, 3}, quant), 768,
       "cannot pack a tensor of layout 'k4n16-conv'",
       "int8[17, 5, 3](scale 0.5, zero 3) with layout 'k4n16-conv' and 767 bytes is not k4n16: "
       "expected 768 bytes"},
      {"k4n16-matmul", TensorType(i8, Shape{5, 17}, quant), 256,
       "cannot pack a tensor of layout 'k4n16-matmul'",
       "int8[5, 17](scale 0.5, zero 3) with layout 'k4n16-matmul' and 255 bytes is not k4n16: "
       "expected 256 bytes"},
      {"k1n16-matmul-w8", TensorType(i8, Shape{5, 17}, quant), 160, "",
       "layout k1n16-matmul-w8 of int8[5, 17](scale 0.5, zero 3): 159 bytes, expected 160"},
  };
  for (const Packed& c : packed) {
    const LayoutDef& layout = *FindLayout(c.layout);
    EXPECT_EQ(layout.bytes(c.type).value(), c.bytes) << c.layout;
    const Tensor cut =
        Tensor::Packed(c.type, c.layout, std::vector<std::byte>(static_cast<size_t>(c.bytes) - 1));
    EXPECT_EQ(layout.unpack(cut).error().message(), c.cut);
    const Tensor whole =
        Tensor::Packed(c.type, c.layout, std::vector<std::byte>(static_cast<size_t>(c.bytes)));
    EXPECT_TRUE(layout.unpack(whole)) << c.layout;
    if (*c.again != 0) EXPECT_EQ(layout.pack(whole).error().message(), c.again);
    EXPECT_EQ(ToPlain(whole)->type(), c.type);
  }
  const Tensor other =
      Tensor::Packed(TensorType(f, Shape{1}), "no such layout", std::vector<std::byte>(4));
  EXPECT_EQ(ToPlain(other).error().message(), "unknown tensor layout 'no such layout'");
}

}  // namespace
}  // namespace evoq
