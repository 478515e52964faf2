// AMX's products of bfloat16 on the software's tiles: their sums depend on neither the tile nor the
// product's other rows and columns, and what is compiled for the hardware gives the same bits.
#include <bit>

#include "kernels/amx/emulator_testing.h"
#include "kernels/amx/software.h"
#include "kernels/gemm/gemm_bf16.h"
#include "kernels/gemm/linear_bf16_testing.h"

namespace evoq {
extern const KernelDef kMatMulBf16, kConvBf16;
namespace {

#if defined(__x86_64__)

TestCall MatMulOf(const Tensor& a, const Tensor& b) {
  TestCall call;
  call.op = "MatMul";
  call.inputs = {a, b};
  call.is_constant = {false, true};
  call.outputs = {TensorType(DType::kFloat32, Shape{a.shape()[0].value, b.shape()[1].value})};
  return call;
}

// The first `rows` rows of a, the first `columns` columns of b.
Tensor Corner(const Tensor& t, int64_t rows, int64_t columns) {
  Tensor part = Tensor::Allocate(TensorType(DType::kBfloat16, Shape{rows, columns}));
  const int64_t step = t.shape()[1].value;
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(t.data<uint16_t>() + r * step, columns,
                part.mutable_data<uint16_t>() + r * columns);
  }
  return part;
}

TEST(GemmBf16Amx, SumsDependOnNoTile) {
  if (!IsaSupported(Isa::kAmxSoftware)) GTEST_SKIP() << "no AVX-512";
  std::mt19937 random(1);
  for (const int64_t k : {16, 33, 250, 2100}) {
    const Tensor a = RandomBf16(Shape{75, k}, random), b = RandomBf16(Shape{k, 90}, random);
    const Tensor all = RunKernel(kMatMulBf16, MatMulOf(a, b), Isa::kAmxSoftware)[0];
    for (const int64_t m : {5, 16, 17, 40}) {
      for (const int64_t n : {7, 16, 40, 64}) {
        const TestCall call = MatMulOf(Corner(a, m, k), Corner(b, k, n));
        const Tensor part = RunKernel(kMatMulBf16, call, Isa::kAmxSoftware)[0];
        for (int64_t i = 0; i < m * n; ++i)
          ASSERT_EQ(part.data<float>()[i], all.data<float>()[i / n * 90 + i % n])
              << m << " x " << k << " x " << n << " element " << i;
      }
    }
  }
}

// Row r is 256 + r, of which bfloat16 has every second one: between two, the even one is taken. A
// NaN stays one.
TEST(GemmBf16Amx, RoundsToEven) {
  if (!IsaSupported(Isa::kAmxSoftware)) GTEST_SKIP() << "no AVX-512";
  constexpr int64_t kRows = 40, kDepth = 16, kColumns = 20;
  std::vector<float> a(kRows * kDepth, 0.0f), b(kDepth * kColumns, 1.0f);
  for (int64_t r = 0; r < kRows; ++r)
    a[r * kDepth] = 256, a[r * kDepth + 3] = static_cast<float>(r);
  const auto narrow = [](const Shape& shape, const std::vector<float>& values) {
    Tensor t = Tensor::Allocate(TensorType(DType::kBfloat16, shape));
    for (size_t i = 0; i < values.size(); ++i)
      t.mutable_data<uint16_t>()[i] = FloatToBfloat16(values[i]);
    return t;
  };
  TestCall call = MatMulOf(narrow(Shape{kRows, kDepth}, a), narrow(Shape{kDepth, kColumns}, b));
  call.outputs[0].dtype = DType::kBfloat16;
  Tensor residual = Tensor::Allocate(TensorType(DType::kFloat32, Shape{kRows, kColumns}));
  std::fill_n(residual.mutable_data<float>(), kRows * kColumns, 0.0f);
  for (int64_t n = 0; n < kColumns; ++n)  // the largest NaN, which rounding would make 0
    residual.mutable_data<float>()[7 * kColumns + n] = std::bit_cast<float>(0x7fffffffu);
  call.inputs.resize(4);
  call.inputs[3] = residual;
  const Tensor y = RunKernel(kMatMulBf16, call, Isa::kAmxSoftware)[0];
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    const int64_t r = i / kColumns;
    const double value = At(y, i);
    if (r == 7) {
      EXPECT_TRUE(std::isnan(value)) << i;
    } else {
      EXPECT_EQ(value, 256 + (r + 1) / 4 * 4 + (r % 4 == 2 ? 2 : 0)) << i;
    }
  }
}

// Output, plan and what was asked of the software's tiles.
struct Ran {
  Tensor y;
  std::string plan;
  AmxCounts counts;
};
Ran RunOn(Isa isa, const KernelDef& kernel, const TestCall& call, int threads) {
  const AmxCounts before = AmxSoftwareCounts();
  Ran ran;
  ran.plan = Bind(kernel, call, isa, threads).bound.plan.ToString();
  ran.y = RunKernel(kernel, call, isa, threads)[0];
  const AmxCounts after = AmxSoftwareCounts();
  ran.counts.products = after.products - before.products;
  ran.counts.configurations = after.configurations - before.configurations;
  ran.counts.releases = after.releases - before.releases;
  return ran;
}
// On AMX_SOFTWARE, and what was compiled for AMX.
Ran RunBoth(const KernelDef& kernel, const TestCall& call, int threads = 1) {
  const Ran ran = RunOn(Isa::kAmxSoftware, kernel, call, threads);
  EXPECT_EQ(ran.counts.configurations, ran.counts.releases);
  // Its other kernels take products of bfloat16 that this processor may lack.
  if (IsaSupported(Isa::kAmx) || !IsaSupported(Isa::kAvx512Bf16)) return ran;
  const AmxEmulator emulator;
  const Ran hardware = RunOn(Isa::kAmx, kernel, call, threads);
  EXPECT_EQ(hardware.counts.products, ran.counts.products);
  if (ran.counts.products > 0) EXPECT_EQ(FirstDifference(hardware.y, ran.y), "");
  return ran;
}

TEST(GemmBf16Amx, Products) {
  if (!IsaSupported(Isa::kAmxSoftware)) GTEST_SKIP() << "no AVX-512";
  std::mt19937 random(2);
  const auto run = [&](int64_t m, int64_t k, int64_t n, int threads = 1) {
    return RunBoth(kMatMulBf16,
                   MatMulOf(RandomBf16(Shape{m, k}, random), RandomBf16(Shape{k, n}, random)),
                   threads);
  };
  // 3 registers of rows (32 + 16), 3 panels, 64 pairs: 4 steps.
  const Ran ran = run(40, 128, 48);
  EXPECT_EQ(ran.plan, "amx software 32x32");
  EXPECT_EQ(ran.counts.products, 3 * 3 * 4);
  EXPECT_EQ(ran.counts.configurations, 1);
  const Ran wide = run(16, 34, 64);  // 17 pairs: two steps
  EXPECT_EQ(wide.plan, "amx software 16x64");
  EXPECT_EQ(wide.counts.products, 1 * 4 * 2);
  EXPECT_EQ(run(640, 256, 256, 2).counts.products, 40 * 16 * 8);
  EXPECT_EQ(run(4, 128, 48).counts.products, 0) << "few rows";
  EXPECT_EQ(run(40, 14, 48).counts.products, 0) << "short rows";
}

TEST(GemmBf16Amx, Convolutions) {
  if (!IsaSupported(Isa::kAmxSoftware)) GTEST_SKIP() << "no AVX-512";
  std::mt19937 random(3);
  for (const int64_t channels : {7, 32, 40}) {
    TestCall call;
    call.op = "Conv";
    call.attrs.Set("channels_last", 1);
    call.attrs.Set("pads", std::vector<int64_t>{1, 1, 1, 1});
    call.inputs = {RandomBf16(Shape{1, 9, 9, channels}, random),
                   RandomBf16(Shape{20, channels, 3, 3}, random)};
    call.is_constant = {false, true};
    call.outputs = {TensorType(DType::kBfloat16, Shape{1, 9, 9, 20})};
    // 81 pixels are 6 registers of rows, 20 channels two panels. Of seven channels, 63 elements are
    // one row of 32 pairs; else each tap of 16 or 20 pairs has its steps.
    const int64_t steps = channels == 7 ? 2 : channels == 32 ? 9 : 18;
    EXPECT_EQ(RunBoth(kConvBf16, call).counts.products, 6 * 2 * steps) << channels;
  }
}

#endif

}  // namespace
}  // namespace evoq
