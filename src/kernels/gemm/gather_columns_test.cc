// gather_columns: the columns of a weight in each layout in which products read it, as ToFloat32
// gives them.
#include "kernels/gemm/blocks/scale_steps_testing.h"
#include "kernels/gemm/blocks/stream.h"
#include "kernels/gemm/weights/format_testing.h"
#include "kernels/test_util.h"

namespace evoq {
extern const KernelDef kGatherColumnsKernel;
namespace {

TestCall MakeCall(const Tensor& weights, bool wide) {
  const int64_t n = weights.sizes()[1];
  TestCall t;
  t.op = "GatherColumns";
  const std::vector<int64_t> at = {0, n - 1, -1, -n, n / 2, n / 3};
  t.inputs = {weights, wide ? Tensor::FromValues<int64_t>(Shape{2, 3}, at)
                            : Tensor::FromValues<int32_t>(
                                  Shape{2, 3}, std::vector<int32_t>(at.begin(), at.end()))};
  t.is_constant = {true, false};
  t.outputs = {TensorType(DType::kFloat32, Shape{2, 3, weights.sizes()[0]})};
  return t;
}

Tensor Expected(const Tensor& plain) {
  const int64_t k = plain.sizes()[0], n = plain.sizes()[1];
  const Tensor real = ToFloat32(plain).value();
  Tensor y = Tensor::Allocate(TensorType(DType::kFloat32, Shape{2, 3, k}));
  const int64_t at[] = {0, n - 1, n - 1, 0, n / 2, n / 3};
  for (int64_t j = 0; j < 6; ++j) {
    for (int64_t i = 0; i < k; ++i)
      y.mutable_data<float>()[j * k + i] = real.data<float>()[i * n + at[j]];
  }
  return y;
}

TEST(GatherColumns, EveryKindOfWeightsInEachLayout) {
  std::mt19937 random(1);
  for (const WeightKind& kind : AllWeightKinds()) {
    for (const auto& [k, n] : {std::pair<int64_t, int64_t>{1, 1}, {64, 32}, {77, 45}}) {
      const bool steps = kind.dtype == DType::kInt4 && !kind.zeros && kind.block == 32;
      const TensorType type = steps ? TypeWithSteps(k, n, random) : kind.Type(k, n, random);
      const Tensor plain = WeightsOf(type, Elements::kRandom, random);
      const Tensor expected = Expected(plain);
      std::vector<Tensor> forms = {plain, PackWeights(plain).value()};
      if (const auto stream = PackStream(plain)) forms.push_back(*stream);
      for (const Tensor& form : forms) {
        if (!form.layout().empty()) {
          const TensorType types[] = {form.type(), TensorType(DType::kInt64, Shape{2, 3})};
          EXPECT_TRUE(kGatherColumnsKernel.reads(
              KernelCall{"GatherColumns", Attrs(), types, {}, {}}, 0, form.layout()));
        }
        ExpectKernel(kGatherColumnsKernel, MakeCall(form, random() % 2 == 0), {expected},
                     fmt::format("{} {}x{} in '{}'", kind.Name(), k, n, form.layout()));
      }
    }
  }
}

TEST(GatherColumns, RejectsWithAReason) {
  std::mt19937 random(2);
  const WeightKind kind = AllWeightKinds()[0];
  const Tensor w = WeightsOf(kind.Type(8, 4, random), Elements::kRandom, random);
  const auto why = [](const TestCall& t) {
    const auto reason = RejectOf(kGatherColumnsKernel, t);
    return reason ? reason->code + ": " + reason->sentence : "";
  };
  TestCall t = MakeCall(w, true);
  EXPECT_EQ(why(t), "");
  t.is_constant = {false, false};
  EXPECT_EQ(why(t), "not-constant: the weights are computed");
  t = MakeCall(w, true);
  t.outputs = {TensorType(DType::kFloat32, Shape{2, 3, 7})};
  EXPECT_EQ(why(t).substr(0, 7), "shape: ");
  t = MakeCall(Tensor::Allocate(TensorType(DType::kFloat32, Shape{8, 4})), true);
  EXPECT_EQ(why(t),
            "types: float32[8, 4] -> float32[2, 3, 8], expected weights that products read, and "
            "float32");
  t = MakeCall(w, true);
  t.inputs[1] = Tensor::Allocate(TensorType(DType::kInt8, Shape{2, 3}));
  EXPECT_EQ(why(t), "types: indices are int8[2, 3], expected int64 or int32");
}

}  // namespace
}  // namespace evoq
