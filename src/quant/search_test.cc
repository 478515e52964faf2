#include "quant/search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace evoq {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Float32, an integer form and bfloat16; a chain with a few links across it.
CostModel RandomModel(int layers, uint32_t seed) {
  std::mt19937 random(seed);
  const auto uniform = [&](double low, double high) { return low + (high - low) * static_cast<double>(random() >> 8) / (1 << 24); };
  CostModel model;
  model.forms = {0, 1, 2};
  model.convert_ms = {{0, 0.1, 0.15}, {0.1, 0, 0.2}, {0.15, 0.2, 0}};
  for (int i = 0; i < layers; ++i) {
    const double ms = uniform(0.2, 2);
    // Some layers do not gain, one in eight does not exist as integers.
    model.layers.push_back({{ms, random() % 8 == 0 ? kNever : ms * uniform(0.25, 1.3), ms * uniform(0.5, 1.2)},
                            {0, std::exp(uniform(-4, 2)), std::exp(uniform(-8, -4))}});
    model.links.push_back({i - 1, {i}, uniform(0.1, 2)});
    if (i > 2 && random() % 3 == 0) model.links.push_back({i - 3, {i}, uniform(0.1, 2)});
  }
  model.links.push_back({layers - 1, {-1}, 0.1});
  return model;
}

// The fastest of all assignments whose noise is within the limit.
double ExhaustiveMs(const CostModel& model, double limit) {
  Assignment a(model.layers.size(), 0);
  double best = kNever;
  for (;;) {
    if (model.Noise(a) <= limit) best = std::min(best, model.Ms(a));
    size_t i = 0;
    while (i < a.size() && ++a[i] == model.schemes()) a[i++] = 0;
    if (i == a.size()) return best;
  }
}

TEST(Search, CostsAreTheSumOfLayersAndConversions) {
  CostModel model;
  model.forms = {0, 1};
  model.convert_ms = {{0, 0.5}, {0.25, 0}};
  model.layers = {{{4, 1}, {0, 2}}, {{3, 1}, {0, 3}}, {{2, 1}, {0, 5}}};
  model.links = {{-1, {0}, 2}, {0, {1, 2}, 4}, {1, {2}, 1}, {2, {-1}, 1}};
  EXPECT_EQ(model.Ms({0, 0, 0}), 9);
  EXPECT_EQ(model.Ms({1, 1, 1}), 3 + 2 * 0.5 + 0.25);
  EXPECT_EQ(model.Ms({1, 0, 0}), 1 + 3 + 2 + 2 * 0.5 + 4 * 0.25);  // two readers share one conversion
  EXPECT_EQ(model.Ms({0, 1, 1}), 4 + 1 + 1 + 4 * 0.5 + 0.25);
  EXPECT_EQ(model.Noise({1, 0, 1}), 7);
  EXPECT_EQ(Cheapest(model, 0), Assignment({1, 1, 1}));
  EXPECT_EQ(Cheapest(model, 1e6), Assignment({0, 0, 0}));
}

TEST(Search, UnconstrainedIsNearTheBestOfAll) {
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    const CostModel model = RandomModel(9, seed);
    EXPECT_LE(model.Ms(Cheapest(model, 0)), 1.01 * ExhaustiveMs(model, kNever)) << "seed " << seed;
  }
}

TEST(Search, WithinFivePercentOfTheBestThatHolds) {
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    const CostModel model = RandomModel(9, seed);
    for (double share : {0.02, 0.2, 0.6}) {
      const double limit = share * model.Noise(Cheapest(model, 0));
      int calls = 0;
      const auto found = FastestThatHolds(model, 60, [&](const Assignment& a) -> Result<bool> {
        ++calls;
        return model.Noise(a) <= limit;
      });
      ASSERT_TRUE(found);
      EXPECT_LE(model.Noise(*found), limit);
      EXPECT_LE(model.Ms(*found), 1.05 * ExhaustiveMs(model, limit)) << "seed " << seed << ", share " << share;
      EXPECT_LE(calls, 60);
    }
  }
}

TEST(Search, FloatWhereNothingHolds) {
  const CostModel model = RandomModel(7, 3);
  const auto found = FastestThatHolds(model, 1000, [](const Assignment&) -> Result<bool> { return false; });
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, Assignment(7, 0));
}

TEST(Search, ErrorsOfTheJudgePassThrough) {
  const auto found = FastestThatHolds(RandomModel(5, 1), 5, [](const Assignment&) -> Result<bool> { return InvalidInput("no data"); });
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message(), "no data");
}

TEST(Search, WithoutTriesItStaysFloat) {
  const auto found = FastestThatHolds(RandomModel(5, 1), 0, [](const Assignment&) -> Result<bool> { return true; });
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, Assignment(5, 0));
}

TEST(Search, StopsWhereItIsTold) {
  const CostModel model = RandomModel(40, 3);
  int asked = 0, judged = 0;
  const auto stop_after = [&](int looks) { return [&asked, looks] { return ++asked > looks; }; };
  const auto never = [&](const Assignment&) -> Result<bool> {
    ++judged;
    return false;
  };
  // Every look is followed by little: a descent asks before each layer, the search before each plan
  // that it wants judged.
  for (int looks : {0, 1, 50, 200}) {
    asked = judged = 0;
    const Assignment a = Cheapest(model, 0, stop_after(looks));
    EXPECT_EQ(a.size(), 40u);
    EXPECT_LE(asked, looks + 2 * model.schemes()) << "each scheme's descent hears of it at once";
    asked = judged = 0;
    const auto found = FastestThatHolds(model, 1000, never, stop_after(looks));
    ASSERT_TRUE(found.has_value());
    EXPECT_LE(judged, 1) << "40 layers take more than 200 looks to descend";
    EXPECT_EQ(*found, Assignment(40, 0));
  }
  asked = 0;
  EXPECT_EQ(Cheapest(model, 0, stop_after(1 << 30)), Cheapest(model, 0));
}

}  // namespace
}  // namespace evoq
