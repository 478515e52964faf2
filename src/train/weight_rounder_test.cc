// Training with the weights that a scheme makes: forward reads them, and what is written has them.
#include "train/weight_rounder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "base/rows.h"
#include "quant/test_net.h"
#include "train/learner.h"
#include "train/trainer.h"

namespace evoq {
namespace {

constexpr char kNet[] = R"(graph net
input %x: float32[N, 48]
const %w1: float32[48, 40]
const %b1: float32[40]
const %w2: float32[40, 40]
const %w3: float32[40, 8]
a: %a: float32[N, 40] = MatMul(%x, %w1)
ab: %ab: float32[N, 40] = Add(%a, %b1)
ra: %ra: float32[N, 40] = Relu(%ab)
b: %b: float32[N, 40] = MatMul(%ra, %w2)
rb: %rb: float32[N, 40] = Relu(%b)
y: %y: float32[N, 8] = MatMul(%rb, %w3)
output %y
)";

LabelledSamples Noise(int64_t count) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 1);
  LabelledSamples out;
  out.sizes = {{48}};
  out.inputs.resize(1);
  for (int64_t i = 0; i < count * 48; ++i) out.inputs[0].push_back(normal(random));
  for (int64_t i = 0; i < count; ++i) out.labels.push_back(i % 8);
  return out;
}

QuantizeOptions Blocks16() { return {.block = 16}; }

WeightRounder RounderOf(const Graph& graph, const std::string& scheme) {
  auto rounder = WeightRounder::Create(graph, *FindScheme(scheme), Blocks16());
  EXPECT_TRUE(rounder) << rounder.error().message();
  return std::move(*rounder);
}

// The graph with each weight as what the scheme's own run makes of it.
Graph Rounded(const Graph& graph, const std::string& scheme) {
  Graph quantized = graph;
  EXPECT_TRUE(FindScheme(scheme)->run(quantized, {}, Blocks16()));
  Graph rounded = graph;
  int changed = 0;
  for (int i = 0; i < quantized.value_count(); ++i) {
    const Value& value = quantized.value(ValueId{i});
    if (!value.is_constant() || !value.type.quantized()) continue;
    const ValueId own = graph.FindValue(value.name.substr(0, value.name.find('.')));
    rounded.SetConstant(own, ToFloat32(value.constant).value());
    ++changed;
  }
  EXPECT_EQ(changed, 3) << scheme;
  return rounded;
}

TrainingRecipe Recipe() {
  TrainingRecipe recipe;
  recipe.epochs = 3;
  recipe.batch = 32;
  recipe.shard = 8;
  recipe.lr = 0.01;
  return recipe;
}

std::string Weights(const Graph& graph) {
  std::string bytes;
  for (const char* name : {"w1", "b1", "w2", "w3"}) {
    const Tensor& w = graph.value(graph.FindValue(name)).constant;
    bytes.append(reinterpret_cast<const char*>(w.raw()), w.bytes());
  }
  return bytes;
}

class RoundedWeights : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Schemes, RoundedWeights,
                         testing::Values("int4-weights", "uint4-weights", "int2-weights",
                                         "nf4-weights", "mxfp4-weights", "int8-weights"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

// The gradient is that of the rounded weights, bit for bit, and changes those behind them.
TEST_P(RoundedWeights, GradientsPassTheRounding) {
  const Graph graph = MakeNet(kNet), rounded = Rounded(graph, GetParam());
  const LabelledSamples samples = Noise(32);
  const auto fill = [&](int64_t sample, std::span<float* const> to, std::span<SampleTarget> at) {
    std::copy_n(samples.sample(0, sample), 48, to[0]);
    at[0].label = samples.labels[sample];
  };
  const BatchSettings settings{.loss = FindRow(AllLosses(), "cross-entropy")};
  WeightRounder rounder = RounderOf(graph, GetParam());
  std::vector<std::unique_ptr<Learner>> learners;
  std::vector<float> before;
  for (const Graph* begin : {&graph, &rounded}) {
    auto plan = MakeTrainingPlan(*begin, {.samples = 8});
    ASSERT_TRUE(plan) << plan.error().message();
    auto learner = Learner::Create(*begin, std::move(*plan), 4, 2, SelectIsa().value(),
                                   {.rounder = begin == &graph ? &rounder : nullptr});
    ASSERT_TRUE(learner) << learner.error().message();
    learners.push_back(std::move(*learner));
  }
  before.assign(learners[0]->parameters().begin(), learners[0]->parameters().end());
  BatchResult result = learners[0]->Compute(fill, settings);
  EXPECT_EQ(learners[1]->Compute(fill, settings).loss, result.loss);
  EXPECT_TRUE(std::ranges::equal(learners[0]->gradients(), learners[1]->gradients()));
  const std::vector<float> g(learners[0]->gradients().begin(), learners[0]->gradients().end());
  UpdateSettings update{.optimizer = FindRow(AllOptimizers(), "sgd")};
  update.update.rate = 0.5f;
  update.update.step = 1;
  learners[0]->Update(update, result);
  for (size_t i = 0; i < g.size(); ++i)
    ASSERT_FLOAT_EQ(learners[0]->parameters()[i], before[i] - 0.5f * g[i]);
  // and the next forward pass reads what that becomes
  ASSERT_TRUE(learners[0]->Round());
  Graph after = graph, seen = graph;
  ASSERT_TRUE(learners[0]->WriteTo(after));
  ASSERT_TRUE(learners[0]->WriteTo(seen, /*rounded=*/true));
  EXPECT_EQ(Weights(seen), Weights(Rounded(after, GetParam())));
  EXPECT_NE(Weights(seen), Weights(after));
}

TEST(RoundedTraining, LearnsToTheSameBitsHoweverItIsRun) {
  const Graph net = MakeNet(kNet);
  const LabelledSamples samples = Noise(64);
  const std::string checkpoint =
      (std::filesystem::temp_directory_path() / fmt::format("evoq_rounded_{}.npz", ::getpid()))
          .string();
  const auto train = [&](const TrainingRecipe& recipe, const TrainingFiles& files, int threads,
                         const TrainingHooks& hooks, Graph& graph) {
    graph = net;
    WeightRounder rounder = RounderOf(graph, "int2-weights");
    return TrainGraph(graph, samples, recipe, files, threads, hooks, {.weights = &rounder});
  };
  std::string tested;
  TrainingHooks hooks;
  hooks.test = [&](const Graph& graph) -> Result<Measured> {
    tested = Weights(graph);
    return Measured{};
  };
  Graph one, three, half, resumed;
  TrainingRecipe recipe = Recipe();
  for (const double ema : {0.0, 0.9}) {
    recipe.ema = ema;
    const auto outcome = train(recipe, {}, 1, hooks, one);
    ASSERT_TRUE(outcome) << outcome.error().message();
    EXPECT_LT(outcome->epochs.back().loss, outcome->epochs.front().loss);
    EXPECT_EQ(tested, Weights(Rounded(one, "int2-weights"))) << "what is tested is rounded";
    EXPECT_NE(Weights(one), tested);
    ASSERT_TRUE(train(recipe, {}, 3, {}, three));
    EXPECT_EQ(Weights(three), Weights(one));
    TrainingHooks stop;
    stop.epoch = [](const EpochReport&) -> Status {
      return Fail(ErrorCode::kConditionFailed, "stopped");
    };
    ASSERT_FALSE(train(recipe, {.model = "m", .checkpoint = checkpoint}, 2, stop, half));
    ASSERT_TRUE(train(recipe, {.model = "m", .resume = checkpoint}, 2, {}, resumed));
    EXPECT_EQ(Weights(resumed), Weights(one));
  }
  std::filesystem::remove(checkpoint);
}

TEST(RoundedTraining, SaysWhatIsWrong) {
  Graph graph = MakeNet(kNet);
  const LabelledSamples samples = Noise(64);
  TrainingRecipe recipe = Recipe();
  recipe.freeze = {"w*"};
  WeightRounder rounder = RounderOf(graph, "int4-weights");
  const auto frozen = TrainGraph(graph, samples, recipe, {}, 1, {}, {.weights = &rounder});
  ASSERT_FALSE(frozen);
  EXPECT_EQ(frozen.error().message(), "the scheme rounds no weight that is trained");
  recipe = Recipe();
  recipe.optimizer = "sgd";
  recipe.lr = 1000;
  const auto diverged = TrainGraph(graph, samples, recipe, {}, 1, {}, {.weights = &rounder});
  ASSERT_FALSE(diverged);
  EXPECT_NE(diverged.error().message().find("training has diverged"), std::string::npos)
      << diverged.error().message();
  auto plan = MakeTrainingPlan(graph, {.samples = 8});
  ASSERT_TRUE(plan) << plan.error().message();
  WeightRounder fresh = RounderOf(graph, "int4-weights");
  auto learner = Learner::Create(MakeNet(kNet), std::move(*plan), 4, 1, SelectIsa().value(),
                                 {.rounder = &fresh});
  ASSERT_TRUE(learner) << learner.error().message();
  for (const TrainedConstant& c : (*learner)->plan().parameters) {
    if (c.name == "w2")
      (*learner)->parameters()[static_cast<size_t>(c.offset + c.elements - 1)] = -INFINITY;
  }
  const Status infinite = (*learner)->Round();
  ASSERT_FALSE(infinite);
  EXPECT_EQ(infinite.error().message(), "w2 is not finite any more");
}

}  // namespace
}  // namespace evoq
