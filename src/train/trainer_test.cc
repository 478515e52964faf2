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
#include "nn/layers.h"
#include "reference/reference.h"
#include "train/network.h"
#include "train/optimizer.h"
#include "train/plan.h"
#include "train/test_bars.h"

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
    EXPECT_GT(*reports.back().test->accuracy, 0.9) << optimizer->name;
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
  recipe.decay = {"conv_9*=0"};
  EXPECT_EQ(ErrorOf(SmallNet(1), bars, recipe), "--decay conv_9*=0: no parameter of that name");
  recipe.decay.clear();
  wrong = bars;
  wrong.sizes[0] = {1, 4, 16};
  EXPECT_EQ(ErrorOf(SmallNet(1), wrong, recipe),
            "a sample is [1, 4, 16], the model takes [1, 8, 8]");
  recipe.freeze = {"conv_9*"};
  EXPECT_EQ(ErrorOf(SmallNet(1), bars, recipe), "--freeze conv_9*: no parameter of that name");
  recipe.freeze = {"conv_1.wieght"};
  EXPECT_EQ(ErrorOf(SmallNet(1), bars, recipe),
            "--freeze conv_1.wieght: no parameter of that name; the nearest is conv_1.weight");
  recipe.freeze.clear();
  recipe.decay = {"conv_1.wieght=0"};
  EXPECT_EQ(ErrorOf(SmallNet(1), bars, recipe),
            "--decay conv_1.wieght=0: no parameter of that name; the nearest is conv_1.weight");
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
      "s: %s = Sinh(%m)\nc: %c = Cosh(%s)\nt: %y = Sinh(%c)\noutput %y\n");
  ASSERT_TRUE(graph) << graph.error().message();
  ASSERT_TRUE(InferTypes(*graph));
  LabelledSamples samples;
  samples.sizes = {{4}};
  samples.inputs = {std::vector<float>(32 * 4, 1.0f)};
  samples.labels.assign(32, 0);
  EXPECT_EQ(
      ErrorOf(*graph, samples, Small()),
      "no gradient for node s (Sinh), node c (Cosh); `evoq list gradients` names the operators "
      "that train");
}

// The average follows the weights by its formula, is what is written, and goes on after a resume;
// mixed samples and groups of decay too are the same bits on any number of threads.
TEST(Training, AveragesMixesAndDecaysByName) {
  TrainingRecipe recipe = Small();
  recipe.ema = 0.95;
  recipe.mixup = 0.4;
  recipe.decay = {"*.weight=0.02", "norm_*=0"};
  const std::string path = Temporary("ema.npz"), whole = Bytes(Trained(recipe, 1));
  EXPECT_EQ(Bytes(Trained(recipe, 3)), whole);
  TrainingHooks stop;
  stop.epoch = [](const EpochReport& report) -> Status {
    if (report.epoch < 2) return {};
    return Fail(ErrorCode::kConditionFailed, "stopped");
  };
  Graph graph = SmallNet(1);
  ASSERT_FALSE(TrainGraph(graph, Bars(150, 1), recipe, {"small", path, ""}, 1, stop));
  EXPECT_EQ(Bytes(Trained(recipe, 2, {"small", "", path})), whole);
  std::filesystem::remove(path);
  for (const auto change :
       {+[](TrainingRecipe& r) { r.ema = 0; }, +[](TrainingRecipe& r) { r.mixup = 0; },
        +[](TrainingRecipe& r) { r.decay.pop_back(); }}) {
    TrainingRecipe other = recipe;
    change(other);
    EXPECT_NE(Bytes(Trained(other, 2)), whole);
  }
}

// w of a model x w, after each step as plain descent leaves it, and the average of these.
TEST(Training, TheAverageIsThatOfTheWeights) {
  const auto weights = [](double ema, int64_t epochs) {
    auto graph = ParseGraph(
        "input %x: float32[N, 2]\nconst %w: float32[2, 2] = [1, 2, 3, 4]\n"
        "m: %y = MatMul(%x, %w)\noutput %y\n");
    EXPECT_TRUE(graph && InferTypes(*graph));
    LabelledSamples samples;
    samples.sizes = {{2}};
    samples.inputs = {{1, 0, 0, 1, 1, 1, 2, 1}};
    samples.labels = {0, 1, 0, 1};
    TrainingRecipe recipe;
    recipe.epochs = epochs;
    recipe.batch = recipe.shard = 4;
    recipe.optimizer = "sgd";
    recipe.schedule = "constant";
    recipe.lr = 0.5;
    recipe.ema = ema;
    EXPECT_TRUE(TrainGraph(*graph, samples, recipe, {}, 1, {}));
    const Tensor& w = graph->value(graph->FindValue("w")).constant;
    return std::vector<float>(w.data<float>(), w.data<float>() + 4);
  };
  std::vector<double> average = {1, 2, 3, 4};
  for (int64_t t = 1; t <= 5; ++t) {
    const std::vector<float> w = weights(0, t);
    const double kept =
        std::min(0.3, (1.0 + static_cast<double>(t)) / (10.0 + static_cast<double>(t)));
    for (size_t i = 0; i < 4; ++i) average[i] = kept * average[i] + (1 - kept) * w[i];
  }
  const std::vector<float> got = weights(0.3, 5);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(got[i], average[i], 1e-5) << i;
  EXPECT_NE(got, weights(0, 5));
}

// A sequence in which each token follows from the last two: what a decoder learns, and the loss
// that the engine measures is that of training.
TEST(Training, LearnsTheNextToken) {
  std::vector<int64_t> stream = {1, 2};
  for (int i = 2; i < 1200; ++i) stream.push_back((stream[i - 1] + 2 * stream[i - 2] + 1) % 7);
  const LabelledSamples samples = *WindowsOf(std::span(stream).subspan(0, 1000), 8, DType::kInt64);
  const LabelledSamples test = *WindowsOf(std::span(stream).subspan(1000), 8, DType::kInt64);
  EXPECT_EQ(samples.count(), 124);
  EXPECT_EQ(samples.labels[8], stream[9]);
  const auto decoder = [] {
    Layers b("decoder", 1);
    ValueId x = b.Positions(b.Embedding(b.Tokens(), 7, 16), 8, 16);
    x = b.Add(x, b.Attention(b.LayerNorm(x, 16), 16, 2, /*causal=*/true));
    x = b.Add(x, b.Project(b.Apply("Gelu", b.Project(b.RmsNorm(x, 16), 16, 32)), 32, 16));
    Graph graph = b.Finish(b.Project(b.LayerNorm(x, 16), 16, 7, false));
    EXPECT_TRUE(InferTypes(graph));
    return graph;
  };
  TrainingRecipe recipe;
  recipe.epochs = 20;
  recipe.batch = 8;
  recipe.shard = 2;
  recipe.lr = 0.01;
  TrainingHooks hooks;
  std::optional<EpochReport> last;
  hooks.test = [&](const Graph& graph) { return MeasureAccuracy(graph, test, 1); };
  hooks.epoch = [&](const EpochReport& report) -> Status {
    last = report;
    return {};
  };
  Graph graph = decoder(), other = decoder();
  const auto outcome = TrainGraph(graph, samples, recipe, {}, 2, hooks);
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_EQ(last->rows, 8);
  EXPECT_LT(*last->test->loss, 0.5) << "guessing is log 7 = 1.95";
  EXPECT_GT(*last->test->accuracy, 0.8) << "the first of eight tokens cannot be known";
  EXPECT_NEAR(last->loss, *last->test->loss, 0.15);
  ASSERT_TRUE(TrainGraph(other, samples, recipe, {}, 3, {}));
  EXPECT_EQ(Bytes(other), Bytes(graph));
  LabelledSamples wrong = samples;
  wrong.inputs[0][3] = 7;
  EXPECT_EQ(ErrorOf(decoder(), wrong, recipe), "token 7, the model knows those from 0 to 6");
  recipe.mixup = 0.2;
  EXPECT_EQ(ErrorOf(decoder(), samples, recipe), "--mixup 0.2: tokens cannot be mixed");
}

// One label for all tokens of a sample: which of two tokens it has more often.
TEST(Training, ClassifiesTokens) {
  auto graph = ParseGraph(
      "input %x: int32[N, T]\nconst %e: float32[3, 4]\nconst %w: float32[4, 2]\n"
      "const %a: int64[1] = [1]\ng: %g = Gather(%e, %x)\n"
      "r: %r = ReduceMean{keepdims=0}(%g, %a)\nm: %y = MatMul(%r, %w)\noutput %y\n");
  ASSERT_TRUE(graph) << graph.error().message();
  ASSERT_TRUE(InferTypes(*graph));
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 0.5f);
  for (const char* name : {"e", "w"}) {
    Tensor tensor = graph->value(graph->FindValue(name)).constant.Clone();
    for (int64_t i = 0; i < tensor.elements(); ++i)
      tensor.mutable_data<float>()[i] = normal(random);
    graph->SetConstant(graph->FindValue(name), std::move(tensor));
  }
  LabelledSamples samples;
  samples.sizes = {{7}};
  samples.inputs.resize(1);
  samples.tokens = DType::kInt32;
  for (int i = 0; i < 64; ++i) {
    int64_t first = 0;
    for (int t = 0; t < 7; ++t) {
      samples.inputs[0].push_back(static_cast<float>(random() % 2));
      first += samples.inputs[0].back() == 0;
    }
    samples.labels.push_back(first > 3 ? 0 : 1);
  }
  TrainingRecipe recipe = Small();
  recipe.augment.clear();
  recipe.epochs = 40;
  recipe.lr = 0.05;
  ASSERT_TRUE(TrainGraph(*graph, samples, recipe, {}, 2, {}));
  const auto measured = MeasureAccuracy(*graph, samples, 1);
  ASSERT_TRUE(measured) << measured.error().message();
  EXPECT_GT(measured->accuracy, 0.95);
  EXPECT_FALSE(measured->loss);
}

TEST(Samples, AWindowIsFollowedByTheNextToken) {
  const std::vector<int64_t> stream = {5, 6, 7, 8, 9, 10, 11};
  const LabelledSamples windows = *WindowsOf(stream, 3, DType::kInt32);
  EXPECT_EQ(windows.count(), 2);
  EXPECT_EQ(windows.inputs[0], (std::vector<float>{5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(windows.labels, (std::vector<int64_t>{6, 7, 8, 9, 10, 11}));
  const Tensor input = std::move(InputsOf(windows, 1, 2)[0]);
  EXPECT_EQ(input.type().ToString(), "int32[1, 3]");
  EXPECT_EQ(input.data<int32_t>()[0], 8);
  EXPECT_EQ(WindowsOf(stream, 7, DType::kInt64).error().message(),
            "7 tokens, expected at least 8 for a window of 7");
  EXPECT_EQ(WindowsOf(std::vector<int64_t>{1, 1 << 24}, 1, DType::kInt64).error().message(),
            "token 1 is 16777216, expected a number from 0 to 16777215");
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
    const Shape& scores = graph.value(graph.outputs()[0]).type.shape;
    EXPECT_EQ(scores[scores.rank() - 1], Dim(7)) << network->name;
    EXPECT_EQ(Bytes(network->build(1, 7)), Bytes(graph));
    EXPECT_NE(Bytes(network->build(2, 7)), Bytes(graph));
    TrainingRecipe recipe;
    network->recipe(recipe);
    EXPECT_TRUE(CheckRecipe(recipe));
    const bool texts = graph.value(graph.inputs()[0]).type.dtype == DType::kInt64;
    EXPECT_EQ(texts, *network->preprocess == '\0') << network->name;
    if (!texts) EXPECT_TRUE(ParsePreprocess(network->preprocess)) << network->name;
    const auto plan =
        MakeTrainingPlan(graph, {.samples = 2, .rows = texts ? 5 : 1, .length = texts ? 5 : 0});
    ASSERT_TRUE(plan) << network->name << ": " << plan.error().message();
    EXPECT_LT(plan->gradient_floats, plan->value_floats * 2 / 3) << network->name;
  }
}

}  // namespace
}  // namespace evoq
