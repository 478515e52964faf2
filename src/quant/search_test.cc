#include "quant/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace evoq {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Float32, an integer form and bfloat16; a chain with a few links across it.
CostModel RandomModel(int layers, uint32_t seed) {
  std::mt19937 random(seed);
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random() >> 8) / (1 << 24);
  };
  CostModel model;
  model.forms = {0, 1, 2};
  model.convert_ms = {{0, 0.1, 0.15}, {0.1, 0, 0.2}, {0.15, 0.2, 0}};
  for (int i = 0; i < layers; ++i) {
    const double ms = uniform(0.2, 2);
    // Some layers do not gain, one in eight does not exist as integers.
    model.layers.push_back(
        {{ms, random() % 8 == 0 ? kNever : ms * uniform(0.25, 1.3), ms * uniform(0.5, 1.2)},
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
  EXPECT_EQ(model.Ms({1, 0, 0}),
            1 + 3 + 2 + 2 * 0.5 + 4 * 0.25);  // two readers share one conversion
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
      EXPECT_LE(model.Ms(*found), 1.05 * ExhaustiveMs(model, limit))
          << "seed " << seed << ", share " << share;
      EXPECT_LE(calls, 60);
    }
  }
}

TEST(Search, FloatWhereNothingHolds) {
  const CostModel model = RandomModel(7, 3);
  const auto found =
      FastestThatHolds(model, 1000, [](const Assignment&) -> Result<bool> { return false; });
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, Assignment(7, 0));
}

TEST(Search, ErrorsOfTheJudgePassThrough) {
  const auto found = FastestThatHolds(RandomModel(5, 1), 5, [](const Assignment&) -> Result<bool> {
    return InvalidInput("no data");
  });
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message(), "no data");
}

TEST(Search, WithoutTriesItStaysFloat) {
  const auto found = FastestThatHolds(RandomModel(5, 1), 0,
                                      [](const Assignment&) -> Result<bool> { return true; });
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, Assignment(5, 0));
}

// Each form that readers take is made once; schemes of one form need no conversion.
TEST(Search, ValuesAreConvertedOnceForEachForm) {
  CostModel model;
  model.forms = {0, 1, 2, 1};
  model.convert_ms = {{7, 1, 10}, {100, 7, 1000}, {1e4, 1e5, 7}};  // the diagonal is not used
  model.layers.assign(5, {{0, 0, 0, 0}, {0, 0, 0, 0}});
  model.links = {{0, {1, 2, 3, 4}, 2}};
  EXPECT_EQ(model.Ms({0, 1, 2, 3, 2}), 2 * (1 + 10));
  EXPECT_EQ(model.Ms({1, 0, 2, 3, 0}), 2 * (100 + 1000));
  EXPECT_EQ(model.Ms({2, 0, 1, 2, 3}), 2 * (1e4 + 1e5));
  EXPECT_EQ(model.Ms({3, 1, 3, 1, 3}), 0);
  model.links = {{-1, {0, -1, 1}, 3}, {2, {-1, 3}, 5}};
  EXPECT_EQ(model.Ms({2, 2, 2, 2, 0}), 3 * 10 + 5 * 1e4);
}

// Where links are free, each layer has the scheme that is cheapest for it alone.
TEST(Search, ExactWhereLinksAreFree) {
  for (const double weight : {0.0, 0.25, 0.75, 4.0}) {
    CostModel model = RandomModel(40, 7);
    model.links.clear();
    Assignment wanted;
    for (const CostModel::Layer& layer : model.layers) {
      int best = 0;
      for (int s : {1, 2}) {
        if (layer.ms[s] + weight * layer.noise[s] < layer.ms[best] + weight * layer.noise[best])
          best = s;
      }
      wanted.push_back(best);
    }
    EXPECT_EQ(Cheapest(model, weight), wanted) << weight;
  }
}

// Appends layers t, p, t, p, t: the three t are tied together by conversions and gain 1 ms each by
// one scheme, the two p are tied and gain 1.5 ms each by the other, `scheme_of_p`. So the uniform
// plans take equally long (8 ms), a run of layers cuts a tie or gains nothing, and only a change of
// both p at once gains (3 ms).
void AddKnot(CostModel& model, int scheme_of_p, Assignment& wanted) {
  const int t = static_cast<int>(model.layers.size());
  for (int i = 0; i < 5; ++i) {
    wanted.push_back(i % 2 == 1 ? scheme_of_p : 1 - scheme_of_p);
    model.layers.push_back({{1, 1}, {0, 0}});
    model.layers.back().ms[1 - wanted.back()] += i % 2 == 1 ? 1.5 : 1;
  }
  model.links.push_back({t, {t + 2, t + 4}, 10});
  model.links.push_back({t + 1, {t + 3}, 10});
}

TEST(Search, TwoLayersAtOnceInSmallNetworks) {
  for (const int scheme_of_p : {0, 1}) {
    for (const size_t layers : {10u, 32u, 33u}) {
      CostModel model;
      model.forms = {0, 1};
      model.convert_ms = {{0, 1}, {1, 0}};
      // Others before them, without ties, that are faster as float32.
      Assignment wanted(layers - 10, 0);
      model.layers.assign(layers - 10, {{1, 2}, {0, 0}});
      for (int knot = 0; knot < 2; ++knot) AddKnot(model, scheme_of_p, wanted);
      const Assignment found = Cheapest(model, 0);
      EXPECT_EQ(found == wanted, layers <= 32) << scheme_of_p << ", " << layers;
      EXPECT_EQ(model.Ms(found), static_cast<double>(layers) + (layers <= 32 ? 0 : 6));
      // Told to stop at once, no pair is tried either.
      const double stopped = model.Ms(Cheapest(model, 0, [] { return true; }));
      EXPECT_EQ(stopped, static_cast<double>(layers) + 6);
    }
  }
}

// A uniform start has float32 where its scheme does not exist, and keeps it elsewhere.
TEST(Search, StartsWithoutSchemesThatDoNotExist) {
  CostModel model;
  model.forms = {0, 1};
  model.convert_ms = {{0, 1}, {1, 0}};
  Assignment wanted = {0};
  model.layers = {{{1, kNever}, {0, 0}}};
  AddKnot(model, 0, wanted);
  model.layers.push_back({{1, kNever}, {0, 0}});
  wanted.push_back(0);
  EXPECT_EQ(Cheapest(model, 0), wanted);
}

// All layers gain alike, and only a plan with layers 0 and the last holds: 32 layers are few enough
// to ask for all pairs.
TEST(Search, PlansOfTwoLayersInSmallNetworks) {
  for (const size_t layers : {31u, 32u, 33u}) {
    CostModel model;
    model.forms = {0, 0};
    model.layers.assign(layers, {{10, 5}, {0, 1}});
    Assignment pair(layers, 0);
    pair.front() = pair.back() = 1;
    const auto found = FastestThatHolds(
        model, 10000, [&](const Assignment& a) -> Result<bool> { return a == pair; });
    ASSERT_TRUE(found);
    EXPECT_EQ(*found, layers <= 32 ? pair : Assignment(layers, 0)) << layers;
  }
}

// Gains 2.1, 1.9 and 100 of 1000 ms for a noise of 0.2, 0.1 and 50. The fastest plan is asked for;
// at the weight where its time and noise are worth the same (896 / 50.3 = 17.8) layer 1 alone
// gains (1.9 > 17.8 * 0.1), at larger ones nothing. Then changes of one and two layers by noise per
// ms, if they gain more than 0.2%: 0.3 / 4, 0.2 / 2.1, 50.1 / 101.9, 50.2 / 102.1, 50 / 100.
TEST(Search, PlansAreAskedForOnceAndInOrder) {
  CostModel model;
  model.forms = {0, 0};
  model.convert_ms = {{0}};
  model.layers = {{{500, 497.9}, {0, 0.2}}, {{300, 298.1}, {0, 0.1}}, {{200, 100}, {0, 50}}};
  const std::vector<Assignment> wanted = {{1, 1, 1}, {0, 1, 0}, {1, 1, 0}, {1, 0, 0},
                                          {0, 1, 1}, {1, 0, 1}, {0, 0, 1}};
  std::vector<Assignment> asked;
  size_t most = 1000;
  const auto search = [&](int tries, const std::vector<Assignment>& good) {
    asked.clear();
    const auto holds = [&](const Assignment& a) -> Result<bool> {
      asked.push_back(a);
      return std::find(good.begin(), good.end(), a) != good.end();
    };
    return FastestThatHolds(model, tries, holds, [&] { return asked.size() >= most; }).value();
  };
  for (size_t tries : {0u, 1u, 2u, 3u, 6u, 7u, 8u, 100u}) {
    EXPECT_EQ(search(static_cast<int>(tries), {}), Assignment(3, 0));
    const size_t calls = std::min(tries, wanted.size());
    EXPECT_EQ(asked, std::vector(wanted.begin(), wanted.begin() + calls)) << tries;
  }
  EXPECT_EQ(search(100, {{1, 1, 1}}), Assignment({1, 1, 1}));
  EXPECT_EQ(asked.size(), 1u);
  EXPECT_EQ(search(100, {{1, 0, 0}}), Assignment({1, 0, 0}));
  EXPECT_EQ(search(100, {{1, 0, 0}, {1, 0, 1}}), Assignment({1, 0, 1})) << "one move after another";
  // From a plan that holds to a better one by giving a layer back.
  EXPECT_EQ(search(100, {{0, 1, 0}, {0, 0, 1}}), Assignment({0, 0, 1}));
  EXPECT_EQ(search(100, {{0, 1, 0}, {1, 1, 0}, {1, 0, 1}}), Assignment({1, 0, 1}));
  // No plan is asked for after the word to stop.
  for (most = 1; most <= wanted.size(); ++most) {
    search(100, {});
    EXPECT_EQ(asked.size(), most);
  }
}

// The unit of the noise does not matter.
TEST(Search, NoiseMayHaveAnyUnit) {
  CostModel model = RandomModel(40, 11);
  const auto search = [&] {
    const double limit = 0.2 * model.Noise(Cheapest(model, 0));
    return FastestThatHolds(
               model, 12,
               [&](const Assignment& a) -> Result<bool> { return model.Noise(a) <= limit; })
        .value();
  };
  const Assignment found = search();
  EXPECT_LT(model.Ms(found), 0.97 * model.Ms(Assignment(40, 0)));
  for (CostModel::Layer& layer : model.layers) {
    for (double& noise : layer.noise) noise *= 0x1p40;
  }
  EXPECT_EQ(search(), found);
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
