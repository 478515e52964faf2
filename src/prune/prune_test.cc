#include "prune/prune.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/rows.h"

namespace evoq {
namespace {

Tensor Random(const Shape& shape, uint32_t seed, float scale = 1) {
  Tensor t = Tensor::Allocate(TensorType(DType::kFloat32, shape));
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  for (int64_t i = 0; i < t.elements(); ++i) t.mutable_data<float>()[i] = normal(random);
  return t;
}

// A convolution 8 -> 16 channels of 3 x 3, a depthwise one, one of 1 x 1 and a Gemm.
Graph Net() {
  Graph g;
  const ValueId x = g.AddInput("x", TensorType(DType::kFloat32, Shape{1, 8, 6, 6}));
  Attrs pads, depthwise, transposed;
  pads.Set("pads", std::vector<int64_t>{1, 1, 1, 1});
  depthwise.Set("group", AttrValue(int64_t{16}));
  transposed.Set("transB", AttrValue(int64_t{1}));
  const auto conv = [&](const char* name, ValueId in, Tensor w, const Attrs& attrs) {
    return g.Apply("Conv", name, {in, g.AddConstant(std::string(name) + ".w", std::move(w))},
                   attrs);
  };
  ValueId y = conv("first", x, Random(Shape{16, 8, 3, 3}, 1), pads);
  y = conv("depthwise", y, Random(Shape{16, 1, 1, 1}, 2), depthwise);
  y = conv("point", y, Random(Shape{20, 16, 1, 1}, 3, 4), {});
  y = g.Apply("Flatten", "flat", {g.Apply("GlobalAveragePool", "pool", {y})});
  y = g.Apply("Gemm", "fc", {y, g.AddConstant("fc.w", Random(Shape{12, 20}, 4))}, transposed);
  g.MarkOutput(y);
  return g;
}

const Tensor& WeightOf(const Graph& g, const std::string& node) {
  for (NodeId id : g.order()) {
    if (g.node(id).name == node) return g.value(g.node(id).inputs[1]).constant;
  }
  ADD_FAILURE() << node;
  return g.value(g.inputs()[0]).constant;
}

// The mean magnitude of a block of w[M, C, taps], by plain loops.
double Mean(const Tensor& w, int64_t m, int64_t c, int64_t tap, int64_t columns, int64_t depth) {
  const int64_t outputs = w.shape()[0].value, inputs = w.shape()[1].value,
                taps = w.elements() / (outputs * inputs);
  double sum = 0;
  int64_t count = 0;
  for (int64_t i = m; i < std::min(m + columns, outputs); ++i) {
    for (int64_t k = c; k < std::min(c + depth, inputs); ++k, ++count)
      sum += std::fabs(w.data<float>()[(i * inputs + k) * taps + tap]);
  }
  return sum / static_cast<double>(count);
}

// Blocks are whole, those that stay keep their numbers, and none of them is worth less than one
// that went.
TEST(Prune, BlocksOfTheLeastMagnitude) {
  struct Case {
    const char* pattern;
    int64_t columns, depth;
  };
  for (const Case& c : {Case{"block-4x4", 4, 4}, Case{"block-1x16", 1, 16}}) {
    const Graph before = Net();
    Graph after = Net();
    const auto report = PruneGraph(after, {.pattern = c.pattern, .sparsity = 0.75});
    ASSERT_TRUE(report) << report.error().message();
    for (const PrunedLayer& layer : report->layers) {
      SCOPED_TRACE(layer.node);
      const Tensor &w = WeightOf(before, layer.node), &p = WeightOf(after, layer.node);
      const int64_t outputs = w.shape()[0].value, inputs = w.shape()[1].value,
                    taps = w.elements() / (outputs * inputs);
      double least_kept = 1e30, most_gone = 0;
      int64_t kept = 0, all = 0;
      for (int64_t m = 0; m < outputs; m += c.columns) {
        for (int64_t k = 0; k < inputs; k += c.depth) {
          for (int64_t tap = 0; tap < taps; ++tap, ++all) {
            const double was = Mean(w, m, k, tap, c.columns, c.depth),
                         is = Mean(p, m, k, tap, c.columns, c.depth);
            EXPECT_TRUE(is == 0 || is == was) << m << " " << k << " " << tap;
            if (is == 0) most_gone = std::max(most_gone, was);
            if (is != 0) least_kept = std::min(least_kept, was);
            kept += is != 0 ? 1 : 0;
          }
        }
      }
      EXPECT_LE(most_gone, least_kept);
      EXPECT_EQ(layer.blocks, all);
      EXPECT_EQ(layer.kept, kept);
      EXPECT_NEAR(layer.sparsity(), 0.75,
                  8.0 / static_cast<double>(layer.weights));  // half a block
    }
  }
}

TEST(Prune, SaysWhatItLeaves) {
  Graph g = Net();
  const auto report = *PruneGraph(g, {});
  ASSERT_EQ(report.layers.size(), 3u);
  EXPECT_EQ(report.layers[0].node, "first");
  EXPECT_EQ(report.layers[0].weights, 16 * 8 * 9);
  EXPECT_EQ(report.layers[2].node, "fc");
  ASSERT_EQ(report.left.size(), 1u);
  EXPECT_EQ(report.left[0].first, "depthwise");
  EXPECT_EQ(report.left[0].second, "it has 16 groups, block-4x4 needs one");
  Graph named = Net();
  const auto one = *PruneGraph(named, {.pattern = "block-1x16", .layers = {"p*", "first"}});
  ASSERT_EQ(one.layers.size(), 1u);
  EXPECT_EQ(one.layers[0].node, "point");
  EXPECT_EQ(one.left[0].second, "16 x 8 channels, block-1x16 needs 1 x 16");
  EXPECT_EQ(one.left.back().second, "no --layers pattern names it");
}

TEST(Prune, TwoOfFourAndEachByItself) {
  Graph g = Net();
  ASSERT_TRUE(PruneGraph(g, {.pattern = "2:4"}));
  const Tensor& w = WeightOf(g, "point");
  const Graph before = Net();
  const Tensor& was = WeightOf(before, "point");
  for (int64_t i = 0; i < w.elements(); i += 4) {
    std::vector<float> kept, gone;
    for (int64_t k = i; k < i + 4; ++k)
      (w.data<float>()[k] != 0 ? kept : gone).push_back(std::fabs(was.data<float>()[k]));
    ASSERT_EQ(kept.size(), 2u);
    EXPECT_GT(*std::min_element(kept.begin(), kept.end()),
              *std::max_element(gone.begin(), gone.end()));
  }
  Graph each = Net();
  const auto report = *PruneGraph(each, {.pattern = "unstructured", .sparsity = 0.9});
  EXPECT_EQ(report.layers.size(), 4u);  // groups do not matter
  for (const PrunedLayer& layer : report.layers) {
    EXPECT_NEAR(layer.sparsity(), 0.9, 1.0 / static_cast<double>(layer.weights)) << layer.node;
  }
}

// All layers together: the one of large weights keeps more, and none loses all its blocks.
TEST(Prune, GlobalScope) {
  Graph g = Net();
  const auto report = *PruneGraph(g, {.sparsity = 0.9, .scope = "global"});
  EXPECT_NEAR(static_cast<double>(report.zeros) / static_cast<double>(report.weights), 0.9, 0.02);
  EXPECT_LT(report.layers[1].sparsity(), 0.8);  // "point", of four times the others' weights
  for (const PrunedLayer& layer : report.layers) EXPECT_GT(layer.kept, 0) << layer.node;
  // LAMP does not see the scale of a layer.
  Graph lamp = Net();
  const auto even = *PruneGraph(lamp, {.score = "lamp", .sparsity = 0.9, .scope = "global"});
  EXPECT_GT(even.layers[1].sparsity(), report.layers[1].sparsity());
}

TEST(Prune, Scores) {
  const std::vector<float> w = {3, -1, 0, 2, 2, 2};
  const std::vector<int32_t> block_of = {0, 0, 0, 1, 1, 1};
  const std::vector<int64_t> sizes = {3, 3};
  std::vector<double> s(2);
  FindRow(AllPruneScores(), "magnitude")->score({w, block_of, sizes, {}}, s);
  EXPECT_EQ(s, (std::vector<double>{4.0 / 3, 2}));
  FindRow(AllPruneScores(), "squares")->score({w, block_of, sizes, {}}, s);
  EXPECT_EQ(s, (std::vector<double>{10.0 / 3, 4}));
  FindRow(AllPruneScores(), "lamp")->score({w, block_of, sizes, {}}, s);
  EXPECT_DOUBLE_EQ(s[0], (10.0 / 3) / (10.0 / 3 + 4));
  EXPECT_EQ(s[1], 1);
  // Of gradients: - sum of w g, and half of w^2 times a mean of g^2 that keeps 0.99 of itself.
  const std::vector<float> g = {1, 2, 0, -1, 0, 0};
  std::vector<float> seen(6);
  const PruneScore& movement = *FindRow(AllPruneScores(), "movement");
  movement.observe(w, g, seen);
  movement.observe(w, g, seen);
  movement.score({w, block_of, sizes, seen}, s);
  EXPECT_FLOAT_EQ(static_cast<float>(s[0]), -2.0f * (3 - 2) / 3);
  EXPECT_FLOAT_EQ(static_cast<float>(s[1]), 2.0f * 2 / 3);
  std::fill(seen.begin(), seen.end(), 0.0f);
  const PruneScore& obd = *FindRow(AllPruneScores(), "obd");
  obd.observe(w, g, seen);
  obd.observe(w, g, seen);
  obd.score({w, block_of, sizes, seen}, s);
  const float mean = 0.01f + 0.99f * 0.01f;
  EXPECT_NEAR(s[0], mean * (9 * 1 + 1 * 4) / 2 / 3, 1e-6);
  EXPECT_NEAR(s[1], mean * 4 * 1 / 2 / 3, 1e-6);
}

// Pruned once more, the same blocks go: those that are 0 first.
TEST(Prune, AgainChangesNothing) {
  Graph g = Net();
  const auto first = *PruneGraph(g, {});
  const auto values = [&] {
    const auto w = WeightOf(g, "first").values<float>();
    return std::vector<float>(w.begin(), w.end());
  };
  const std::vector<float> once = values();
  const auto second = *PruneGraph(g, {});
  EXPECT_EQ(second.zeros, first.zeros);
  EXPECT_EQ(second.layers[0].zeros_before, first.layers[0].zeros);
  EXPECT_EQ(values(), once);
}

TEST(Prune, Refuses) {
  const auto why = [](const PruneOptions& options) {
    Graph g = Net();
    return PruneGraph(g, options).error().message();
  };
  EXPECT_EQ(why({.pattern = "8x8"}),
            "--pattern 8x8: expected one of block-4x4, block-1x16, 2:4, unstructured, channel");
  EXPECT_EQ(why({.score = "best"}),
            "--score best: expected one of magnitude, lamp, movement, obd, squares");
  EXPECT_EQ(why({.score = "obd"}),
            "--score obd: its gradients come from training: evoq train --prune block-4x4 "
            "--prune-score obd");
  EXPECT_EQ(why({.multiple = 4}), "--multiple 4: expected --pattern channel");
  EXPECT_EQ(why({.multiple = 4, .trains = true}), "--prune-multiple 4: expected --prune channel");
  EXPECT_EQ(why({.scope = "all", .trains = true}), "--prune-scope all: expected layer or global");
  EXPECT_EQ(why({.pattern = "8x8", .trains = true}),
            "--prune 8x8: expected one of block-4x4, block-1x16, 2:4, unstructured, channel");
  for (const double sparsity : {0.0, 1.0, -1.0, std::nan("")})
    EXPECT_NE(why({.sparsity = sparsity}).find("expected a share between 0 and 1"),
              std::string::npos);
  EXPECT_EQ(why({.pattern = "2:4", .sparsity = 0.75}),
            "--sparsity 0.75: expected 0.5, the share of 2:4");
  EXPECT_EQ(why({.scope = "all"}), "--scope all: expected layer or global");
  EXPECT_EQ(why({.layers = {"nothing"}}), "--layers nothing: no product has such a name");
  EXPECT_NE(why({.layers = {"depthwise"}}).find("no product fits"), std::string::npos);
}

}  // namespace
}  // namespace evoq
