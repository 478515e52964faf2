// Scale sets that follow the input: what an engine computes under each, and when it changes.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "engine/shared.h"
#include "models/models.h"
#include "program/etm.h"
#include "reference/reference.h"

namespace evoq {
namespace {

// Two convolutions and a dense layer on integers, whose scales are `scale` times those of the
// widest set; biases follow the scales, weights stay.
Graph Net(float scale) {
  const auto text = fmt::format(R"(input %x: float32["N", 4, 12, 12]
q: %q: uint8["N", 4, 12, 12](scale {}, zero 128) = QuantizeLinear(%x)
const %w: int8[32, 4, 3, 3](32 scales on axis 0)
const %b: int32[32]
c: %y: uint8["N", 32, 12, 12](scale {}, zero 40) = Conv{{pads=[1, 1, 1, 1], activation="LeakyRelu", activation_alpha=0.1}}(%q, %w, %b)
p: %p: uint8["N", 32, 6, 6](scale {}, zero 40) = MaxPool{{kernel_shape=[2, 2], strides=[2, 2]}}(%y)
const %v: int8[32, 32, 3, 3](32 scales on axis 0)
const %e: int32[32]
d: %z: uint8["N", 32, 6, 6](scale {}, zero 100) = Conv{{pads=[1, 1, 1, 1]}}(%p, %v, %e)
o: %o: float32["N", 32, 6, 6] = DequantizeLinear(%z)
output %o)",
                                scale * 0.05f, scale * 0.08f, scale * 0.08f, scale * 0.5f);
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph) << graph.error().message();
  std::minstd_rand random(3);
  for (const char* name : {"w", "v"}) {
    const ValueId id = graph->FindValue(name);
    TensorType type = graph->value(id).type;
    QuantParams params{std::vector<float>(32), std::vector<int32_t>(32), 0, 0};
    for (float& s : params.scales) s = 0.002f + 0.00001f * static_cast<float>(random() % 100);
    Tensor t = Tensor::Allocate(TensorType(type.dtype, type.shape, params));
    for (int64_t i = 0; i < t.elements(); ++i)
      t.mutable_data<int8_t>()[i] = static_cast<int8_t>(static_cast<int>(random() % 255) - 127);
    graph->SetConstant(id, t);
  }
  for (const char* name : {"b", "e"}) {
    Tensor t = Tensor::Allocate(TensorType(DType::kInt32, Shape{32}));
    for (int i = 0; i < 32; ++i)
      t.mutable_data<int32_t>()[i] = static_cast<int32_t>(std::lround((i - 16) * 20 / scale));
    graph->SetConstant(graph->FindValue(name), t);
  }
  EXPECT_TRUE(InferTypes(*graph));
  return std::move(*graph);
}

// The widest set, and one of a quarter of its ranges.
Model TwoSets() {
  Model model = LowerAndPack(Net(1)).value();
  const Model other = LowerAndPack(Net(0.25f)).value();
  auto fine = ScaleSetBetween(model.graph, other.graph, "fine", 3);
  EXPECT_TRUE(fine) << fine.error().message();
  model.sets = {{"wide", 5, {}}, std::move(*fine)};
  return model;
}

std::unique_ptr<Engine> Adaptive(const AdaptiveOptions& options, int threads = 1) {
  auto engine = Engine::Of({TwoSets(), ""}, {.threads = threads, .adaptive = options}, AllParts());
  EXPECT_TRUE(engine) << engine.error().message();
  return std::move(*engine);
}

Tensor Frame(float amplitude, int seed, int64_t batch = 1) {
  Tensor x = Tensor::Allocate(TensorType(DType::kFloat32, Shape{batch, 4, 12, 12}));
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, amplitude);
  for (int64_t i = 0; i < x.elements(); ++i) x.mutable_data<float>()[i] = normal(random);
  return x;
}

std::vector<float> Outputs(Engine& engine, const Tensor& x) {
  const auto outputs = engine.Run(std::span(&x, 1));
  EXPECT_TRUE(outputs) << outputs.error().message();
  const auto values = (*outputs)[0].values<float>();
  return {values.begin(), values.end()};
}

// Under each set a run gives the bits of the model that has this set alone.
TEST(AdaptiveEngine, ComputesUnderEachSetWhatItsModelComputes) {
  const auto wide = EngineFromGraph(Net(1), {.threads = 1}).value();
  const auto fine = EngineFromGraph(Net(0.25f), {.threads = 1}).value();
  const auto engine = Adaptive({.pinned = "wide"});
  for (int i = 0; i < 3; ++i) {
    const Tensor x = Frame(1, i);
    ASSERT_TRUE(engine->PinScaleSet("wide"));
    EXPECT_EQ(Outputs(*engine, x), Outputs(*wide, x));
    ASSERT_TRUE(engine->PinScaleSet("fine"));
    EXPECT_EQ(Outputs(*engine, x), Outputs(*fine, x));
  }
  EXPECT_NE(Outputs(*wide, Frame(1, 0)), Outputs(*fine, Frame(1, 0)));
  EXPECT_EQ(engine->PinScaleSet("night").error().message(),
            "it has no scale set night: wide, fine");
  // Engines that are not adaptive run the first set.
  const auto plain = Engine::Of({TwoSets(), ""}, {.threads = 1}, AllParts()).value();
  EXPECT_EQ(Outputs(*plain, Frame(1, 0)), Outputs(*wide, Frame(1, 0)));
  EXPECT_EQ(plain->adaptive(), nullptr);
}

// A model of one set runs as it does, and what it clips is counted.
TEST(AdaptiveEngine, WatchesAModelOfOneSet) {
  const auto of = [](std::optional<AdaptiveOptions> options) {
    return Engine::Of({LowerAndPack(Net(0.25f)).value(), ""}, {.threads = 1, .adaptive = options},
                      AllParts());
  };
  EXPECT_FALSE(of(AdaptiveOptions()));
  EXPECT_EQ(of(AdaptiveOptions{.pinned = "wide", .watch = true}).error().message(),
            "it has no scale set wide: it has one set");
  const auto plain = of(std::nullopt).value();
  const auto engine = of(AdaptiveOptions{.every = 1, .watch = true}).value();
  const Tensor quiet = Frame(0.1f, 1), loud = Frame(5, 2);
  EXPECT_EQ(Outputs(*engine, quiet), Outputs(*plain, quiet));
  const AdaptiveState& state = *engine->adaptive();
  ASSERT_EQ(state.sets, (std::vector<std::string>{"calibrated"}));
  ASSERT_EQ(state.tensors.size(), 3u);  // what moves numbers says nothing new
  EXPECT_EQ(state.tensors[0].name, "q");
  EXPECT_EQ(state.tensors[0].clipped, 0);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Outputs(*engine, loud), Outputs(*plain, loud));
  EXPECT_GT(state.tensors[0].rate(), 0.2);
  EXPECT_EQ(state.switches, 0);
  EXPECT_EQ(state.looks, 21);
}

// What a run of frames gives is a function of the frames: the same on one thread and on two.
TEST(AdaptiveEngine, FollowsTheInputTheSameOnAnyThreads) {
  const AdaptiveOptions options{.narrow_after = 2, .every = 1};
  std::vector<std::vector<float>> results[2];
  for (int threads : {1, 2}) {
    const auto engine = Adaptive(options, threads);
    for (int frame = 0; frame < 30; ++frame) {
      const bool loud = frame / 10 == 1;
      const std::string before = engine->adaptive()->sets[engine->adaptive()->active];
      results[threads - 1].push_back(Outputs(*engine, Frame(loud ? 1.5f : 0.3f, frame)));
      if (frame == 5 || frame == 25) EXPECT_EQ(before, "fine") << frame;
      if (frame == 12) EXPECT_EQ(before, "wide") << frame;
    }
    EXPECT_EQ(engine->adaptive()->switches, 3);
    EXPECT_EQ(engine->adaptive()->looks, 30);
    EXPECT_GT(engine->adaptive()->tensors.size(), 1u);
  }
  EXPECT_EQ(results[0], results[1]);
}

// Executors of several shapes share one state, and a batch runs as one program.
TEST(AdaptiveEngine, ShapesShareTheState) {
  const auto engine = Adaptive({.narrow_after = 2, .every = 1}, 2);
  Outputs(*engine, Frame(0.3f, 1));
  Outputs(*engine, Frame(0.3f, 2, 8));
  EXPECT_EQ(engine->adaptive()->sets[engine->adaptive()->active], "fine");
  EXPECT_EQ(engine->adaptive()->runs, 2);
  const auto executor = engine->At({{"x", {8, 4, 12, 12}}});
  ASSERT_TRUE(executor);
  EXPECT_EQ((*executor)->repeats(), 1);
}

// A second executor begins anew and follows its own runs.
TEST(AdaptiveEngine, StreamsFollowTheirOwnRuns) {
  const auto engine = Adaptive({.narrow_after = 1, .every = 1});
  const Tensor quiet = Frame(0.3f, 1);
  const auto first = engine->For(std::span(&quiet, 1)).value();
  const auto other = first->Another();
  ASSERT_TRUE(other) << other.error().message();
  Outputs(*engine, quiet);
  EXPECT_EQ(engine->adaptive()->runs, 1);
  std::vector<Tensor> outputs = {Tensor::Allocate(first->output_types()[0])};
  ASSERT_TRUE((*other)->Run(std::span(&quiet, 1), outputs));
  EXPECT_EQ(engine->adaptive()->runs, 1);
  SharedEngine several(Adaptive({}), 2), one(Adaptive({}), 1);
  EXPECT_FALSE(several.adaptive());
  EXPECT_TRUE(one.adaptive());
  EXPECT_FALSE(several.PinScaleSet("wide"));
  EXPECT_TRUE(one.PinScaleSet("wide"));
}

TEST(AdaptiveEngine, SetsShareTheirWeights) {
  const Model model = TwoSets();
  for (const ScaleChange& change : model.sets[1].changes)
    EXPECT_NE(model.graph.value(model.graph.FindValue(change.value)).type.dtype, DType::kInt8)
        << change.value;
  std::vector<std::string> values;
  for (const ScaleChange& change : model.sets[1].changes) values.push_back(change.value);
  EXPECT_EQ(values, (std::vector<std::string>{"q", "q_t", "b", "y_t", "p_t", "e", "z_t"}));
}

TEST(AdaptiveEngine, RefusesModelsWithoutSets) {
  const auto engine = Engine::Of({LowerAndPack(Net(1)).value(), ""},
                                 {.threads = 1, .adaptive = AdaptiveOptions()}, AllParts());
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code(), ErrorCode::kUsage);
  EXPECT_EQ(engine.error().message(),
            "it has one set of scales: `evoq quantize --scale-sets K` makes more");
}

}  // namespace
}  // namespace evoq
