#include "kernels/gemm/matmul_w8.h"

#include "kernels/gemm/linear_f32_testing.h"
#include "kernels/layout.h"

namespace evoq {
extern const KernelDef kMatMulW8;
namespace {

template <typename T>
T Pick(std::mt19937& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

enum class Scales { kTensor, kColumns, kBlocks };

QuantParams RandomParams(Scales scales, int64_t k, int64_t n, int64_t block, bool zeros,
                         std::mt19937& random) {
  QuantParams quant;
  const int64_t blocks = (k + block - 1) / block;
  const int64_t count = scales == Scales::kTensor ? 1 : scales == Scales::kColumns ? n : blocks * n;
  std::uniform_real_distribution<float> uniform(0.005f, 0.02f);
  for (int64_t i = 0; i < count; ++i) {
    quant.scales.push_back(uniform(random));
    quant.zero_points.push_back(zeros ? static_cast<int32_t>(random() % 100) : 0);
  }
  quant.axis = scales == Scales::kTensor ? -1 : scales == Scales::kColumns ? 1 : 0;
  quant.block = scales == Scales::kBlocks ? block : 0;
  return quant;
}

LinearCaseF32 MakeCase(int64_t m, int64_t k, int64_t n, DType dtype, const QuantParams& quant,
                       std::mt19937& random) {
  LinearCaseF32 c;
  c.kernel = &kMatMulW8;
  c.name = fmt::format("{} x {} x {} {} axis {} block {}", m, k, n, DTypeName(dtype), quant.axis,
                       quant.block);
  const Activation activation = RandomActivation(random);
  ActivationToAttrs(activation, c.attrs);
  Tensor b = Tensor::Allocate(TensorType(dtype, Shape{k, n}, quant));
  for (size_t i = 0; i < b.bytes(); ++i) b.mutable_raw()[i] = static_cast<std::byte>(random());
  c.inputs = {RandomF32(Shape{m, k}, random), b,
              random() % 2 == 0 ? RandomF32(Shape{n}, random) : Tensor(),
              random() % 3 == 0 ? RandomF32(Shape{m, n}, random) : Tensor()};
  c.constant = {false, true, false, false};
  c.output = TensorType(DType::kFloat32, Shape{m, n});
  for (int64_t i = 0; i < m * n; ++i) {
    double sum = 0, magnitude = 0;
    for (int64_t l = 0; l < k; ++l) {
      const int64_t at = l * n + i % n, scale = quant.axis < 0    ? 0
                                                : quant.axis == 1 ? i % n
                                                                  : l / quant.block * n + i % n;
      const int q =
          dtype == DType::kInt8 ? static_cast<int8_t>(b.raw()[at]) : static_cast<int>(b.raw()[at]);
      const double product = static_cast<double>(c.inputs[0].data<float>()[i / n * k + l]) *
                             (q - quant.zero_points[scale]) *
                             static_cast<double>(quant.scales[scale]);
      sum += product, magnitude += std::fabs(product);
    }
    const double bias = c.inputs[2].defined() ? c.inputs[2].data<float>()[i % n] : 0;
    const double residual = c.inputs[3].defined() ? c.inputs[3].data<float>()[i] : 0;
    ExpectActivated(activation, sum + bias + residual,
                    magnitude + std::fabs(bias) + std::fabs(residual), k + 4, c);
  }
  return c;
}

TEST(MatMulW8, RandomShapes) {
  std::mt19937 random(1);
  for (int i = 0; i < 300 && !testing::Test::HasFatalFailure(); ++i) {
    const auto scales = static_cast<Scales>(random() % 3);
    const int64_t m = 1 + static_cast<int64_t>(random() % 16),
                  k = Pick<int64_t>(random, {1, 2, 17, 32, 64, 65, 200});
    const int64_t n = Pick<int64_t>(random, {1, 15, 16, 17, 48, 64, 65, 79, 130, 200}),
                  block = Pick<int64_t>(random, {16, 32, 128});
    const QuantParams quant =
        RandomParams(scales, k, n, block, scales != Scales::kBlocks && random() % 2 == 0, random);
    CheckLinearF32(
        MakeCase(m, k, n, random() % 2 == 0 ? DType::kInt8 : DType::kUint8, quant, random));
  }
}

TEST(MatMulW8, RejectsWithAReason) {
  std::mt19937 random(2);
  const auto code = [&](int64_t m, const QuantParams& quant, DType dtype) {
    const LinearCaseF32 c = MakeCase(m, 32, 16, dtype, quant, random);
    std::vector<TensorType> types;
    for (const Tensor& t : c.inputs) types.push_back(t.type());
    const std::vector<const Tensor*> constants = {nullptr, &c.inputs[1], nullptr, nullptr};
    const auto why =
        kMatMulW8.reject(KernelCall{"MatMul", c.attrs, types, {&c.output, 1}, constants});
    return std::string(why ? why->code : "");
  };
  const QuantParams columns = RandomParams(Scales::kColumns, 32, 16, 32, true, random);
  EXPECT_EQ(code(16, columns, DType::kInt8), "");
  EXPECT_EQ(code(17, columns, DType::kInt8), "shape");
  QuantParams blocks = RandomParams(Scales::kBlocks, 32, 16, 16, false, random);
  EXPECT_EQ(code(1, blocks, DType::kInt8), "");
  blocks.zero_points[3] = 1;
  EXPECT_EQ(code(1, blocks, DType::kInt8), "types");
}

TEST(LayoutW8, RoundTrip) {
  const LayoutDef* layout = FindLayout("k1n16-matmul-w8");
  ASSERT_NE(layout, nullptr);
  for (const Shape& shape :
       {Shape{1, 1}, Shape{5, 15}, Shape{7, 16}, Shape{9, 17}, Shape{0, 3}, Shape{3, 0}}) {
    Tensor plain =
        Tensor::Allocate(TensorType(DType::kInt8, shape, QuantParams::PerTensor(0.1f, 0)));
    for (size_t i = 0; i < plain.bytes(); ++i)
      plain.mutable_raw()[i] = static_cast<std::byte>(i * 7);
    const auto packed = layout->pack(plain);
    ASSERT_TRUE(packed);
    EXPECT_EQ(static_cast<int64_t>(packed->bytes()), *layout->bytes(plain.type()));
    EXPECT_TRUE(BitEqual(plain, *ToPlain(*packed))) << shape.ToString();
  }
  EXPECT_FALSE(layout->bytes(TensorType(DType::kFloat32, Shape{4, 4})));
}

}  // namespace
}  // namespace evoq
