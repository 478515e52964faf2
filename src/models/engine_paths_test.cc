// What an engine says and does by the way a model came: from a file, from a graph; tuned or not; in
// batches of every size.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/isa.h"
#include "models/models.h"
#include "program/etm.h"
#include "reference/test_graph.h"

namespace evoq {
namespace {

std::unique_ptr<Engine> EngineOf(const std::string& text, int threads = 1) {
  auto engine = EngineFromGraph(Parsed(text), {.threads = threads});
  EXPECT_TRUE(engine) << engine.error().message();
  return std::move(*engine);
}

Tensor Floats(Shape shape) {
  return Tensor::Allocate(TensorType(DType::kFloat32, std::move(shape)));
}

class EnginePaths : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string PathOf(const std::string& name) {
    std::filesystem::create_directories(dir_);
    return (dir_ / name).string();
  }
  std::unique_ptr<Engine> Loaded(const Model& model,
                                 const EngineOptions& options = {.threads = 1}) {
    const std::string path = PathOf("m.etm");
    EXPECT_TRUE(WriteEtm(model, path));
    auto engine = LoadEngine(path, options);
    EXPECT_TRUE(engine) << engine.error().message();
    return std::move(*engine);
  }
  const std::filesystem::path dir_ =
      std::filesystem::temp_directory_path() / fmt::format("evoq_engine_{}", ::getpid());
};

Model Unpacked(const std::string& text) {
  Model model;
  model.graph = Parsed(text);
  return model;
}

// Each way into a run names the file that the model came from.
TEST_F(EnginePaths, ErrorsNameTheFile) {
  const auto named = [&](const Engine&, const Error& error, const std::string& rest) {
    EXPECT_TRUE(error.message().starts_with(PathOf("m.etm") + ": " + rest)) << error.message();
  };
  const Tensor x = Floats(Shape{2});
  const auto index = [](int64_t i) { return Tensor::FromValues<int64_t>(Shape{1}, {i}); };
  const std::string gather =
      "input %x: float32[2]\ninput %i: int64[1]\ng: %y: float32[1] = GatherElements(%x, "
      "%i)\noutput "
      "%y\n";
  const auto planned = Loaded(LowerAndPack(Parsed(gather)).value());
  named(*planned, planned->Run({{x, index(5)}}).error(), "node g (GatherElements): ");
  const auto executor = planned->Default().value();
  const Tensor bad = index(5);
  const std::byte* const in[] = {x.raw(), bad.raw()};
  Tensor y = Floats(Shape{1});
  std::byte* const out[] = {y.mutable_raw()};
  named(*planned, planned->RunOn(*executor, in, out).error(), "node g (GatherElements): ");
  named(*planned, planned->At({{"x", {3}}}).error(), "");

  const auto free =
      Loaded(Unpacked("input %x: float32[N]\nconst %c: float32[2] = [1.0, 2.0]\n"
                      "a: %y = Add(%x, %c)\noutput %y\n"));
  named(*free, free->Settle({{"x", {3}}}).error(), "node a (Add)");

  const std::string found =
      "input %x: float32[2]\ninput %i: int64[1]\nnz: %n = NonZero(%x)\n"
      "g: %y = GatherElements(%x, %i)\noutput %n\noutput %y\n";
  const auto regions = Loaded(Unpacked(found));
  named(*regions, regions->Run({{x, index(5)}}).error(), "node g (GatherElements): ");
  named(*regions, regions->RunnableFor({x, index(5)}).error(), "node g (GatherElements): ");
  ASSERT_TRUE(regions->Run({{x, index(1)}}));
}

TEST_F(EnginePaths, AnInputOfAnotherType) {
  const auto planned =
      Loaded(LowerAndPack(Parsed("input %x: float32[2]\na: %y = Abs(%x)\noutput %y\n")).value());
  const auto refused = planned->Run({{Tensor::FromValues<int64_t>(Shape{2}, {1, 2})}});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("input x: int64[2] given, expected float32[2]"),
            std::string::npos)
      << refused.error().message();
}

TEST_F(EnginePaths, ErrorsOfAnOnnxFile) {
  const std::string path = std::string(EVOQ_SOURCE_DIR) + "/examples/digits/digits.onnx";
  const auto engine = LoadEngine(path, {.threads = 1}).value();
  const auto refused = engine->At({{"image", {1, 1, 28, 27}}});
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().message().starts_with(path + ": ")) << refused.error().message();
}

TEST(EngineInputs, ThatAreMissing) {
  const std::string add =
      "input %x: float32[{0}]\ninput %z: float32[{0}]\na: %y = Add(%x, %z)\n"
      "output %y\n";
  for (const char* sizes : {"N, M", "2, 2"}) {
    const auto engine = EngineOf(fmt::format(fmt::runtime(add), sizes));
    const auto error = [&](std::vector<Tensor> inputs) {
      const auto outputs = engine->Run(inputs);
      EXPECT_FALSE(outputs);
      return outputs ? "" : outputs.error().message();
    };
    const Tensor x = Floats(Shape{2, 2});
    EXPECT_EQ(error({x}), "1 inputs given, expected 2");
    EXPECT_EQ(error({x, x, x}), "3 inputs given, expected 2");
    EXPECT_EQ(error({x, Tensor()}), *sizes == 'N'
                                        ? "input z is missing"
                                        : "input z: shape [] has rank 0, the model's is [2, 2]");
    EXPECT_TRUE(engine->Run({{x, x}}));
  }
}

// A model that does not run at the batch of 1 that nobody asked for waits for its first run,
// however it is packed; one whose sizes are all its own does not.
TEST(EngineInputs, SizesThatABatchOfOneDoesNotFit) {
  const auto graph = ParseGraph(
      "graph g\ninput %x: float32[N, 4]\nconst %s: int64[2] = [4, 4]\n"
      "r: %y: float32[4, 4] = Reshape(%x, %s)\noutput %y\n");
  ASSERT_TRUE(graph) << graph.error().message();
  const auto packed = LowerAndPack(*graph);
  ASSERT_TRUE(packed) << packed.error().message();
  EXPECT_TRUE(packed->plans.empty());
  EXPECT_FALSE(LowerAndPack(*graph, {{"x", {3, 4}}})) << "named";
  EXPECT_TRUE(LowerAndPack(*graph, {{"x", {4, 4}}}));
  const auto engine = EngineFromGraph(*graph, {.threads = 1});
  ASSERT_TRUE(engine) << engine.error().message();
  const Tensor x = Tensor::FromValues<float>(Shape{4, 4}, std::vector<float>(16, 2));
  EXPECT_TRUE((*engine)->Run(std::vector<Tensor>{x}));
}

// Of fixed sizes it is known from the start; packed sizes are used for their names only.
TEST(EngineInputs, RegionsAreKnownAtOnce) {
  const auto engine = EngineOf("input %x: float32[3]\nnz: %y = NonZero(%x)\noutput %y\n");
  EXPECT_TRUE(engine->in_regions().starts_with("node nz (NonZero): ")) << engine->in_regions();
  const auto settled = EngineOf("input %x: float32[N, M]\na: %y = Add(%x, %x)\noutput %y\n");
  ASSERT_TRUE(settled->Settle({{"x", {2, 3}}}));
  EXPECT_FALSE(settled->At({{"z", {2, 3}}}));
  EXPECT_FALSE(settled->At({{"z", {2, 3}}, {"x", {2, 3}}}));
  EXPECT_TRUE(settled->At({{"x", {2, 3}}}));
  EXPECT_GT(settled->prepared().ms, 0);
}

// How often the program of a batch runs whose arena is a value of `samples` times `columns` floats.
int64_t RepeatsOf(int64_t samples, int64_t columns, int threads) {
  const auto engine = EngineOf(fmt::format("input %x: float32[N, {}]\ns: %a = Sin(%x)\n"
                                           "n: %y = Neg(%a)\noutput %y\n",
                                           columns),
                               threads);
  const auto executor = engine->At({{"x", {samples, columns}}});
  EXPECT_TRUE(executor) << executor.error().message();
  EXPECT_EQ((*executor)->program().arena_bytes() * (*executor)->repeats(), samples * columns * 4);
  return (*executor)->repeats();
}

// Samples run one by one where a batch does not fit a core's cache of 1 MiB, and where they fill
// the threads: a multiple of them, or four times as many.
TEST(EngineBatches, RunSampleBySampleWhereItPays) {
  EXPECT_EQ(RepeatsOf(2, 1 << 17, 1), 1);
  EXPECT_EQ(RepeatsOf(2, (1 << 17) + 16, 1), 2);
  EXPECT_EQ(RepeatsOf(1, 1 << 19, 1), 1);
  EXPECT_EQ(RepeatsOf(6, 1 << 16, 3), 6);
  EXPECT_EQ(RepeatsOf(11, 1 << 16, 3), 1);
  EXPECT_EQ(RepeatsOf(13, 1 << 16, 3), 13);
}

// Weights are read again for each sample: they must fit half of the last cache.
TEST(EngineBatches, RunSampleBySampleWhereWeightsStayInTheCache) {
  const auto repeats = [](int64_t weights) {
    const auto engine = EngineOf(fmt::format("input %x: float32[N, {0}]\nconst %w: float32[{0}]\n"
                                             "s: %a = Sin(%x)\nb: %b = Add(%a, %w)\n"
                                             "n: %y = Neg(%b)\noutput %y\n",
                                             weights),
                                 1);
    const auto executor = engine->At({{"x", {2, weights}}});
    EXPECT_TRUE(executor) << executor.error().message();
    return (*executor)->repeats();
  };
  const int64_t most = LargestCacheBytes() / 2 / static_cast<int64_t>(sizeof(float));
  if (most > 1 << 25) GTEST_SKIP() << "the last cache is larger than what a test should fill";
  EXPECT_EQ(repeats(most), 2);
  EXPECT_EQ(repeats(most + 16), 1);
}

constexpr char kConv[] = R"(input %x: float32[1, 16, 20, 20]
const %w: float32[32, 16, 3, 3]
c: %y: float32[1, 32, 20, 20] = Conv{pads=[1, 1, 1, 1]}(%x, %w)
output %y
)";

StepTuning TuningOf(const Program& program) {
  for (const Step& step : program.steps) {
    if (program.graph->node(step.node).op == "Conv") return step.tuning;
  }
  return {};
}

// What a file says was measured is followed on the machine and with the threads that it was
// measured with, unless the caller wants none of it.
TEST_F(EnginePaths, StoredTuning) {
  Model model = LowerAndPack(Parsed(kConv)).value();
  const std::string machine = MachineName(SelectIsa().value());
  model.plans.at(0).tunings = {{machine, 1, {{"c", {"one", 1, {}}}}},
                               {machine, 2, {{"c", {"two", 1, {}}}}},
                               {"another", 1, {{"c", {"other", 1, {}}}}}};
  const auto taken = [&](int threads, bool stored) {
    const auto engine = Loaded(model, {.threads = threads, .stored_tuning = stored});
    return TuningOf(engine->Default().value()->program());
  };
  EXPECT_EQ(taken(1, true).variant, "one");
  EXPECT_EQ(taken(2, true).variant, "two");
  EXPECT_EQ(taken(2, true).threads, 1);
  EXPECT_EQ(taken(3, true).variant, "");
  EXPECT_EQ(taken(1, false).variant, "");
}

// Tuning replaces what was prepared, follows the engine's threads and keeps its measurements.
TEST_F(EnginePaths, TuneIsFollowedFromThenOn) {
  const std::string cache = PathOf("cache.json");
  ASSERT_EQ(setenv("EVOQ_TUNING_CACHE", cache.c_str(), 1), 0);
  for (const bool free : {false, true}) {
    std::string text = kConv;
    if (free)
      text =
          "input %x: float32[N, 16, 20, 20]\nconst %w: float32[32, 16, 3, 3]\n"
          "c: %y = Conv{pads=[1, 1, 1, 1], strides=[2, 2]}(%x, %w)\noutput %y\n";
    const auto engine = EngineOf(text, 2);
    const InputShapes shapes = {{"x", {1, 16, 20, 20}}};
    std::shared_ptr<Executor> before;
    if (!free) before = engine->At(shapes).value();
    const auto report = engine->Tune(shapes);
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_GT(report->measured, 0);
    EXPECT_TRUE(std::filesystem::exists(cache));
    EXPECT_NE(engine->At(shapes).value(), before);
    ASSERT_EQ(engine->model().plans.size(), 1u);
    const Plan& plan = engine->model().plans[0];
    EXPECT_EQ(plan.shapes, shapes);
    ASSERT_EQ(plan.tunings.size(), 1u);
    EXPECT_EQ(plan.tunings[0].machine, MachineName(engine->isa()));
    EXPECT_EQ(plan.tunings[0].threads, 2);
    EXPECT_EQ(TuningOf(engine->At(shapes).value()->program()).variant,
              plan.tunings[0].steps.at("c").variant);
  }
  unsetenv("EVOQ_TUNING_CACHE");
}

}  // namespace
}  // namespace evoq
