#include "kernels/gemm/linear_f32_testing.h"
#include "kernels/gemm/weights/format_testing.h"

namespace evoq {
extern const KernelDef kMatMulW8;
namespace {

LinearCaseF32 MakeCase(int64_t m, const Tensor& b, const std::string& name, std::mt19937& random) {
  const int64_t k = b.sizes()[0], n = b.sizes()[1];
  LinearCaseF32 c;
  c.kernel = &kMatMulW8;
  c.name = fmt::format("{} x {} x {} {}", m, k, n, name);
  const Activation activation = RandomActivation(random);
  ActivationToAttrs(activation, c.attrs);
  c.inputs = {RandomF32(Shape{m, k}, random), b,
              random() % 2 == 0 ? RandomF32(Shape{n}, random) : Tensor(),
              random() % 3 == 0 ? RandomF32(Shape{m, n}, random) : Tensor()};
  c.constant = {false, true, false, false};
  c.output = TensorType(DType::kFloat32, Shape{m, n});
  const Tensor numbers = ToFloat32(b.WithType(TensorType(b.dtype(), b.shape()))).value();
  const auto q = numbers.values<float>();  // without scales and zero points
  const QuantParams& quant = *b.type().quant;
  for (int64_t i = 0; i < m * n; ++i) {
    double sum = 0, magnitude = 0;
    for (int64_t l = 0; l < k; ++l) {
      const int64_t at = l * n + i % n, scale = quant.axis < 0    ? 0
                                                : quant.axis == 1 ? i % n
                                                                  : l / quant.block * n + i % n;
      const double product = static_cast<double>(c.inputs[0].data<float>()[i / n * k + l]) *
                             (static_cast<double>(q[at]) - quant.zero_points[scale]) *
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

// Every kind of weights, in shapes around the sizes of tiles, panels, groups and blocks.
TEST(MatMulW8, EveryFormat) {
  std::mt19937 random(1);
  constexpr int64_t kRows[] = {1, 2, 3, 5, 6, 7, 16}, kDepths[] = {1, 2, 17, 31, 32, 64, 65, 200},
                    kColumns[] = {1, 15, 16, 17, 48, 64, 65, 79, 130};
  for (const WeightKind& kind : AllWeightKinds()) {
    for (int i = 0; i < 40 && !testing::Test::HasFatalFailure(); ++i) {
      const int64_t m = kRows[i % 7], k = kDepths[random() % 8], n = kColumns[random() % 9];
      const auto elements = i == 0   ? Elements::kLowest
                            : i == 1 ? Elements::kHighest
                                     : Elements::kRandom;
      CheckLinearF32(
          MakeCase(m, WeightsOf(kind.Type(k, n, random), elements, random), kind.Name(), random));
    }
  }
}

// Vectors of different widths compute the same sums, in the same order.
TEST(MatMulW8, BitEqualOnVectors) {
  std::mt19937 random(4);
  for (const WeightKind& kind : AllWeightKinds()) {
    const Tensor b = WeightsOf(kind.Type(97, 81, random), Elements::kRandom, random);
    LinearCaseF32 c = MakeCase(7, b, kind.Name(), random);
    c.attrs = {};
    std::vector<float> first;
    for (Isa isa : AllIsas()) {
      if (!IsaSupported(isa) || !isa.Has(Isa::kAvx2)) continue;
      const std::vector<float> y = RunLinearF32(c, isa, 1);
      if (first.empty()) first = y;
      EXPECT_EQ(y, first) << kind.Name() << " on " << IsaName(isa);
    }
  }
}

TEST(MatMulW8, RejectsWithAReason) {
  std::mt19937 random(2);
  const auto code = [&](int64_t m, const TensorType& type) {
    const LinearCaseF32 c = MakeCase(m, WeightsOf(type, Elements::kRandom, random), "", random);
    std::vector<TensorType> types;
    for (const Tensor& t : c.inputs) types.push_back(t.type());
    const std::vector<const Tensor*> constants = {nullptr, &c.inputs[1], nullptr, nullptr};
    const auto why =
        kMatMulW8.reject(KernelCall{"MatMul", c.attrs, types, {&c.output, 1}, constants});
    return std::string(why ? why->code : "");
  };
  const WeightFormat* int8 = AllWeightFormats()[0].back().table;
  const TensorType columns =
      WeightKind{int8, DType::kInt8, WeightKind::kColumns, 1, true}.Type(32, 16, random);
  EXPECT_EQ(code(16, columns), "");
  EXPECT_EQ(code(17, columns), "shape");
  const TensorType blocks =
      WeightKind{int8, DType::kInt8, WeightKind::kBlocks, 16, false}.Type(32, 16, random);
  EXPECT_EQ(code(1, blocks), "");
  QuantParams zeros = *blocks.quant;
  zeros.zero_points[3] = 1;
  EXPECT_EQ(code(1, TensorType(DType::kInt8, Shape{32, 16}, zeros)), "types");
}

}  // namespace
}  // namespace evoq
