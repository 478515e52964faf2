// What steps share: memory between an input and the output, work between threads, packed weights
// between runs.

#include "kernels/move/move_call.h"
#include "kernels/parallel.h"
#include "kernels/test_util.h"

namespace evoq {
namespace {

// About two pieces for a thread, none below 4 microseconds.
TEST(Grain, TwoPiecesForAThreadAndNoneTooShort) {
  EXPECT_EQ(Grain(1000, 1e6, 1), 500);
  EXPECT_EQ(Grain(1000, 1e6, 4), 125);
  EXPECT_EQ(Grain(1001, 1e6, 4), 126);
  EXPECT_EQ(Grain(1000, 1000, 4), 125);
  EXPECT_EQ(Grain(1000, 20, 4), 201);  // 200 take 4000 ns
  EXPECT_EQ(Grain(0, 1e6, 4), 1);
  EXPECT_EQ(Grain(1, 0, 1), 4'000'001);  // as of 0.001 ns
  EXPECT_EQ(Grain(0, 1e6, 1), 1);
}

TEST(Grain, NanosecondsOfACopy) {
  EXPECT_DOUBLE_EQ(CopyNs(0), 2);
  EXPECT_DOUBLE_EQ(CopyNs(1000), 52);
}

// Every length around the sizes of a step, and no byte beside.
TEST(Move, CopiesRunsOfAnyLength) {
  std::vector<std::byte> from(600);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 37 + 11);
  for (int64_t n = 0; n <= 520; ++n) {
    std::vector<std::byte> to(600, std::byte{0xA5});
    CopyRun(to.data() + 16, from.data() + 3, n);
    for (int64_t i = 0; i < 600; ++i)
      ASSERT_EQ(to[i], i < 16 || i >= 16 + n ? std::byte{0xA5} : from[i - 13]) << n << " " << i;
  }
}

uint32_t Mask(const char* kernel, const std::vector<TensorType>& inputs, const TensorType& y) {
  const Attrs none;
  const std::vector<TensorType> outputs = {y};
  const std::vector<const Tensor*> constants(inputs.size(), nullptr);
  const KernelDef& def = *FindKernel(kernel);
  return def.in_place(KernelCall{def.op, none, inputs, outputs, constants});
}

// Inputs of the output's shape and width, by their place; of integer products the residual only.
TEST(InPlace, InputsThatTheOutputMayOverwrite) {
  const TensorType f(DType::kFloat32, Shape{2, 3}), row(DType::kFloat32, Shape{3}),
      b(DType::kBfloat16, Shape{2, 3}), q(DType::kUint8, Shape{2, 3}), s(DType::kInt8, Shape{2, 3});
  EXPECT_EQ(Mask("add_f32", {f, f}, f), 3u);
  EXPECT_EQ(Mask("add_f32", {row, f}, f), 2u);
  EXPECT_EQ(Mask("add_f32", {f, row}, f), 1u);
  EXPECT_EQ(Mask("sub_u8", {q, q}, f), 0u);
  EXPECT_EQ(Mask("Relu_u8", {s}, q), 1u);
  EXPECT_EQ(Mask("mul_bf16", {b, b}, b), 3u);
  EXPECT_EQ(Mask("Clip_f32", {f, TensorType(), TensorType(DType::kFloat32, Shape{})}, f), 1u);
  EXPECT_EQ(Mask("matmul_int8", {q, s, TensorType(), q}, q), 8u);
  EXPECT_EQ(Mask("matmul_int8", {q, s, TensorType(), f}, q), 0u);
  EXPECT_EQ(Mask("conv_int8", {q, s}, q), 0u);
}

// Only weights are packed, and only where they are constant and plain; the bias stays as it is.
TEST(Pack, OnlyConstantWeights) {
  struct Case {
    const char* kernel;
    TensorType weights;
    int64_t group;
    bool packed;
  };
  const DType f = DType::kFloat32, b = DType::kBfloat16;
  const QuantParams quant = QuantParams::PerTensor(0.5f, 0);
  const TensorType q(DType::kInt8, Shape{16, 16}, quant);
  const Case cases[] = {
      {"matmul_f32", TensorType(f, Shape{16, 16}), 1, true},
      {"matmul_f32", q, 1, false},
      {"matmul_f32", TensorType(f, Shape{2, 16, 16}), 1, false},
      {"matmul_bf16", TensorType(b, Shape{16, 16}), 1, true},
      {"matmul_w8", q, 1, true},
      {"matmul_int8", q, 1, true},
      {"conv_f32", TensorType(f, Shape{16, 16, 3, 3}), 1, true},
      {"conv_f32", TensorType(b, Shape{16, 16, 3, 3}), 1, false},
      {"conv_bf16", TensorType(b, Shape{16, 16, 3, 3}), 1, true},
      {"conv_transpose_f32", TensorType(f, Shape{16, 16, 3, 3}), 1, true},
      {"conv_transpose_bf16", TensorType(b, Shape{16, 16, 3, 3}), 1, true},
      {"dwconv_f32", TensorType(f, Shape{16, 1, 3, 3}), 16, true},
      {"dwconv_f32", TensorType(DType::kInt8, Shape{16, 1, 3, 3}, quant), 16, false},
      {"dwconv_bf16", TensorType(b, Shape{16, 1, 3, 3}), 16, true},
      {"dwconv_int8", TensorType(DType::kInt8, Shape{16, 1, 3, 3}, quant), 16, true},
      {"conv_int8", TensorType(DType::kInt8, Shape{16, 16, 3, 3}, quant), 1, true},
      {"conv_int8", TensorType(DType::kInt8, Shape{16, 1, 3, 3}, quant), 16,
       false},  // computed directly
  };
  for (const Case& c : cases) {
    const KernelDef& kernel = *FindKernel(c.kernel);
    const std::string name = c.kernel;
    const bool conv = c.weights.shape.rank() == 4, bytes = name.ends_with("int8");
    const DType dtype = name.ends_with("bf16") ? b : f;
    TensorType x(dtype, conv ? Shape{1, 8, 8, 16} : Shape{16, 16});
    if (bytes) x = TensorType(DType::kUint8, x.shape, quant);
    if (c.weights.shape.rank() == 3) x.shape = Shape{2, 16, 16};
    const bool back = name.find("transpose") != std::string::npos;
    TensorType y(f, conv ? (back ? Shape{1, 10, 10, 16} : Shape{1, 6, 6, 16}) : x.shape);
    if (dtype == b) y.dtype = b;
    TestCall t{kernel.op, {}, {}, {false, true, true}, {y}};
    if (conv) t.attrs.Set("channels_last", 1), t.attrs.Set("group", AttrValue(c.group));
    t.inputs = {Tensor::Allocate(x), RandomTensor(c.weights, 1),
                RandomTensor(TensorType(bytes ? DType::kInt32 : f, Shape{16}), 2)};
    ASSERT_FALSE(RejectOf(kernel, t)) << name << ": " << RejectOf(kernel, t)->sentence;
    const auto types = t.InputTypes();
    const auto constants = t.Constants(t.inputs);
    const KernelCall call{t.op, t.attrs, types, t.outputs, constants};
    EXPECT_EQ(kernel.pack(call, 1)->defined(), c.packed) << name << " " << c.weights.ToString();
    EXPECT_FALSE(kernel.pack(call, 0)->defined()) << name;
    EXPECT_FALSE(kernel.pack(call, 2)->defined()) << name;
  }
  // A computed b.
  const Attrs none;
  for (const DType dtype : {f, b}) {
    const std::vector<TensorType> types(2, TensorType(dtype, Shape{16, 16}));
    const std::vector<const Tensor*> constants(2, nullptr);
    const auto packed = FindKernel(dtype == f ? "matmul_f32" : "matmul_bf16")
                            ->pack(KernelCall{"MatMul", none, types, {&types[0], 1}, constants}, 1);
    EXPECT_FALSE(packed.value().defined());
  }
}

}  // namespace
}  // namespace evoq
