// ExpertMatMul's kernels: the bits of each row are those that MatMul's kernels give it alone.
#include "kernels/gemm/blocks/block_data.h"
#include "kernels/gemm/weights/format_testing.h"
#include "kernels/test_util.h"

namespace evoq {
extern const KernelDef kExpertBlocks, kExpertW8, kExpertF32, kExpertBf16, kMatMulBlocks, kMatMulW8,
    kMatMulF32, kMatMulBf16;
namespace {

constexpr int64_t kDepth = 64, kColumns = 45;

Tensor Random(Shape shape, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  Tensor t = Tensor::Allocate(TensorType(DType::kFloat32, std::move(shape)));
  for (int64_t i = 0; i < t.elements(); ++i) t.mutable_data<float>()[i] = uniform(random);
  return t;
}

struct Sizes {
  int64_t tokens, chosen, experts;
  bool shared, biased, wide;
};

// Indices such that expert 1 has most rows and, where there are more than two, the last one none.
TestCall CallOf(const Sizes& s, const std::function<Tensor()>& weights, std::mt19937& random) {
  TestCall t;
  t.op = "ExpertMatMul";
  t.attrs.Set("experts", s.experts);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < s.tokens * s.chosen; ++i)
    ids.push_back(s.experts < 3 || random() % 3 == 0
                      ? static_cast<int64_t>(random()) % std::max<int64_t>(s.experts - 1, 1)
                      : 1);
  const Shape shape{s.tokens, s.chosen};
  t.inputs = {
      Random(Shape{s.tokens, s.shared ? 1 : s.chosen, kDepth}, random),
      s.wide ? Tensor::FromValues<int64_t>(shape, ids)
             : Tensor::FromValues<int32_t>(shape, std::vector<int32_t>(ids.begin(), ids.end()))};
  t.is_constant = {false, false};
  for (int64_t e = 0; e < s.experts; ++e) t.inputs.push_back(weights());
  for (int64_t e = 0; s.biased && e < s.experts; ++e)
    t.inputs.push_back(Random(Shape{kColumns}, random));
  t.is_constant.resize(t.inputs.size(), true);
  t.outputs = {TensorType(DType::kFloat32, Shape{s.tokens, s.chosen, kColumns})};
  return t;
}

// One row after the other.
Tensor Expected(const KernelDef& product, const TestCall& t, Isa isa) {
  Tensor y = Tensor::Allocate(t.outputs[0]);
  const int64_t rows = t.inputs[1].elements(), chosen = t.inputs[1].sizes()[1],
                experts = t.attrs.Int("experts"), share = t.inputs[0].sizes()[1] == 1 ? chosen : 1;
  for (int64_t r = 0; r < rows; ++r) {
    const auto e = static_cast<size_t>(ToFloat32(t.inputs[1])->data<float>()[r]);
    TestCall one;
    one.op = "MatMul";
    one.attrs = t.attrs;
    Tensor x = Tensor::Allocate(TensorType(t.inputs[0].dtype(), Shape{1, kDepth}));
    std::memcpy(x.mutable_raw(), t.inputs[0].raw() + static_cast<size_t>(r / share) * x.bytes(),
                x.bytes());
    one.inputs = {x, t.inputs[2 + e]};
    if (t.inputs.size() > 2 + static_cast<size_t>(experts))
      one.inputs.push_back(t.inputs[2 + static_cast<size_t>(experts) + e]);
    one.is_constant = {false, true, false};
    one.outputs = {TensorType(t.outputs[0].dtype, Shape{1, kColumns})};
    const Tensor row = RunKernel(product, one, isa)[0];
    std::memcpy(y.mutable_raw() + static_cast<size_t>(r) * row.bytes(), row.raw(), row.bytes());
  }
  return y;
}

constexpr Sizes kSizes[] = {{1, 1, 1, false, false, true},  {1, 3, 5, true, true, true},
                            {2, 2, 4, false, false, false}, {13, 2, 3, true, false, true},
                            {40, 3, 2, true, true, false},  {90, 4, 9, false, true, true},
                            {700, 1, 3, true, false, true}, {0, 2, 3, true, false, true}};

void Check(const KernelDef& kernel, const KernelDef& product, const TestCall& t,
           const std::string& what, bool exact) {
  for (Isa isa : TestIsas()) {
    const Tensor expected = Expected(product, t, isa);
    for (int threads : {1, 3}) {
      const Tensor y = RunKernel(kernel, t, isa, threads)[0];
      const std::string at = fmt::format("{} on {}, {} threads", what, IsaName(isa), threads);
      if (exact) {
        EXPECT_EQ(FirstDifference(y, expected), "") << at;
        continue;
      }
      const Tensor got = ToFloat32(y).value(), want = ToFloat32(expected).value();
      const double near = y.dtype() == DType::kBfloat16 ? 0.04 : 1e-5;
      for (int64_t i = 0; i < y.elements(); ++i)
        ASSERT_NEAR(got.data<float>()[i], want.data<float>()[i], near) << at << ", " << i;
    }
  }
}

TEST(ExpertMatMul, OfRoundedDataGivesTheBitsOfMatMul) {
  std::mt19937 random(1);
  for (const Sizes& s : kSizes) {
    for (const DType dtype : {DType::kInt4, DType::kInt8, DType::kUint4}) {
      TestCall t = CallOf(
          s,
          [&] {
            QuantParams quant;
            quant.axis = 0, quant.block = 32;
            for (int64_t i = 0; i < kDepth / 32 * kColumns; ++i) {
              quant.scales.push_back(0.01f + 0.001f * static_cast<float>(random() % 16));
              quant.zero_points.push_back(dtype == DType::kUint4 ? random() % 16 : 0);
            }
            const TensorType type(dtype, Shape{kDepth, kColumns}, std::move(quant));
            return WeightsOf(type, Elements::kRandom, random);
          },
          random);
      t.attrs.Set(kDataBlock, int64_t{32});
      EXPECT_TRUE(RejectOf(kExpertF32, t)) << "the data is rounded";
      Check(kExpertBlocks, kMatMulBlocks, t,
            fmt::format("{} tokens, {} of {}, {}", s.tokens, s.chosen, s.experts, DTypeName(dtype)),
            true);
    }
  }
}

TEST(ExpertMatMul, OfFloatsIsMatMul) {
  std::mt19937 random(2);
  for (const Sizes& s : kSizes) {
    const TestCall t = CallOf(s, [&] { return Random(Shape{kDepth, kColumns}, random); }, random);
    EXPECT_TRUE(RejectOf(kExpertW8, t)) << "weights in no format";
    EXPECT_TRUE(RejectOf(kExpertBlocks, t)) << "the data is not rounded";
    Check(kExpertF32, kMatMulF32, t, fmt::format("{} tokens of {}", s.tokens, s.experts), false);
  }
}

TEST(ExpertMatMul, OfWeightsInFormatsIsMatMul) {
  std::mt19937 random(3);
  for (const Sizes& s : kSizes) {
    const std::vector<WeightKind> kinds = AllWeightKinds();
    const WeightKind kind = kinds[random() % kinds.size()];
    const TestCall t = CallOf(
        s,
        [&] { return WeightsOf(kind.Type(kDepth, kColumns, random), Elements::kRandom, random); },
        random);
    EXPECT_EQ(RejectOf(kExpertW8, t).has_value(), s.tokens > 16);
    const std::string what = fmt::format("{} tokens of {}, {}", s.tokens, s.experts, kind.Name());
    Check(s.tokens > 16 ? kExpertF32 : kExpertW8, kMatMulW8, t, what, false);
  }
}

TEST(ExpertMatMul, OfBfloat16IsMatMul) {
  std::mt19937 random(6);
  const auto narrow = [](const Tensor& x) {
    Tensor y = Tensor::Allocate(TensorType(DType::kBfloat16, x.shape()));
    for (int64_t i = 0; i < x.elements(); ++i)
      y.mutable_data<uint16_t>()[i] = FloatToBfloat16(x.data<float>()[i]);
    return y;
  };
  for (const Sizes& s : kSizes) {
    for (const bool wide : {false, true}) {  // the results
      TestCall t =
          CallOf(s, [&] { return narrow(Random(Shape{kDepth, kColumns}, random)); }, random);
      t.inputs[0] = narrow(t.inputs[0]);
      if (wide) t.attrs.Set("output_dtype", static_cast<int64_t>(DType::kFloat32));
      if (!wide) t.outputs[0].dtype = DType::kBfloat16;
      EXPECT_TRUE(RejectOf(kExpertF32, t) && RejectOf(kExpertBlocks, t));
      Check(kExpertBf16, kMatMulBf16, t, fmt::format("{} tokens of {}", s.tokens, s.experts),
            false);
    }
  }
}

// Experts of several forms are one product.
TEST(ExpertMatMul, OfFormsBesideEachOther) {
  std::mt19937 random(4);
  bool format = false;
  const WeightKind kind = AllWeightKinds()[0];
  const TestCall t = CallOf(
      {13, 2, 4, true, false, true},
      [&] {
        format = !format;
        return format ? WeightsOf(kind.Type(kDepth, kColumns, random), Elements::kRandom, random)
                      : Random(Shape{kDepth, kColumns}, random);
      },
      random);
  EXPECT_TRUE(RejectOf(kExpertW8, t));
  Check(kExpertF32, kMatMulF32, t, "mixed", false);
}

TEST(ExpertMatMul, RejectsWithAReason) {
  std::mt19937 random(5);
  const auto weights = [&] { return Random(Shape{kDepth, kColumns}, random); };
  const TestCall good = CallOf({3, 2, 2, true, true, true}, weights, random);
  const auto reason = [&](const auto& change) {
    TestCall t = good;
    change(t);
    const auto why = RejectOf(kExpertF32, t);
    return why ? std::string(why->code) : "";
  };
  EXPECT_EQ(reason([](TestCall&) {}), "");
  EXPECT_EQ(reason([](TestCall& t) { t.is_constant[3] = false; }), "not-constant");
  EXPECT_EQ(reason([](TestCall& t) { t.attrs.Set("experts", int64_t{3}); }), "shape");
  EXPECT_EQ(reason([](TestCall& t) { t.attrs.Set("experts", int64_t{0}); }), "shape");
  EXPECT_EQ(reason([&](TestCall& t) { t.inputs[3] = Random(Shape{kDepth, 44}, random); }), "shape");
  EXPECT_EQ(reason([&](TestCall& t) { t.inputs[5] = Random(Shape{44}, random); }), "shape");
  EXPECT_EQ(reason([](TestCall& t) { t.inputs[1] = Tensor::FromValues<float>(Shape{1}, {0}); }),
            "types");
  EXPECT_EQ(reason([](TestCall& t) { t.outputs[0].shape = Shape{3, 2, 44}; }), "shape");
}

}  // namespace
}  // namespace evoq
