// Training with integers: the simulation is what is compiled, its gradients are the paper's.
#include "train/quantized.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "nn/layers.h"
#include "quant/test_net.h"
#include "quant/unfuse.h"
#include "train/simulation.h"
#include "train/trainer.h"

namespace evoq {
namespace {

LabelledSamples Noise(const Graph& graph, int64_t count, int64_t classes) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 1);
  LabelledSamples out;
  std::vector<int64_t> sizes = graph.value(graph.inputs()[0]).type.shape.sizes();
  sizes.erase(sizes.begin());
  out.sizes = {sizes};
  int64_t elements = 1;
  for (int64_t size : sizes) elements *= size;
  out.inputs.resize(1);
  for (int64_t i = 0; i < count * elements; ++i) out.inputs[0].push_back(normal(random));
  for (int64_t i = 0; i < count; ++i) out.labels.push_back(i % classes);
  return out;
}

// Convolutions with and without bias, one by depth, one with a residual, each activation that is
// not a table, sums, means and moves.
constexpr char kResidualNet[] = R"(graph net
input %x: float32[N, 3, 12, 12]
const %w1: float32[8, 3, 3, 3]
const %b1: float32[8]
const %w2: float32[8, 1, 3, 3]
const %b2: float32[8]
const %w3: float32[8, 8, 3, 3]
const %b3: float32[8]
const %w4: float32[16, 8, 1, 1]
const %w5: float32[16, 10]
const %b5: float32[10]
c1: %c1: float32[N, 8, 12, 12] = Conv{activation="Relu", kernel_shape=[3, 3], pads=[1, 1, 1, 1]}(%x, %w1, %b1)
c2: %c2: float32[N, 8, 12, 12] = Conv{activation="Clip", activation_alpha=0.0, activation_beta=2.0, group=8, kernel_shape=[3, 3], pads=[1, 1, 1, 1]}(%c1, %w2, %b2)
c3: %c3: float32[N, 8, 12, 12] = Conv{activation="LeakyRelu", activation_alpha=0.25, kernel_shape=[3, 3], pads=[1, 1, 1, 1]}(%c2, %w3, %b3, %c1)
s: %s: float32[N, 8, 12, 12] = Add(%c3, %c2)
m: %m: float32[N, 8, 6, 6] = MaxPool{kernel_shape=[2, 2], strides=[2, 2]}(%s)
c4: %c4: float32[N, 16, 6, 6] = Conv{kernel_shape=[1, 1]}(%m, %w4)
g: %g: float32[N, 16, 1, 1] = GlobalAveragePool(%c4)
f: %f: float32[N, 16] = Flatten{axis=1}(%g)
l: %y: float32[N, 10] = MatMul(%f, %w5, %b5)
output %y
)";

// Functions of one value, and gates: by channel, of equal shapes, and of a row.
constexpr char kGatedNet[] = R"(graph net
input %x: float32[N, 3, 8, 8]
const %w1: float32[8, 3, 3, 3]
const %b1: float32[8]
const %w2: float32[8, 8, 1, 1]
const %b2: float32[8]
const %w3: float32[8, 8, 3, 3]
const %w4: float32[8, 10]
const %b4: float32[10]
c1: %c1: float32[N, 8, 8, 8] = Conv{kernel_shape=[3, 3], pads=[1, 1, 1, 1]}(%x, %w1, %b1)
h: %h: float32[N, 8, 8, 8] = HardSwish(%c1)
g: %g: float32[N, 8, 1, 1] = GlobalAveragePool(%h)
c2: %c2: float32[N, 8, 1, 1] = Conv{kernel_shape=[1, 1]}(%g, %w2, %b2)
s: %s: float32[N, 8, 1, 1] = HardSigmoid{alpha=0.3}(%c2)
m: %m: float32[N, 8, 8, 8] = Mul(%s, %h)
c3: %c3: float32[N, 8, 8, 8] = Conv{kernel_shape=[3, 3], pads=[1, 1, 1, 1]}(%m, %w3)
e: %e: float32[N, 8, 8, 8] = Elu(%c3)
t: %t: float32[N, 8, 8, 8] = Tanh(%c3)
n: %n: float32[N, 8, 8, 8] = Mul(%e, %t)
i: %i: float32[N, 8, 8, 8] = evoq::Silu(%n)
k: %k: float32[N, 8, 1, 1] = GlobalAveragePool(%i)
f: %f: float32[N, 8] = Flatten{axis=1}(%k)
l: %y: float32[N, 10] = MatMul(%f, %w4, %b4)
output %y
)";

// Sums that pass 2^24 unless weights are cut into digits.
constexpr char kDeepNet[] = R"(graph net
input %x: float32[N, 2048]
const %w1: float32[2048, 12]
const %w2: float32[12, 4]
a: %a: float32[N, 12] = MatMul{activation="Relu"}(%x, %w1)
b: %y: float32[N, 4] = MatMul(%a, %w2)
output %y
)";

// Moves of integers: what is read at steps, padded with zeros, split and joined.
constexpr char kMovesNet[] = R"(graph net
input %x: float32[N, 4, 8, 8]
const %w1: float32[8, 4, 3, 3]
const %b1: float32[8]
const %begin: int64[1] = [0]
const %end: int64[1] = [8]
const %axis: int64[1] = [1]
const %step: int64[1] = [2]
const %pads: int64[8] = [0, 0, 1, 1, 0, 0, 0, 1]
const %w2: float32[4, 10]
const %b2: float32[10]
c: %c: float32[N, 8, 8, 8] = Conv{activation="Relu", kernel_shape=[3, 3], pads=[1, 1, 1, 1]}(%x, %w1, %b1)
s: %s: float32[N, 4, 8, 8] = Slice(%c, %begin, %end, %axis, %step)
p: %p: float32[N, 4, 9, 10] = Pad(%s, %pads)
t: %t: float32[N, 2, 9, 10], %u: float32[N, 2, 9, 10] = Split{axis=1, num_outputs=2}(%p)
j: %j: float32[N, 4, 9, 10] = Concat{axis=1}(%u, %t)
g: %g: float32[N, 4, 1, 1] = GlobalAveragePool(%j)
f: %f: float32[N, 4] = Flatten{axis=1}(%g)
l: %y: float32[N, 10] = MatMul(%f, %w2, %b2)
output %y
)";

struct Case {
  const char* net;
  int64_t classes;
  std::vector<LayerBits> bits;
  std::vector<std::string> exclude;
  bool ort = false;  // the form that ONNX Runtime computes
  std::vector<LayerBits> activation_bits = {};
};

Result<std::unique_ptr<QuantizedModel>> ModelOf(const Case& c, const LabelledSamples& samples,
                                                Graph net) {
  QuantizeOptions options{.exclude = c.exclude, .activation_bits = c.activation_bits};
  if (c.ort) options.target = FindQdqTarget("ort");
  const SamplesFn each = [&](const std::function<Status(std::span<const Tensor>)>& use) -> Status {
    for (int64_t i = 0; i < 16; ++i) {
      std::vector<int64_t> sizes = samples.sizes[0];
      sizes.insert(sizes.begin(), 1);
      Tensor x = Tensor::Allocate(TensorType(DType::kFloat32, Shape(sizes)));
      std::copy_n(samples.sample(0, i), x.elements(), x.mutable_data<float>());
      EVOQ_TRY(use(std::span(&x, 1)));
    }
    return {};
  };
  EVOQ_ASSIGN(Ranges ranges, Calibrate(net, Reference(), each, {}));
  return QuantizedModel::Create(std::move(net), std::move(ranges), std::move(options), c.bits);
}

Result<std::unique_ptr<QuantizedModel>> ModelOf(const Case& c, const LabelledSamples& samples) {
  return ModelOf(c, samples, MakeNet(c.net));
}

class Simulated : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Nets, Simulated,
                         testing::Values(Case{kResidualNet, 10, {}, {}},
                                         Case{kResidualNet, 10, {{"*", 4}}, {}},
                                         Case{kResidualNet, 10, {{"*", 2}, {"c1", 8}}, {}},
                                         Case{kResidualNet, 10, {{"*", 4}}, {}, true},
                                         Case{kMovesNet, 10, {}, {}}, Case{kDeepNet, 4, {}, {}},
                                         Case{kGatedNet, 10, {}, {}},
                                         Case{kGatedNet, 10, {{"*", 4}}, {}, true},
                                         Case{kGatedNet, 10, {}, {}, false, {{"*", 4}}},
                                         Case{kDeepNet, 4, {{"b", 2}}, {}},
                                         Case{kResidualNet, 10, {{"*", 1}, {"c1", 8}}, {}},
                                         Case{kResidualNet, 10, {{"*", 1}}, {}, true, {{"*", 4}}},
                                         Case{kResidualNet, 10, {{"*", 4}}, {}, false, {{"*", 4}}},
                                         Case{kResidualNet, 10, {}, {}, true, {{"c*", 4}}},
                                         Case{kMovesNet, 10, {}, {}, false, {{"*", 4}}},
                                         Case{kDeepNet, 4, {}, {}, false, {{"a", 2}}}));

// Before training and after some steps of it, with gradients that move every constant and scale.
TEST_P(Simulated, ScoresAreTheCompiledModelsBitForBit) {
  const Graph net = MakeNet(GetParam().net);
  const LabelledSamples samples = Noise(net, 64, GetParam().classes);
  auto model = ModelOf(GetParam(), samples);
  ASSERT_TRUE(model) << model.error().message();
  TrainingRecipe recipe;
  recipe.epochs = 3;
  recipe.batch = 32;
  recipe.lr = 0.01;
  Graph integers;
  for (const bool trained : {false, true}) {
    if (trained) {
      auto outcome = TrainGraph(integers, samples, recipe, {}, 2, {}, {.quantized = model->get()});
      ASSERT_TRUE(outcome) << outcome.error().message();
      EXPECT_LT(outcome->epochs.back().loss, outcome->epochs.front().loss);
    }
    auto agreement = CompareWithSimulation(**model, samples, 2);
    ASSERT_TRUE(agreement) << agreement.error().message();
    EXPECT_EQ(agreement->samples, 64);
    EXPECT_EQ(agreement->scores, 64) << "trained: " << trained;
    EXPECT_EQ(agreement->classes, 64);
  }
}

// What was trained keeps its results to the levels that it was given, by a Clip that follows the
// scales.
TEST(Quantized, GatesAndFunctionsAreIntegers) {
  const Case c{kGatedNet, 10, {}, {}};
  const auto model = ModelOf(c, Noise(MakeNet(c.net), 64, 10));
  ASSERT_TRUE(model) << model.error().message();
  for (const auto& [node, reason] : (*model)->report().float_reasons)
    ADD_FAILURE() << node << ": " << reason.ToString();
}

TEST(Quantized, ResultsKeepToTheirLevels) {
  const Case c{kResidualNet, 10, {}, {}, false, {{"*", 4}}};
  const LabelledSamples samples = Noise(MakeNet(c.net), 64, 10);
  auto model = ModelOf(c, samples);
  ASSERT_TRUE(model) << model.error().message();
  const std::map<std::string, int> few = {{"c1", 4}, {"c2", 4}, {"c4", 4}};
  EXPECT_EQ((*model)->report().activation_bits, few);  // c3: LeakyRelu
  TrainingRecipe recipe;
  recipe.epochs = 3;
  recipe.batch = 32;
  recipe.lr = 0.01;
  Graph before = *(*model)->Integers(), after;
  ASSERT_TRUE(TrainGraph(after, samples, recipe, {}, 2, {}, {.quantized = model->get()}));
  for (const char* name : {"c1", "c2", "c4"}) {
    float scales[2];
    for (const Graph* graph : {&before, &after}) {
      const Node& node = graph->node(graph->FindNode(name));
      const QuantParams& y = *graph->value(node.outputs[0]).type.quant;
      const float scale = scales[graph == &after] = y.scales[0];
      const auto zero = static_cast<float>(y.zero_points[0]);
      EXPECT_EQ(node.attrs.String("activation"), "Clip");
      EXPECT_EQ(node.attrs.Float("activation_alpha"), -zero * scale);
      EXPECT_LE(node.attrs.Float("activation_beta"), (15 - zero) * scale);
      if (name != std::string("c2"))  // whose own Clip ends at 2
        EXPECT_EQ(node.attrs.Float("activation_beta"), (15 - zero) * scale);
    }
    EXPECT_NE(scales[0], scales[1]) << name;
    // It is the bounds, which follow the scale, that clip while it learns.
    const Graph& simulation = (*model)->simulation();
    const Attrs& attrs = simulation.node(simulation.FindNode(name)).attrs;
    EXPECT_EQ(attrs.Float("y_high") - attrs.Float("y_low"), 15);
    EXPECT_EQ(attrs.String("activation"), name == std::string("c1")   ? "Relu"
                                          : name == std::string("c2") ? "Clip"
                                                                      : "");
  }
}

TEST(Quantized, LayersThatStayFloatAgreeToRounding) {
  const Case c{kResidualNet, 10, {}, {"c1", "l"}};
  const LabelledSamples samples = Noise(MakeNet(c.net), 64, 10);
  auto model = ModelOf(c, samples);
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ((*model)->report().float_reasons.at("c1").code, "excluded");
  auto agreement = CompareWithSimulation(**model, samples, 1);
  ASSERT_TRUE(agreement) << agreement.error().message();
  EXPECT_GE(agreement->classes, 60);
}

TEST(Quantized, ThreadsChangeNothing) {
  const Case c{kResidualNet, 10, {{"*", 4}}, {}};
  const LabelledSamples samples = Noise(MakeNet(c.net), 64, 10);
  TrainingRecipe recipe;
  recipe.epochs = 2;
  recipe.batch = 32;
  recipe.shard = 8;
  std::string first;
  for (const int threads : {1, 3}) {
    auto model = ModelOf(c, samples);
    ASSERT_TRUE(model) << model.error().message();
    Graph integers;
    ASSERT_TRUE(
        TrainGraph(integers, samples, recipe, {}, threads, {}, {.quantized = model->get()}));
    const std::string text = Print(integers);
    if (threads == 1) first = text;
    EXPECT_EQ(text, first);
  }
}

// A channel without weights has a scale next to 0, beside which its bias fits int32 just so: it may
// grow all the same.
TEST(Quantized, BiasesOfEmptyChannelsMayGrow) {
  for (const int bits : {8, 4}) {
    Graph net = MakeNet(kResidualNet);
    for (const char* name : {"w1", "w3", "w5"}) {
      const ValueId w = net.FindValue(name);
      Tensor pruned = net.value(w).constant.Clone();
      const bool by_column = name == std::string_view("w5");
      for (int64_t i = 0; i < pruned.elements(); ++i) {
        const int64_t channel = by_column ? i % 10 : i / (pruned.elements() / 8);
        if (channel == 1) pruned.mutable_data<float>()[i] = 0;
      }
      net.SetConstant(w, std::move(pruned));
    }
    const Case c{kResidualNet, 10, {{"*", bits}}, {}};
    const LabelledSamples samples = Noise(net, 64, 10);
    auto model = ModelOf(c, samples, net);
    ASSERT_TRUE(model) << model.error().message();
    TrainingRecipe recipe;
    recipe.epochs = 3;
    recipe.batch = 32;
    recipe.lr = 0.01;
    Graph integers;
    const auto outcome =
        TrainGraph(integers, samples, recipe, {}, 1, {}, {.quantized = model->get()});
    ASSERT_TRUE(outcome) << outcome.error().message();
    const auto agreement = CompareWithSimulation(**model, samples, 1);
    ASSERT_TRUE(agreement) << agreement.error().message();
    EXPECT_EQ(agreement->scores, 64) << bits;
  }
}

TEST(Quantized, RefusesWhatItDoesNotTrain) {
  Layers layers("norms", 1);
  const ValueId x = layers.BatchNorm(layers.Image(1, 4), 1);
  auto refused =
      QuantizedModel::Create(layers.Finish(layers.Linear(layers.Flatten(x), 16, 2)), {}, {}, {});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("norm_1 (BatchNormalization) folds into no convolution"),
            std::string::npos)
      << refused.error().message();
  auto nothing = QuantizedModel::Create(MakeNet(kDeepNet), {}, {}, {});
  ASSERT_FALSE(nothing);
  EXPECT_NE(nothing.error().message().find("nothing becomes integer arithmetic"), std::string::npos)
      << nothing.error().message();
}

// Equation 3 of the paper, and the factor of its section 2.2, by hand.
TEST(Simulation, StepsLearnAsThePaperSays) {
  const StepBounds bounds{-8, 7, 0};
  EXPECT_FLOAT_EQ(StepTerm(2.25f, bounds), -0.25f);
  EXPECT_FLOAT_EQ(StepTerm(2.5f, bounds), -0.5f);  // half to even
  EXPECT_FLOAT_EQ(StepTerm(-9, bounds), -8);
  EXPECT_FLOAT_EQ(StepTerm(11, bounds), 7);
  EXPECT_FLOAT_EQ(LogStepGradient(3, 0.5f, 28, 7), 3 / std::sqrt(28.0f * 7) / 0.5f);
}

TEST(Simulation, RoundsHalfToEven) {
  for (const float v : {-2.5f, -1.5f, -0.5f, 0.5f, 1.5f, 2.5f, 254.5f, -0.75f, 3.25f})
    EXPECT_EQ(RoundSmall(v), std::nearbyint(v)) << v;
}

TEST(Simulation, AStepIsAScaleOfTwelveBits) {
  for (const float t : {-7.0f, -2.3f, 0.0f, 1.7f}) {
    const float step = StepOf(t);
    int exponent;
    const double bits = std::ldexp(std::frexp(step, &exponent), 12);
    EXPECT_EQ(bits, std::nearbyint(bits));
    EXPECT_NEAR(step, std::exp(t), std::exp(t) / 2048);
  }
}

}  // namespace
}  // namespace evoq
