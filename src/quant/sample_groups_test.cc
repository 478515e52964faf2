#include "quant/sample_groups.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "quant/test_net.h"

namespace evoq {
namespace {

Graph Net() {
  return MakeNet(R"(input %x: float32[1, 3, 6, 6]
const %w: float32[8, 3, 3, 3]
c: %y: float32[1, 8, 4, 4] = Conv{activation="Relu"}(%x, %w)
const %v: float32[4, 8, 3, 3]
d: %z: float32[1, 4, 2, 2] = Conv(%y, %v)
output %z)");
}

MethodData Data(const std::vector<Tensor>& samples) {
  return {Reference(),
          [&samples](const std::function<Status(std::span<const Tensor>)>& use) -> Status {
            for (const Tensor& sample : samples) EVOQ_TRY(use(std::span(&sample, 1)));
            return {};
          }};
}

Result<std::vector<int>> Groups(const std::vector<Tensor>& samples, int groups) {
  const Graph graph = Net();
  const MethodData data = Data(samples);
  EVOQ_ASSIGN(const Ranges ranges, Calibrate(graph, data.prepare, data.samples, {}));
  return GroupSamples(graph, ranges, data, groups);
}

// Three amplitudes, mixed, are told apart; group 0 is the loudest.
TEST(SampleGroups, FindsLevelsWhateverTheOrder) {
  const Graph graph = Net();
  const float levels[] = {0.25f, 4, 1, 1, 4, 0.25f, 4, 0.25f, 1, 1, 4};
  const std::vector<int> wanted = {2, 0, 1, 1, 0, 2, 0, 2, 1, 1, 0};
  std::vector<Tensor> samples;
  for (size_t i = 0; i < wanted.size(); ++i)
    samples.push_back(RandomInput(graph, static_cast<int>(i), levels[i]));
  const auto groups = Groups(samples, 3);
  ASSERT_TRUE(groups) << groups.error().message();
  EXPECT_EQ(*groups, wanted);
  std::ranges::reverse(samples);
  std::vector<int> reversed = Groups(samples, 3).value();
  std::ranges::reverse(reversed);
  EXPECT_EQ(reversed, wanted);
}

TEST(SampleGroups, RefusesTooFewSamples) {
  const Graph graph = Net();
  const std::vector<Tensor> two = {RandomInput(graph, 1), RandomInput(graph, 2, 3)};
  EXPECT_EQ(Groups(two, 3).error().message(),
            "2 calibration samples, expected at least as many as the 3 scale sets");
  const std::vector<Tensor> alike(5, RandomInput(graph, 1));
  EXPECT_EQ(Groups(alike, 2).error().message(),
            "the 5 calibration samples fall into 1 groups by their ranges, expected at least as "
            "many as the 2 scale sets");
}

// What QuantizeEach makes of two ranges differs in scales and biases, never in weights: also where
// the bias of one set asks for larger scales of the weights.
TEST(SampleGroups, SetsShareWeightsWhateverTheirBiasesAsk) {
  Graph graph = MakeNet(R"(input %x: float32[1, 3, 6, 6]
const %w: float32[8, 3, 3, 3]
const %b: float32[8]
c: %y: float32[1, 8, 4, 4] = Conv{activation="Relu"}(%x, %w, %b)
const %v: float32[4, 8, 3, 3]
d: %z: float32[1, 4, 2, 2] = Conv(%y, %v)
output %z)",
                        1e-6f);
  Tensor b = Tensor::Allocate(TensorType(DType::kFloat32, Shape{8}));
  std::fill_n(b.mutable_data<float>(), 8, 50.0f);
  graph.SetConstant(graph.FindValue("b"), b);
  std::vector<Ranges> ranges;
  for (float level : {1.0f, 0.001f}) {
    const std::vector<Tensor> samples = {RandomInput(graph, 1, level)};
    ranges.push_back(Calibrate(graph, Reference(), Data(samples).samples, {}).value());
  }
  const auto prepared = PreparedQuantization::Of(
      *FindScheme("int8"), ParseMethods("bias-correction").value(), graph, ranges[0], {});
  ASSERT_TRUE(prepared) << prepared.error().message();
  const std::vector<MethodData> data(2);
  const auto each = prepared->QuantizeEach(ranges, data);
  ASSERT_TRUE(each) << each.error().message();
  const auto constant = [&](size_t set, const char* name) {
    const Graph& g = (*each)[set].graph;
    return g.value(g.FindValue(name)).constant;
  };
  EXPECT_TRUE(BitEqual(constant(0, "w.int8"), constant(1, "w.int8")));
  EXPECT_TRUE(BitEqual(constant(0, "v.int8"), constant(1, "v.int8")));
  EXPECT_FALSE(BitEqual(constant(0, "b.int32"), constant(1, "b.int32")));
  // Alone, the first set has finer weights: its bias asks for less.
  const auto alone = prepared->Quantize();
  ASSERT_TRUE(alone);
  EXPECT_FALSE(BitEqual(alone->graph.value(alone->graph.FindValue("w.int8")).constant,
                        constant(0, "w.int8")));
}

}  // namespace
}  // namespace evoq
