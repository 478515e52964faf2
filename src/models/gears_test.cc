// Sizes that a file declares, and what they serve: exactly, and without holding up others.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "compile/plan.h"
#include "engine/same_samples.h"
#include "engine/shared.h"
#include "graph/run_choices.h"
#include "models/models.h"
#include "reference/test_graph.h"

namespace evoq {
namespace {

// With constants that are not zeros.
Graph Filled(std::string_view text) {
  Graph graph = Parsed(text);
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 0.3f);
  for (int i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId{i});
    if (!value.is_constant() || value.type.dtype != DType::kFloat32) continue;
    Tensor t = Tensor::Allocate(value.type);
    for (int64_t k = 0; k < t.elements(); ++k) t.mutable_data<float>()[k] = normal(random);
    graph.SetConstant(ValueId{i}, t);
  }
  return graph;
}

Tensor Input(std::vector<int64_t> sizes) {
  Tensor x = Tensor::Allocate(TensorType(DType::kFloat32, Shape(std::move(sizes))));
  std::mt19937 random(5);
  for (int64_t i = 0; i < x.elements(); ++i)
    x.mutable_data<float>()[i] = static_cast<float>(random() % 2000) / 1000 - 1;
  return x;
}

Model Declaring(const Graph& graph, const std::vector<InputShapes>& gears) {
  Model model = LowerAndPack(graph, gears[0]).value();
  for (const InputShapes& shapes : gears)
    PlanFor(model, Compile(model, kReference, shapes).value());
  model.graph.metadata[kShapesChoice] = "declared";
  return model;
}

std::unique_ptr<Engine> EngineOf(Model model, int threads = 1, bool gears = true) {
  auto engine =
      Engine::Of({std::move(model), ""}, {.threads = threads, .gears = gears}, AllParts());
  EXPECT_TRUE(engine) << engine.error().message();
  return std::move(*engine);
}

std::vector<InputShapes> Batches(const std::vector<int64_t>& batches, std::vector<int64_t> rest) {
  std::vector<InputShapes> gears;
  for (const int64_t batch : batches) {
    std::vector<int64_t> sizes = rest;
    sizes.insert(sizes.begin(), batch);
    gears.push_back({{"x", sizes}});
  }
  return gears;
}

// All that resolves what a gear may serve: the first run at sizes that are not prepared.
Engine::Serving FirstOf(Engine& engine, const Tensor& x) {
  const auto serving = engine.Serve(std::span(&x, 1));
  EXPECT_TRUE(serving) << serving.error().message();
  return *serving;
}

constexpr char kNet[] = R"(graph net
input %x: float32["N", 3, 12, 12]
const %w0: float32[16, 3, 3, 3]
stem: %a: float32["N", 16, 12, 12] = Conv{activation="Relu", pads=[1, 1, 1, 1]}(%x, %w0)
const %w1: float32[16, 16, 3, 3]
next: %b: float32["N", 16, 12, 12] = Conv{pads=[1, 1, 1, 1]}(%a, %w1)
add: %c: float32["N", 16, 12, 12] = Add(%a, %b)
pool: %d: float32["N", 16, 1, 1] = GlobalAveragePool(%c)
flat: %e: float32["N", 16] = Flatten(%d)
const %w2: float32[16, 10]
head: %f: float32["N", 10] = MatMul(%e, %w2)
soft: %y: float32["N", 10] = Softmax{axis=-1}(%f)
output %y
output %c
)";

TEST(Gears, ServeOtherBatchesBitForBit) {
  for (const int threads : {1, 2}) {
    const Model model = Declaring(Filled(kNet), Batches({2, 8}, {3, 12, 12}));
    const auto exact = EngineOf(model, threads, false);
    for (int64_t samples = 1; samples <= 19; ++samples) {
      const auto geared = EngineOf(model, threads);
      geared->WaitForGears();
      const Tensor x = Input({samples, 3, 12, 12});
      const Engine::Serving serving = FirstOf(*geared, x);
      const bool own = samples == 2 || samples == 8;
      ASSERT_EQ(serving.padding.has_value(), !own) << samples;
      if (!own) {
        EXPECT_EQ(serving.padding->samples, samples);
        EXPECT_EQ(serving.padding->batch, samples < 2 ? 2 : 8);
      }
      const auto y = geared->RunOn(*serving.executor, std::span(&x, 1), nullptr, serving.padding);
      const auto wanted = exact->Run(std::span(&x, 1));
      ASSERT_TRUE(y && wanted);
      for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(BitEqual((*y)[i], (*wanted)[i])) << samples;
    }
  }
}

TEST(Gears, AreCountedAndFollowedByPlansOfTheirOwn) {
  const auto engine = EngineOf(Declaring(Filled(kNet), Batches({2, 8}, {3, 12, 12})));
  engine->WaitForGears();
  EXPECT_EQ(engine->gears().ready, 2);
  EXPECT_EQ(engine->gears().beside, 2);
  const Tensor eight = Input({8, 3, 12, 12}), five = Input({5, 3, 12, 12});
  const Tensor other = Input({8, 3, 10, 12});  // no gear but for its batch
  ASSERT_TRUE(engine->Run(std::span(&eight, 1)));
  ASSERT_TRUE(engine->Run(std::span(&five, 1)));
  engine->WaitForGears();
  ASSERT_TRUE(engine->Run(std::span(&five, 1)));
  EXPECT_FALSE(engine->Run(std::span(&other, 1)));  // the model fixes it
  const GearReport report = engine->gears();
  EXPECT_EQ(report.gears, 2);
  EXPECT_EQ(report.runs, 3);
  EXPECT_EQ(report.padded, 1);
  EXPECT_EQ(report.misses, 0);
  EXPECT_EQ(report.hits(), 2);
  EXPECT_EQ(report.beside, 3);
  EXPECT_GT(report.beside_ms, 0);
  ASSERT_GE(report.sizes.size(), 3u);
  EXPECT_EQ(report.sizes[1].shapes, (InputShapes{{"x", {5, 3, 12, 12}}}));
  EXPECT_EQ(report.sizes[1].runs, 2);
  EXPECT_EQ(report.sizes[1].padded, 1);
  EXPECT_FALSE(report.sizes[1].gear);
  EXPECT_TRUE(report.sizes[2].gear);
  EXPECT_EQ(CountsText(report),
            "# evoq sizes: runs, then the shape of each input\n2 x=5x3x12x12\n1 x=8x3x12x12\n");
}

// Without gears as with them a run waits for its plan, and that is counted.
TEST(Gears, MissesAreCountedInMilliseconds) {
  const auto engine = EngineOf(Declaring(Filled(kNet), Batches({2, 8}, {3, 12, 12})), 1, false);
  for (const int64_t samples : {3, 4, 3}) {
    const Tensor x = Input({samples, 3, 12, 12});
    ASSERT_TRUE(engine->Run(std::span(&x, 1)));
  }
  const GearReport report = engine->gears();
  EXPECT_EQ(report.gears, 0);
  EXPECT_EQ(report.misses, 2);
  EXPECT_EQ(report.hits(), 1);
  EXPECT_GT(report.worst_miss_ms, 0);
  EXPECT_GE(report.miss_ms, report.worst_miss_ms);
  EXPECT_GT(report.sizes[0].prepare_ms, 0);
}

// Samples that depend on each other, or on how many there are, are not filled up.
TEST(Gears, ServeNoBatchWhoseSamplesDepend) {
  const char* const models[] = {
      R"(input %x: float32["N", 4]
const %axes: int64[1] = [0]
s: %s: float32[1, 4] = ReduceSum{keepdims=1}(%x, %axes)
d: %y: float32["N", 4] = Div(%x, %s)
output %y
)",
      R"(input %x: float32["N", 4]
h: %h: int64[2] = Shape(%x)
const %first: int64[1] = [0]
g: %g: int64[1] = Gather(%h, %first)
c: %c: float32[1] = Cast{to=1}(%g)
d: %y: float32["N", 4] = Div(%x, %c)
output %y
)"};
  for (const char* const text : models) {
    const Model model = Declaring(Filled(text), Batches({8}, {4}));
    const auto engine = EngineOf(model), exact = EngineOf(model, 1, false);
    engine->WaitForGears();
    const Tensor x = Input({5, 4});
    EXPECT_FALSE(FirstOf(*engine, x).padding) << text;
    EXPECT_EQ(engine->gears().misses, 1);
    const auto y = engine->Run(std::span(&x, 1)), wanted = exact->Run(std::span(&x, 1));
    ASSERT_TRUE(y && wanted);
    EXPECT_TRUE(BitEqual((*y)[0], (*wanted)[0]));
  }
}

// Winograd's method pays for many pixels alone, and rounds differently.
TEST(Gears, ServeNoBatchThatRoundsDifferently) {
  constexpr char kConv[] = R"(input %x: float32["N", 256, 2, 2]
const %w: float32[256, 256, 3, 3]
c: %y: float32["N", 256, 2, 2] = Conv{pads=[1, 1, 1, 1]}(%x, %w)
output %y
)";
  const auto engine = EngineOf(Declaring(Filled(kConv), Batches({16}, {256, 2, 2})));
  engine->WaitForGears();
  const Tensor one = Input({1, 256, 2, 2}), many = Input({15, 256, 2, 2});
  EXPECT_FALSE(FirstOf(*engine, one).padding);
  EXPECT_TRUE(FirstOf(*engine, many).padding);
  const auto gear = engine->At({{"x", {16, 256, 2, 2}}}),
             single = engine->At({{"x", {1, 256, 2, 2}}});
  ASSERT_TRUE(gear && single);
  const auto method = [](const Executor& executor) {
    for (size_t i = 0; i < executor.plans().size(); ++i) {
      if (executor.program().steps[i].decision.kernel == "conv_f32")
        return executor.plans()[i].method;
    }
    return std::string("no convolution");
  };
  EXPECT_EQ(method(**single), "");
  EXPECT_EQ(method(**gear).substr(0, 8), "winograd");
  DerivedWeights derived;
  EXPECT_FALSE(SameBits((*single)->program(), **gear, engine->isa(), derived));
  EXPECT_TRUE(SameBits((*gear)->program(), **gear, engine->isa(), derived));
}

// Executors of one model compute in one memory, and share what kernels derive from weights.
TEST(Gears, ShareMemory) {
  const auto engine = EngineOf(Declaring(Filled(kNet), Batches({2, 8, 16}, {3, 12, 12})));
  engine->WaitForGears();
  const auto largest = engine->At({{"x", {16, 3, 12, 12}}});
  ASSERT_TRUE(largest);
  // Scratch may be larger for others; arenas are not.
  EXPECT_LT(engine->arena_bytes(), 2 * (*largest)->arena_bytes());
}

// What prepares sizes, held up in the middle of it.
std::atomic<bool> held = false, reached = false;

Result<std::vector<Tensor>> Held(const Node& node, std::span<const Tensor> inputs,
                                 std::span<const TensorType> types) {
  if (held && node.op == "Gather") {
    reached = true;
    while (held) std::this_thread::yield();
  }
  return kReference.evaluate(node, inputs, types);
}

TEST(Gears, AMissHoldsUpNobodyElse) {
  static const Evaluator kHeld = {.has = kReference.has, .evaluate = Held};
  constexpr char kSizes[] = R"(input %x: float32["N", "M"]
h: %h: int64[2] = Shape(%x)
const %second: int64[1] = [1]
g: %g: int64[1] = Gather(%h, %second)
c: %c: float32[1] = Cast{to=1}(%g)
d: %y: float32["N", "M"] = Div(%x, %c)
output %y
)";
  Model model = LowerAndPack(Filled(kSizes), {{"x", {1, 4}}}).value();
  auto engine = Engine::Of({std::move(model), ""}, {.threads = 1}, {.evaluator = &kHeld});
  ASSERT_TRUE(engine);
  SharedEngine shared(std::move(*engine), 2);
  const Tensor known = Input({1, 4}), fresh = Input({1, 7});
  ASSERT_TRUE(shared.Run(std::span(&known, 1)));
  held = true;
  // Who waits has left its place, until that is over; who need not keeps it.
  struct Seat : SharedEngine::Place {
    std::atomic<int> left = 0, returned = 0;
    void Leave() override { ++left; }
    void Return() override { ++returned; }
  };
  Seat seats[2], kept;
  std::vector<std::thread> waiting;
  for (Seat& seat : seats)
    waiting.emplace_back([&] { EXPECT_TRUE(shared.Run(std::span(&fresh, 1), {.place = &seat})); });
  while (!reached) std::this_thread::yield();
  while (seats[0].left + seats[1].left < 2) std::this_thread::yield();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(shared.Run(std::span(&known, 1), {.place = &kept}));
  EXPECT_EQ(shared.gears().runs, 11);
  EXPECT_EQ(seats[0].returned + seats[1].returned, 0);
  held = false;
  for (std::thread& thread : waiting) thread.join();
  for (const Seat& seat : seats) {
    EXPECT_EQ(seat.left, 1);
    EXPECT_EQ(seat.returned, 1);
  }
  EXPECT_EQ(kept.left + kept.returned, 0);
  const GearReport report = shared.gears();
  EXPECT_EQ(report.runs, 13);
  // The first, the one that prepared, and the other one unless it came when that was done.
  EXPECT_GE(report.misses, 2);
  EXPECT_LE(report.misses, 3);
  EXPECT_EQ(report.sizes[1].runs, 2);
}

TEST(Gears, CallersOnSeveralThreadsGetTheSameBits) {
  const Model model = Declaring(Filled(kNet), Batches({2, 8}, {3, 12, 12}));
  const auto exact = EngineOf(model, 1, false);
  std::vector<Tensor> inputs, wanted;
  for (int64_t samples = 1; samples <= 12; ++samples) {
    inputs.push_back(Input({samples, 3, 12, 12}));
    wanted.push_back(exact->Run(std::span(&inputs.back(), 1)).value()[0]);
  }
  SharedEngine shared(EngineOf(model), 2);
  std::vector<std::thread> callers;
  for (size_t c = 0; c < 3; ++c) {
    callers.emplace_back([&, c] {
      for (size_t k = 0; k < 40; ++k) {
        const size_t i = (k * (c + 1) + c) % inputs.size();
        const auto y = shared.Run(std::span(&inputs[i], 1));
        ASSERT_TRUE(y) << y.error().message();
        EXPECT_TRUE(BitEqual((*y)[0], wanted[i]));
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(shared.gears().runs, 120);
  shared.WaitForGears();
}

TEST(Preparer, PreparesInOrderAndTellsErrors) {
  std::vector<InputShapes> asked;
  Preparer preparer([&](const InputShapes& shapes) -> Result<std::shared_ptr<Executor>> {
    asked.push_back(shapes);
    return Fail(ErrorCode::kUsage, "no");
  });
  preparer.Ask({{"x", {1}}});
  preparer.Ask({{"x", {2}}});
  preparer.Wait();
  EXPECT_EQ(asked, (std::vector<InputShapes>{{{"x", {1}}}, {{"x", {2}}}}));
  EXPECT_TRUE(preparer.made_any());
  const auto made = preparer.Take();
  ASSERT_EQ(made.size(), 2u);
  EXPECT_EQ(made[1].shapes, asked[1]);
  EXPECT_FALSE(made[1].executor);
  EXPECT_FALSE(preparer.made_any());
}

TEST(SizeCounts, TellsApartSoManySizesAndNoMore) {
  SizeCounts counts;
  for (int64_t i = 0; i < static_cast<int64_t>(SizeCounts::kMostSizes) + 3; ++i)
    counts.Ran(counts.Of({{"x", {i}}}), false, std::nullopt);
  counts.Ran(counts.Of({{"x", {0}}}), false, 2.5);
  const GearReport report = counts.Report();
  EXPECT_EQ(report.sizes.size(), SizeCounts::kMostSizes);
  EXPECT_EQ(report.other_runs, 3);
  EXPECT_EQ(report.sizes[0].runs, 2);
  EXPECT_EQ(report.worst_miss_ms, 2.5);
}

}  // namespace
}  // namespace evoq
