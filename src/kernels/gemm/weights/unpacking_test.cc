#include "kernels/gemm/weights/unpacking.h"

#include "kernels/gemm/linear_f32_testing.h"
#include "kernels/gemm/weights/format_testing.h"

namespace evoq {
namespace {

// matmul_f32, unpacking whatever the sizes are.
KernelDef Unpacking() {
  KernelDef kernel = *FindKernel("matmul_f32");
  kernel.bind = [](const KernelCall& call, const BindOptions& options) -> Result<BoundKernel> {
    MatMulShape shape;
    EXPECT_FALSE(ReadMatMulShape(call, shape));
    return BindUnpacking(call, shape, options);
  };
  return kernel;
}

// The bits of the product with the weights in float32, in any number of threads, with nothing
// written beside y and the scratch memory (RunLinearF32).
TEST(Unpacking, EqualsTheProductInFloat32) {
  const KernelDef unpacking = Unpacking();
  std::mt19937 random(1);
  constexpr int64_t kRows[] = {1, 2, 15, 29, 230}, kDepths[] = {0, 1, 33, 97, 1100},
                    kColumns[] = {1, 16, 63, 64, 65, 130, 200};
  int round = 0;
  for (const WeightKind& kind : AllWeightKinds()) {
    for (int i = 0; i < 14; ++i, ++round) {
      int64_t m = kRows[round % 5], k = kDepths[random() % 5], n = kColumns[i % 7];
      if (k == 0 && kind.scales == WeightKind::kBlocks) k = 2;
      if (k == 1100) n = std::min<int64_t>(n, 65);
      const Tensor b = WeightsOf(kind.Type(k, n, random), Elements::kRandom, random);
      LinearCaseF32 c;
      c.name = fmt::format("{} x {} x {} {}", m, k, n, kind.Name());
      ActivationToAttrs(RandomActivation(random), c.attrs);
      c.inputs = {RandomF32(Shape{m, k}, random), b,
                  random() % 2 == 0 ? RandomF32(Shape{n}, random) : Tensor(),
                  random() % 3 == 0 ? RandomF32(Shape{m, n}, random) : Tensor()};
      c.constant = {false, true, false, false};
      c.output = TensorType(DType::kFloat32, Shape{m, n});
      for (Isa isa : AllIsas()) {
        if (!IsaSupported(isa)) continue;
        LinearCaseF32 real = c;
        real.kernel = FindKernel("matmul_f32");
        real.inputs[1] = ToFloat32(b).value();
        c.kernel = &unpacking;
        const std::vector<float> expected = RunLinearF32(real, isa, 1);
        for (int threads : {1, 2, 3}) {
          const std::vector<float> y = RunLinearF32(c, isa, threads);
          ASSERT_EQ(y.size(), expected.size());
          ASSERT_EQ(std::memcmp(y.data(), expected.data(), y.size() * sizeof(float)), 0)
              << c.name << " on " << IsaName(isa) << ", " << threads << " threads";
        }
      }
    }
  }
}

// Where it pays, matmul_f32 holds no float32 copy but a group for each thread.
TEST(Unpacking, WhereItPays) {
  struct Case {
    int64_t m, k, n;
    int threads;
    bool pays;
  };
  constexpr Case kCases[] = {
      {256, 512, 512, 1, true},   {255, 512, 512, 1, false},   {256, 512, 511, 1, false},
      {255, 2048, 4096, 1, true}, {255, 2048, 4095, 1, false}, {17, 4096, 4096, 1, true},
      {256, 512, 512, 8, true},   {256, 512, 512, 3, false},  // 8 groups: 9 places
      {256, 512, 4096, 3, true},                              // 64 groups: 66 places
      {256, 262144, 1, 1, true},  {256, 262144, 1, 2, false},
  };
  const Attrs none;
  for (const Case& c : kCases) {
    const TensorType x(DType::kFloat32, Shape{c.m, c.k}), y(DType::kFloat32, Shape{c.m, c.n}),
        w(DType::kInt8, Shape{c.k, c.n}, QuantParams::PerTensor(0.5f, 0));
    const Tensor weights = Tensor::Allocate(w);
    const std::vector<TensorType> inputs = {x, w};
    const std::vector<const Tensor*> constants = {nullptr, &weights};
    const KernelCall call{"MatMul", none, inputs, {&y, 1}, constants};
    MatMulShape shape;
    ASSERT_FALSE(ReadMatMulShape(call, shape));
    EXPECT_EQ(PaysToUnpack(call, shape, {Isa::kScalar, c.threads, {}}), c.pays)
        << c.m << " x " << c.k << " x " << c.n;
    const BoundKernel bound =
        FindKernel("matmul_f32")->bind(call, BindOptions{Isa::kScalar, c.threads, {}}).value();
    EXPECT_EQ(bound.scratch_bytes, c.pays ? static_cast<size_t>(c.threads * c.k * 64 * 4) : 0);
    EXPECT_EQ(bound.plan.method, c.pays ? kUnpackingMethod : "");
    EXPECT_EQ(bound.plan.widened, !c.pays);
  }
  const TensorType f(DType::kFloat32, Shape{1024, 1024});
  const Tensor real = Tensor::Allocate(f);
  const std::vector<TensorType> inputs = {f, f};
  const std::vector<const Tensor*> constants = {nullptr, &real}, computed = {nullptr, nullptr};
  MatMulShape shape;
  const KernelCall call{"MatMul", none, inputs, {&f, 1}, constants};
  ASSERT_FALSE(ReadMatMulShape(call, shape));
  EXPECT_FALSE(PaysToUnpack(call, shape, {})) << "float32 weights";
  EXPECT_FALSE(PaysToUnpack({"MatMul", none, inputs, {&f, 1}, computed}, shape, {}));
}

}  // namespace
}  // namespace evoq
