// Training as a whole: it learns, to the same bits however it is run, and says what is wrong.
#include "train/trainer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/file.h"
#include "base/rows.h"
#include "reference/reference.h"
#include "train/layers.h"
#include "train/network.h"
#include "train/optimizer.h"

namespace evoq {
namespace {

// A network with every kind of layer that the built-in ones have.
Graph SmallNet(uint64_t seed) {
  Layers b("small", seed);
  ValueId x = b.MaxPool(b.Relu(b.BatchNorm(b.Conv(b.Image(1, 8), 1, 6, {.pad = 1}), 6)), 2);
  const ValueId y = b.BatchNorm(b.Conv(x, 6, 6, {.pad = 1}), 6);
  x = b.Relu(b.Add(x, y));
  return b.Finish(b.Linear(b.Flatten(x), 6 * 4 * 4, 3));
}

// Bars of three directions in noise, of which a label is the direction.
LabelledSamples Bars(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> noise(0, 0.3f);
  LabelledSamples out;
  out.sizes = {{1, 8, 8}};
  out.inputs.resize(1);
  for (int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<int64_t>(random() % 3), at = static_cast<int64_t>(random() % 8);
    for (int64_t y = 0; y < 8; ++y) {
      for (int64_t x = 0; x < 8; ++x) {
        const bool bar = (label == 0 ? y : label == 1 ? x : (x + y) % 8) == at;
        out.inputs[0].push_back(noise(random) + (bar ? 1.0f : 0.0f));
      }
    }
    out.labels.push_back(label);
  }
  return out;
}

TrainingRecipe Small() {
  TrainingRecipe recipe;
  recipe.epochs = 4;
  recipe.batch = 32;
  recipe.shard = 8;
  recipe.lr = 0.01;
  recipe.augment = {"shift=1"};
  recipe.weight_decay = 0.01;
  recipe.clip_norm = 1;
  recipe.warm_up = 0.5;
  return recipe;
}

std::string Temporary(const std::string& name) {
  return (std::filesystem::temp_directory_path() /
          fmt::format("evoq_train_{}_{}", ::getpid(), name))
      .string();
}

// All constants, as bytes.
std::string Bytes(const Graph& graph) {
  std::string bytes;
  for (int i = 0; i < graph.value_count(); ++i) {
    const Value& v = graph.value(ValueId{i});
    if (v.is_constant())
      bytes.append(reinterpret_cast<const char*>(v.constant.raw()), v.constant.bytes());
  }
  return bytes;
}

Graph Trained(const TrainingRecipe& recipe, int threads, const TrainingFiles& files = {},
              TrainingHooks hooks = {}, int64_t count = 150) {
  Graph graph = SmallNet(recipe.seed);
  const LabelledSamples samples = Bars(count, 1);
  const auto outcome = TrainGraph(graph, samples, recipe, files, threads, hooks);
  EXPECT_TRUE(outcome) << outcome.error().message();
  return graph;
}

std::string ErrorOf(Graph graph, const LabelledSamples& samples, const TrainingRecipe& recipe,
                    const TrainingFiles& files = {}) {
  const auto outcome = TrainGraph(graph, samples, recipe, files, 1, {});
  return outcome ? "trained" : outcome.error().message();
}

TEST(Training, LearnsAndTheEngineMeasuresIt) {
  const LabelledSamples test = Bars(200, 2);
  for (const OptimizerDef* optimizer : AllOptimizers()) {
    TrainingRecipe recipe = Small();
    recipe.optimizer = optimizer->name;
    recipe.epochs = 12;
    if (optimizer->slots == 1) recipe.lr = 0.1;
    std::vector<EpochReport> reports;
    TrainingHooks hooks;
    hooks.test = [&](const Graph& graph) { return MeasureAccuracy(graph, test, 1); };
    hooks.epoch = [&](const EpochReport& report) -> Status {
      reports.push_back(report);
      return {};
    };
    Trained(recipe, 2, {}, hooks, 640);
    ASSERT_EQ(reports.size(), 12u);
    EXPECT_LT(reports.back().loss, reports.front().loss / 2) << optimizer->name;
    EXPECT_GT(*reports.back().test_accuracy, 0.9) << optimizer->name;
    EXPECT_EQ(reports.back().epoch, 12);
    EXPECT_EQ(reports.back().remaining_s, 0);
  }
}

TEST(Training, TheSameBitsForAnyNumberOfThreads) {
  const std::string one = Bytes(Trained(Small(), 1));
  for (int threads : {2, 3, 5}) EXPECT_EQ(Bytes(Trained(Small(), threads)), one) << threads;
  TrainingRecipe other = Small();
  other.seed = 2;
  EXPECT_NE(Bytes(Trained(other, 1)), one);
}

TEST(Training, AResumedRunEndsInTheSameBits) {
  const std::string path = Temporary("resume.npz"), whole = Bytes(Trained(Small(), 2));
  TrainingHooks stop;
  stop.epoch = [](const EpochReport& report) -> Status {
    if (report.epoch < 2) return {};
    return Fail(ErrorCode::kConditionFailed, "stopped");
  };
  Graph graph = SmallNet(1);
  const LabelledSamples samples = Bars(150, 1);
  const auto stopped = TrainGraph(graph, samples, Small(), {"small", path, ""}, 1, stop);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().message(), "stopped");
  EXPECT_NE(Bytes(graph), whole);
  EXPECT_EQ(Bytes(Trained(Small(), 1, {"small", "", path})), whole);
  std::filesystem::remove(path);
}

TEST(Training, ADamagedCheckpointIsRefused) {
  const std::string path = Temporary("damaged.npz");
  TrainingRecipe recipe = Small();
  recipe.epochs = 1;
  Trained(recipe, 1, {"small", path, ""});
  const LabelledSamples samples = Bars(150, 1);
  const auto error = [&](const TrainingRecipe& r, const std::string& model = "small") {
    return ErrorOf(SmallNet(1), samples, r, {model, "", path});
  };
  EXPECT_EQ(error(recipe), "trained");
  TrainingRecipe other = recipe;
  other.lr = 0.02;
  EXPECT_EQ(error(other), path +
                              ": state: lr is 0.01, not 0.02; a run goes on with the options that "
                              "it began with");
  EXPECT_EQ(error(recipe, "large"), path + ": state: model is \"small\", not \"large\"");
  EXPECT_EQ(ErrorOf(SmallNet(1), Bars(96, 1), recipe, {"small", "", path}),
            path + ": state: samples is 150, not 96");
  std::string bytes = *ReadTextFile(path);
  const std::string whole = bytes;
  bytes[bytes.size() / 3] ^= 1;
  ASSERT_TRUE(WriteFileAtomic(path, bytes));
  EXPECT_NE(error(recipe).find(path), std::string::npos);
  EXPECT_NE(error(recipe), "trained");
  ASSERT_TRUE(WriteFileAtomic(path, whole.substr(0, whole.size() / 2)));
  EXPECT_NE(error(recipe).find(path), std::string::npos);
  EXPECT_NE(error(recipe), "trained");
  std::filesystem::remove(path);
}

TEST(Training, AFullDiskLeavesTheLastCheckpoint) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  EXPECT_EQ(ErrorOf(SmallNet(1), Bars(150, 1), Small(), {"small", "/dev/full", ""}),
            "/dev/full: cannot write: No space left on device");
}

TEST(Training, SaysWhatIsWrong) {
  const LabelledSamples bars = Bars(64, 1);
  TrainingRecipe recipe = Small();
  recipe.batch = 30;
  EXPECT_EQ(ErrorOf(SmallNet(1), bars, recipe),
            "--batch 30: expected a multiple of the 8 samples that a shard has (--shard N)");
  recipe.batch = 128;
  EXPECT_EQ(ErrorOf(SmallNet(1), bars, recipe), "--batch 128: there are 64 samples");
  recipe = Small();
  LabelledSamples wrong = bars;
  wrong.labels[5] = 3;
  EXPECT_EQ(ErrorOf(SmallNet(1), wrong, recipe), "sample 5 has label 3, the model has 3 classes");
  wrong = bars;
  wrong.sizes[0] = {1, 4, 16};
  EXPECT_EQ(ErrorOf(SmallNet(1), wrong, recipe),
            "a sample is [1, 4, 16], the model takes [1, 8, 8]");
  recipe.freeze = {"conv_9*"};
  EXPECT_EQ(ErrorOf(SmallNet(1), bars, recipe), "--freeze conv_9*: no parameter of that name");
  recipe = Small();
  recipe.lr = 1000;
  recipe.optimizer = "sgd";
  recipe.clip_norm = 0;
  recipe.warm_up = 0;
  recipe.schedule = "constant";
  recipe.epochs = 100;
  recipe.weight_decay = 1;
  EXPECT_NE(ErrorOf(SmallNet(1), bars, recipe).find("training has diverged; try a smaller --lr"),
            std::string::npos);
}

TEST(Training, NamesTheOperatorsWithoutAGradient) {
  auto graph = ParseGraph(
      "input %x: float32[N, 4]\nconst %w: float32[4, 3] \nm: %m = MatMul(%x, %w)\n"
      "s: %s = Sin(%m)\nc: %c = Cos(%s)\nt: %y = Sin(%c)\noutput %y\n");
  ASSERT_TRUE(graph) << graph.error().message();
  ASSERT_TRUE(InferTypes(*graph));
  LabelledSamples samples;
  samples.sizes = {{4}};
  samples.inputs = {std::vector<float>(32 * 4, 1.0f)};
  samples.labels.assign(32, 0);
  EXPECT_EQ(ErrorOf(*graph, samples, Small()),
            "no gradient for node s (Sin), node c (Cos); `evoq list gradients` names the operators "
            "that train");
}

// A frozen parameter, the only one that is not trained, keeps its bits; a last Softmax is left to
// the loss; a batch that the graph fixes is a shard.
TEST(Training, FreezesAndTakesWhatTheGraphFixes) {
  auto graph = ParseGraph(
      "input %x: float32[2, 1, 8, 8]\nconst %w: float32[64, 3]\nconst %v: float32[3, 3]\n"
      "f: %f = Flatten(%x)\nm: %m = MatMul(%f, %w)\nn: %n = MatMul(%m, %v)\n"
      "p: %y = Softmax(%n)\noutput %y\n");
  ASSERT_TRUE(graph) << graph.error().message();
  ASSERT_TRUE(InferTypes(*graph));
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 0.5f);
  for (const char* name : {"w", "v"}) {
    const ValueId id = graph->FindValue(name);
    Tensor tensor = graph->value(id).constant.Clone();
    for (int64_t i = 0; i < tensor.elements(); ++i)
      tensor.mutable_data<float>()[i] = normal(random);
    graph->SetConstant(id, std::move(tensor));
  }
  const auto bits = [&](const char* name) {
    const Tensor& t = graph->value(graph->FindValue(name)).constant;
    return std::vector<float>(t.data<float>(), t.data<float>() + t.elements());
  };
  const auto v = bits("v"), w = bits("w");
  TrainingRecipe recipe = Small();
  recipe.freeze = {"v"};
  recipe.epochs = 8;
  const auto outcome = TrainGraph(*graph, Bars(96, 1), recipe, {}, 2, {});
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_EQ(outcome->parameters, 64 * 3);
  EXPECT_EQ(outcome->steps, 8 * 3);
  EXPECT_EQ(bits("v"), v);
  EXPECT_NE(bits("w"), w);
  EXPECT_LT(outcome->epochs.back().loss, outcome->epochs.front().loss);
  EXPECT_TRUE(MeasureAccuracy(*graph, Bars(31, 2), 1));
}

TEST(Samples, AnEpochTakesEachOnce) {
  std::vector<int64_t> order = EpochOrder(100, 5, 3), other = EpochOrder(100, 5, 4);
  EXPECT_NE(order, other);
  EXPECT_EQ(order, EpochOrder(100, 5, 3));
  std::sort(order.begin(), order.end());
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(Networks, HaveTheGraphThatTheyName) {
  for (const NetworkDef* network : AllNetworks()) {
    Graph graph = network->build(1, 7);
    ASSERT_TRUE(InferTypes(graph)) << network->name;
    EXPECT_EQ(graph.value(graph.outputs()[0]).type.shape[1], Dim(7)) << network->name;
    EXPECT_EQ(Bytes(network->build(1, 7)), Bytes(graph));
    EXPECT_NE(Bytes(network->build(2, 7)), Bytes(graph));
    TrainingRecipe recipe;
    network->recipe(recipe);
    EXPECT_TRUE(CheckRecipe(recipe));
    EXPECT_TRUE(ParsePreprocess(network->preprocess)) << network->name;
  }
}

}  // namespace
}  // namespace evoq
