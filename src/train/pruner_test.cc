// Pruning while a network is trained.
#include "train/pruner.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "nn/layers.h"
#include "train/test_bars.h"
#include "train/trainer.h"

namespace evoq {
namespace {

Graph Net(uint64_t seed) {
  Layers b("small", seed);
  const ValueId x = b.Relu(b.BatchNorm(b.Conv(b.Image(1, 8), 1, 8, {.pad = 1}), 8));
  const ValueId y = b.MaxPool(b.Relu(b.BatchNorm(b.Conv(x, 8, 8, {.pad = 1}), 8)), 2);
  return b.Finish(b.Linear(b.Flatten(y), 8 * 4 * 4, 4));
}

TrainingRecipe Recipe() {
  TrainingRecipe recipe;
  recipe.epochs = 6;
  recipe.batch = 32;
  recipe.shard = 8;
  recipe.lr = 0.01;
  recipe.prune = "block-4x4";
  recipe.sparsity = 0.75;
  return recipe;
}

std::vector<float> Floats(const Graph& graph) {
  std::vector<float> all;
  for (int i = 0; i < graph.value_count(); ++i) {
    const Value& v = graph.value(ValueId{i});
    if (!v.is_constant() || v.type.dtype != DType::kFloat32) continue;
    for (float f : v.constant.values<float>()) all.push_back(f);
  }
  return all;
}

// The cube of Zhu and Gupta, from 0 to the end's share at half of the steps.
TEST(Pruner, RisesByACube) {
  EXPECT_NEAR(SparsityAt(0.8, 24, 100), 0.8 * (1 - 0.125), 1e-12);
  EXPECT_EQ(SparsityAt(0.8, 49, 100), 0.8);
  EXPECT_EQ(SparsityAt(0.8, 99, 100), 0.8);
  EXPECT_GT(SparsityAt(0.8, 10, 100), 0.8 * 11 / 50);
}

// The share is reached, in whole blocks, and the network has learned with it.
TEST(Pruner, PrunesWhileItLearns) {
  const LabelledSamples samples = Bars(256, 1), test = Bars(200, 2);
  Graph graph = Net(1);
  TrainingHooks hooks;
  hooks.test = [&](const Graph& g) { return MeasureAccuracy(g, test, 1); };
  TrainingRecipe recipe = Recipe();
  recipe.epochs = 30;
  const auto outcome = TrainGraph(graph, samples, recipe, {}, 2, hooks);
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_NEAR(*outcome->epochs.back().sparsity, 0.75, 0.02);
  EXPECT_LT(*outcome->epochs.front().sparsity, 0.75);
  EXPECT_GT(*outcome->epochs.back().test->accuracy, 0.8);
  Graph again = graph;
  const auto report = *PruneGraph(again, {});
  for (const PrunedLayer& layer : report.layers) {
    EXPECT_EQ(layer.zeros_before, layer.zeros) << layer.node;  // these blocks were 0
    EXPECT_GT(layer.zeros, 0);
  }
}

// A pruned network that is trained further keeps its zeros.
TEST(Pruner, HoldsZeros) {
  const LabelledSamples samples = Bars(128, 1);
  Graph graph = Net(2);
  const auto report = *PruneGraph(graph, {.pattern = "unstructured", .sparsity = 0.6});
  TrainingRecipe recipe = Recipe();
  recipe.prune = kHoldZeros;
  recipe.sparsity = 0;
  const auto outcome = TrainGraph(graph, samples, recipe, {}, 1, {});
  ASSERT_TRUE(outcome) << outcome.error().message();
  Graph same = graph;
  const auto after = *PruneGraph(same, {.pattern = "unstructured", .sparsity = 0.6});
  ASSERT_EQ(after.layers.size(), report.layers.size());
  for (size_t i = 0; i < after.layers.size(); ++i)
    EXPECT_GE(after.layers[i].zeros_before, report.layers[i].zeros) << after.layers[i].node;
}

// Any number of threads and a run that goes on give the same bits.
TEST(Pruner, SameBitsWithThreadsAndFromACheckpoint) {
  const LabelledSamples samples = Bars(160, 3);
  Graph one = Net(3), two = Net(3), resumed = Net(3);
  ASSERT_TRUE(TrainGraph(one, samples, Recipe(), {}, 1, {}));
  ASSERT_TRUE(TrainGraph(two, samples, Recipe(), {}, 3, {}));
  EXPECT_EQ(Floats(one), Floats(two));
  const std::string checkpoint =
      (std::filesystem::temp_directory_path() / fmt::format("evoq_pruner_{}.npz", ::getpid()))
          .string();
  TrainingHooks stop;
  stop.epoch = [](const EpochReport& report) -> Status {
    return report.epoch == 2 ? Fail(ErrorCode::kConditionFailed, "stopped") : Status();
  };
  Graph half = Net(3);
  EXPECT_FALSE(
      TrainGraph(half, samples, Recipe(), {.model = "m", .checkpoint = checkpoint}, 2, stop));
  const auto rest =
      TrainGraph(resumed, samples, Recipe(), {.model = "m", .resume = checkpoint}, 2, {});
  ASSERT_TRUE(rest) << rest.error().message();
  EXPECT_EQ(rest->resumed_at, 2);
  EXPECT_EQ(Floats(one), Floats(resumed));
  // Another sparsity, or none, is another run.
  TrainingRecipe other = Recipe();
  other.prune = "";
  other.sparsity = 0;
  Graph third = Net(3);
  EXPECT_NE(TrainGraph(third, samples, other, {.model = "m", .resume = checkpoint}, 1, {})
                .error()
                .message()
                .find("prune is \"block-4x4\", not \"\""),
            std::string::npos);
  std::filesystem::remove(checkpoint);
}

// The numbers of all layers' channels.
std::vector<int64_t> ChannelsOf(const Graph& graph) {
  std::vector<int64_t> channels;
  for (NodeId id : graph.order()) {
    if (graph.node(id).op == "Conv")
      channels.push_back(graph.value(graph.node(id).inputs[1]).type.shape[0].value);
  }
  return channels;
}

// Half of the channels go while it learns, by each score that there is; the smaller network has
// learned, at any number of threads to the same bits, and from a checkpoint too.
TEST(Pruner, RemovesChannelsWhileItLearns) {
  const LabelledSamples samples = Bars(256, 1), test = Bars(200, 2);
  for (const char* score : {"magnitude", "movement", "obd"}) {
    SCOPED_TRACE(score);
    TrainingRecipe recipe = Recipe();
    recipe.epochs = 20;
    recipe.prune = "channel";
    recipe.prune_score = score;
    recipe.sparsity = 0.5;
    TrainingHooks hooks;
    double masked = 0;
    hooks.test = [&](const Graph& g) { return MeasureAccuracy(g, test, 1); };
    hooks.epoch = [&](const EpochReport& report) -> Status {
      masked = *report.test->accuracy;
      return {};
    };
    Graph one = Net(1), two = Net(1), resumed = Net(1);
    const auto outcome = TrainGraph(one, samples, recipe, {}, 1, hooks);
    ASSERT_TRUE(outcome) << outcome.error().message();
    EXPECT_EQ(ChannelsOf(one), (std::vector<int64_t>{4, 4}));
    EXPECT_EQ(*outcome->epochs.back().sparsity, 0.5);
    EXPECT_LT(*outcome->epochs.front().sparsity, 0.5);
    ASSERT_TRUE(outcome->pruned);
    EXPECT_LT(outcome->pruned->bytes, outcome->pruned->bytes_before * 0.6);
    EXPECT_GT(masked, 0.8);
    ASSERT_TRUE(TrainGraph(two, samples, recipe, {}, 3, {}));
    EXPECT_EQ(Floats(one), Floats(two));
    const std::string checkpoint =
        (std::filesystem::temp_directory_path() / fmt::format("evoq_channels_{}.npz", ::getpid()))
            .string();
    TrainingHooks stop;
    stop.epoch = [](const EpochReport& report) -> Status {
      return report.epoch == 5 ? Fail(ErrorCode::kConditionFailed, "stopped") : Status();
    };
    Graph part = Net(1);
    EXPECT_FALSE(
        TrainGraph(part, samples, recipe, {.model = "m", .checkpoint = checkpoint}, 1, stop));
    const auto rest =
        TrainGraph(resumed, samples, recipe, {.model = "m", .resume = checkpoint}, 1, {});
    ASSERT_TRUE(rest) << rest.error().message();
    EXPECT_EQ(Floats(one), Floats(resumed));
    std::filesystem::remove(checkpoint);
  }
}

// Scores that observe training serve blocks as well.
TEST(Pruner, BlocksByMovementAndSecondOrder) {
  const LabelledSamples samples = Bars(160, 3);
  std::vector<std::vector<float>> results;
  for (const char* score : {"magnitude", "movement", "obd"}) {
    TrainingRecipe recipe = Recipe();
    recipe.prune_score = score;
    Graph graph = Net(3);
    const auto outcome = TrainGraph(graph, samples, recipe, {}, 2, {});
    ASSERT_TRUE(outcome) << outcome.error().message();
    EXPECT_NEAR(*outcome->epochs.back().sparsity, 0.75, 0.02) << score;
    results.push_back(Floats(graph));
  }
  EXPECT_NE(results[0], results[1]);
  EXPECT_NE(results[0], results[2]);
  EXPECT_NE(results[1], results[2]);
}

TEST(Pruner, Refuses) {
  const LabelledSamples samples = Bars(64, 1);
  const auto why = [&](TrainingRecipe recipe) {
    Graph graph = Net(1);
    return TrainGraph(graph, samples, recipe, {}, 1, {}).error().message();
  };
  TrainingRecipe recipe = Recipe();
  recipe.prune = "";
  EXPECT_EQ(why(recipe), "--sparsity 0.75: expected --prune");
  recipe.prune = kHoldZeros;
  EXPECT_EQ(why(recipe), "--sparsity 0.75: --prune zeros holds those that are there");
  recipe.prune = "channel";
  recipe.sparsity = 0.5;
  recipe.scheme = "int8";
  EXPECT_NE(why(recipe).find("not with --scheme int8"), std::string::npos);
  recipe.scheme = "";
  recipe.freeze = {"*"};
  EXPECT_FALSE(why(recipe).empty());
  recipe.freeze = {};
  recipe.prune = "block-1x16";
  recipe.freeze = {"*"};
  EXPECT_FALSE(why(recipe).empty());
}

}  // namespace
}  // namespace evoq
