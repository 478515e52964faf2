// Learning from values that another model computes, and computing one's own again.
#include "train/distill.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/rows.h"
#include "nn/layers.h"
#include "quant/test_net.h"
#include "train/learner.h"
#include "train/network.h"
#include "train/plan.h"
#include "train/quantized.h"

namespace evoq {
namespace {

TEST(Features, AreTheirDistanceInLengthsOfTheTeachers) {
  const std::vector<float> values = {3, -1, 0, 5}, teacher = {1, -2, 0.5f, 1};
  std::vector<float> gradient = {1, 1, 1, 1};
  const double distance = AddFeatureDistillation(values, 0.5f, teacher, 0.25f, gradient.data());
  // f - t = 0.5, 1.5, -0.5, 1.5; |t|^2 = 6.25
  EXPECT_DOUBLE_EQ(distance, (0.25 + 2.25 + 0.25 + 2.25) / 6.25);
  const double differences[] = {0.5, 1.5, -0.5, 1.5};
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(gradient[i], 1 + 0.25 * 2 * differences[i] / 6.25, 1e-6);
  // A teacher of zeros.
  std::vector<float> none(2, 0.0f), to(2, 0.0f);
  EXPECT_DOUBLE_EQ(AddFeatureDistillation(std::vector<float>{3, 4}, 1, none, 1, to.data()), 25);
  EXPECT_EQ(to, (std::vector<float>{6, 8}));
}

constexpr char kOwn[] = R"(graph net
input %x: float32[N, 4]
const %w1: float32[4, 6]
const %w2: float32[6, 6]
const %w3: float32[6, 3]
a: %a: float32[N, 6] = MatMul(%x, %w1)
ra: %ra: float32[N, 6] = Relu(%a)
b: %b: float32[N, 6] = MatMul(%ra, %w2)
rb: %rb: float32[N, 6] = Relu(%b)
s: %size: int64[2] = Shape(%rb)
y: %y: float32[N, 3] = MatMul(%rb, %w3)
output %y
)";

constexpr char kTeacher[] = R"(graph net
input %x: float32[N, 4]
const %w1: float32[4, 8]
const %w2: float32[8, 6]
const %w3: float32[6, 3]
a: %a: float32[N, 8] = MatMul(%x, %w1)
ra: %ra: float32[N, 8] = Relu(%a)
b: %hidden: float32[N, 6] = MatMul(%ra, %w2)
rb: %rb: float32[N, 6] = Relu(%hidden)
s: %size: int64[2] = Shape(%rb)
y: %y: float32[N, 3] = MatMul(%rb, %w3)
output %y
)";

std::string Paired(const std::vector<std::string>& wanted) {
  const auto pairs = PairFeatures(MakeNet(kOwn), MakeNet(kTeacher), wanted);
  if (!pairs) return pairs.error().message();
  std::string text;
  for (const FeaturePair& pair : *pairs) text += pair.own + "=" + pair.teacher + " ";
  return text;
}

TEST(Features, ArePairedByNameAndSize) {
  EXPECT_EQ(Paired({"*"}), "rb=rb y=y ");  // not the integers, not what has other sizes
  EXPECT_EQ(Paired({"r*"}), "rb=rb ");
  EXPECT_EQ(Paired({"y", "b=hidden", "ra=hidden", "rb"}), "ra=hidden b=hidden rb=rb y=y ");
  EXPECT_EQ(Paired({"rb", "rb=hidden"}), "rb=hidden ");
  EXPECT_EQ(Paired({"c*"}),
            "--distill-features c*: the model and its teacher compute no value of such a name with "
            "the same sizes; OWN=TEACHER pairs values of different names");
  EXPECT_EQ(Paired({"c=rb"}), "--distill-features c=rb: the model has no value c");
  EXPECT_EQ(Paired({"rb=b"}), "--distill-features rb=b: the teacher has no value b");
  EXPECT_EQ(Paired({"ra=ra"}),
            "--distill-features ra=ra: [N, 6] in the model, [N, 8] in the teacher, expected the "
            "same sizes behind the batch");
  EXPECT_EQ(Paired({"w1=rb"}),
            "--distill-features w1=rb: w1 of the model is float32[4, 6], expected float32 numbers "
            "that are computed for each sample");
  EXPECT_EQ(Paired({"rb=size"}),
            "--distill-features rb=size: size of the teacher is int64[2], expected float32 numbers "
            "that are computed for each sample");
}

// Convolutions with statistics of the batch and a sum of two ways.
Graph SmallNet() {
  Layers b("small", 3);
  const ValueId x = b.MaxPool(b.Relu(b.BatchNorm(b.Conv(b.Image(1, 8), 1, 6, {.pad = 1}), 6)), 2);
  const ValueId y = b.BatchNorm(b.Conv(x, 6, 6, {.pad = 1}), 6);
  return b.Finish(b.Linear(b.Flatten(b.Relu(b.Add(x, y))), 6 * 4 * 4, 3));
}

// A batch of noise for a plan, and a teacher's values.
struct Batch {
  Batch(const TrainingPlan& plan, int64_t samples, const std::vector<int64_t>& feature_floats)
      : floats(*plan.inputs[0].shape.elements() / plan.samples), classes(plan.classes) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal(0, 1);
    const auto noise = [&](int64_t count) {
      std::vector<float> made(static_cast<size_t>(count));
      for (float& v : made) v = normal(random);
      return made;
    };
    inputs = noise(samples * floats);
    scores = noise(samples * classes);
    for (const int64_t count : feature_floats) features.push_back(noise(samples * count));
    for (const auto& feature : features) places.push_back(feature.data());
  }

  Learner::Fill fill() const {
    return [this](int64_t sample, std::span<float* const> to, std::span<SampleTarget> targets) {
      std::copy_n(inputs.data() + sample * floats, floats, to[0]);
      targets[0].label = sample % classes;
    };
  }
  BatchSettings settings() const {
    return {.loss = FindRow(AllLosses(), "cross-entropy"),
            .teacher = scores.data(),
            .temperature = 2,
            .teacher_share = 0.5f,
            .features = places,
            .feature_weight = 3};
  }

  int64_t floats, classes;
  std::vector<float> inputs, scores;
  std::vector<std::vector<float>> features;
  std::vector<const float*> places;
};

std::unique_ptr<Learner> LearnerOf(const Graph& graph, const TrainingPlanOptions& options,
                                   int threads = 1) {
  auto plan = MakeTrainingPlan(graph, options);
  EXPECT_TRUE(plan) << plan.error().message();
  auto learner = Learner::Create(graph, std::move(*plan), 4, threads, SelectIsa().value());
  EXPECT_TRUE(learner) << learner.error().message();
  return std::move(*learner);
}

// The loss with features, along its own gradient: of all parameters together.
TEST(Features, GradientsAreTheLossesDifferences) {
  const Graph graph = SmallNet();
  const TrainingPlanOptions options{.samples = 2,
                                    .features = {"relu_4", "add_1", "nobody", "conv_2"}};
  std::vector<std::string> names;
  for (int i = 0; i < graph.value_count(); ++i) names.push_back(graph.value(ValueId{i}).name);
  const auto learner = LearnerOf(graph, options);
  const TrainingPlan& plan = learner->plan();
  ASSERT_GE(plan.features.size(), 2u) << fmt::format("{}", fmt::join(names, " "));
  std::vector<int64_t> floats(options.features.size(), 1);
  for (const TrainingFeature& feature : plan.features) floats[feature.index] = feature.floats;
  const Batch batch(plan, 8, floats);
  const BatchResult result = learner->Compute(batch.fill(), batch.settings());
  BatchSettings without = batch.settings();
  without.features = {};
  EXPECT_GT(result.loss, learner->Compute(batch.fill(), without).loss + 1);
  const BatchResult again = learner->Compute(batch.fill(), batch.settings());
  EXPECT_EQ(again.loss, result.loss);
  const std::vector<float> w(learner->parameters().begin(), learner->parameters().end());
  const std::vector<float> g(learner->gradients().begin(), learner->gradients().end());
  const auto loss_at = [&](double step) {
    for (size_t i = 0; i < w.size(); ++i)
      learner->parameters()[i] = static_cast<float>(w[i] + step * g[i] / result.norm);
    return learner->Compute(batch.fill(), batch.settings()).loss;
  };
  constexpr double kStep = 1e-3;
  EXPECT_NEAR((loss_at(kStep) - loss_at(-kStep)) / (2 * kStep) / result.norm, 1, 0.01);
}

TEST(Recomputation, TakesLessMemoryToTheSameBits) {
  const Graph graph = FindRow(AllNetworks(), "resnet8")->build(1, 10);
  const TrainingPlanOptions plain{.samples = 2, .features = {"relu_1"}};
  TrainingPlanOptions again = plain;
  again.recompute = true;
  const auto one = LearnerOf(graph, plain, 2), other = LearnerOf(graph, again, 2);
  EXPECT_TRUE(one->plan().segments.empty());
  EXPECT_GT(other->plan().segments.size(), 2u);
  EXPECT_LT(other->plan().value_floats, one->plan().value_floats / 2);
  EXPECT_LT(other->memory_bytes(), one->memory_bytes());
  std::vector<int64_t> floats = {1};
  for (const TrainingFeature& feature : one->plan().features) floats[0] = feature.floats;
  const Batch batch(one->plan(), 8, floats);
  const BatchResult a = one->Compute(batch.fill(), batch.settings());
  const BatchResult b = other->Compute(batch.fill(), batch.settings());
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.norm, b.norm);
  EXPECT_TRUE(std::ranges::equal(one->gradients(), other->gradients()));
  EXPECT_GT(a.norm, 0);
  EXPECT_EQ(one->Scores(batch.fill()), other->Scores(batch.fill()));
}

// A feature that lies in memory as integers, and the same real numbers behind it.
TEST(Features, OfIntegersAreOfTheRealNumbers) {
  constexpr char kNet[] = R"(graph net
input %x: float32[N, 12]
const %w1: float32[12, 16]
const %w2: float32[16, 8]
const %w3: float32[8, 4]
const %w4: float32[8, 4]
a: %a: float32[N, 16] = MatMul{activation="Relu"}(%x, %w1)
b: %b: float32[N, 8] = MatMul(%a, %w2)
c: %c: float32[N, 4] = MatMul(%b, %w3)
d: %d: float32[N, 4] = MatMul(%b, %w4)
s: %s: float32[N, 4] = Add(%c, %d)
output %s
)";
  Graph net = MakeNet(kNet);
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 1);
  Tensor x = Tensor::Allocate(TensorType(DType::kFloat32, Shape{64, 12}));
  for (float& v : std::span(x.mutable_data<float>(), 64 * 12)) v = normal(random);
  const SamplesFn each = [&](const std::function<Status(std::span<const Tensor>)>& use) {
    return use(std::span(&x, 1));
  };
  auto ranges = Calibrate(net, Reference(), each, {});
  ASSERT_TRUE(ranges) << ranges.error().message();
  auto model =
      QuantizedModel::Create(std::move(net), std::move(*ranges), {.exclude = {"c", "s"}}, {});
  ASSERT_TRUE(model) << model.error().message();
  std::vector<std::vector<float>> gradients;
  std::vector<double> losses;
  auto first = (*model)->Plan({.samples = 2});
  ASSERT_TRUE(first) << first.error().message();
  std::string real;  // what dequantizes b
  for (const TrainingStep& step : first->steps) {
    if (step.node.op == "Dequantize")
      real = (*model)->simulation().value(step.node.outputs[0]).name;
  }
  ASSERT_NE(real, "");
  for (const std::string& feature : {std::string("b"), real}) {
    auto plan = (*model)->Plan({.samples = 2, .features = {feature}});
    ASSERT_TRUE(plan) << plan.error().message();
    ASSERT_EQ(plan->features.size(), 1u) << feature;
    EXPECT_EQ(plan->features[0].scale.kind == TrainingPlace::Kind::kParameter, feature == "b");
    auto learner =
        Learner::Create((*model)->simulation(), std::move(*plan), 4, 1, SelectIsa().value());
    ASSERT_TRUE(learner) << learner.error().message();
    const Batch batch((*learner)->plan(), 8, {8});
    losses.push_back((*learner)->Compute(batch.fill(), batch.settings()).loss);
    gradients.emplace_back((*learner)->gradients().begin(), (*learner)->gradients().end());
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-5 * losses[1]);
  float largest = 0;
  for (const float g : gradients[1]) largest = std::max(largest, std::fabs(g));
  ASSERT_EQ(gradients[0].size(), gradients[1].size());
  for (size_t i = 0; i < gradients[0].size(); ++i)
    ASSERT_NEAR(gradients[0][i], gradients[1][i], 1e-5f * largest) << i;
}

}  // namespace
}  // namespace evoq
