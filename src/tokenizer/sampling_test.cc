#include "tokenizer/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

namespace evoq {
namespace {

Sampler Made(const SamplingOptions& options) {
  auto sampler = Sampler::Make(options);
  EXPECT_TRUE(sampler) << sampler.error().message();
  return *sampler;
}

// How often each piece comes in `n` draws.
std::map<int64_t, int> Counts(const SamplingOptions& options, const std::vector<float>& logits,
                              int n, std::span<const int64_t> recent = {}) {
  Sampler sampler = Made(options);
  std::map<int64_t, int> counts;
  for (int i = 0; i < n; ++i) ++counts[*sampler.Next(logits, {.recent = recent})];
  return counts;
}

// ln of 0.5, 0.25, 0.125, 0.125, as they come
const std::vector<float> kLogits = {std::log(0.125f), std::log(0.5f), std::log(0.125f),
                                    std::log(0.25f)};

TEST(Sampling, RandomBitsAreSplitMix64) {
  // The generator's published numbers of the seed 1234567.
  EXPECT_EQ(RandomBits(1234567, 0), 6457827717110365317u);
  EXPECT_EQ(RandomBits(1234567, 1), 3203168211198807973u);
  EXPECT_EQ(RandomBits(1234567, 2), 9817491932198370423u);
}

TEST(Sampling, GreedyIsTheFirstLargest) {
  Sampler sampler = Made({});
  EXPECT_EQ(*sampler.Next(std::vector<float>{1, 3, 3, 2}), 1);
  EXPECT_EQ(*sampler.Next(std::vector<float>{-INFINITY, -5}), 1);
  // Also where few are kept.
  EXPECT_EQ(Counts({.temperature = 1, .top_k = 1}, {1, 3, 3, 2}, 50).size(), 1);
  EXPECT_EQ(Counts({.temperature = 1, .top_p = 0}, {1, 3, 3, 2}, 50),
            (std::map<int64_t, int>{{1, 50}}));
}

TEST(Sampling, OnlyWhatIsAllowed) {
  std::vector<float> logits(130, 1);
  logits[0] = 9, logits[129] = 8;
  const std::vector<uint64_t> allowed = {uint64_t{1} << 63, 0b10, 0};
  Sampler greedy = Made({});
  EXPECT_EQ(*greedy.Next(logits, {.allowed = allowed}), 63);
  EXPECT_EQ(*greedy.Next(logits, {.allowed = std::vector<uint64_t>{0, 0, 0b10}}), 129);
  Sampler sampler = Made({.temperature = 5});
  std::map<int64_t, int> counts;
  for (int i = 0; i < 100; ++i) ++counts[*sampler.Next(logits, {.allowed = allowed})];
  EXPECT_EQ(counts.size(), 2);
  EXPECT_EQ(counts[63] + counts[65], 100);
  // Pieces behind the last bit are not allowed.
  EXPECT_FALSE(greedy.Next(logits, {.allowed = std::vector<uint64_t>{0}}));
}

// Weights are made several at a time: none of the last few is left out or counts twice.
TEST(Sampling, DrawsFromAnyNumberOfPieces) {
  for (const size_t pieces : {1, 7, 8, 9, 19}) {
    const std::vector<float> logits(pieces, -3);
    const auto counts =
        Counts({.temperature = 1, .seed = 3}, logits, 2000 * static_cast<int>(pieces));
    ASSERT_EQ(counts.size(), pieces);
    for (const auto& [piece, count] : counts) EXPECT_NEAR(count, 2000, 225) << pieces;  // 5 sigma
  }
}

TEST(Sampling, DrawsByProbability) {
  const auto counts = Counts({.temperature = 1, .seed = 7}, kLogits, 80000);
  // 5 standard deviations of a count are under 700.
  EXPECT_NEAR(counts.at(1), 40000, 700);
  EXPECT_NEAR(counts.at(3), 20000, 700);
  EXPECT_NEAR(counts.at(0), 10000, 700);
  EXPECT_NEAR(counts.at(2), 10000, 700);
  // p^2 of temperature 1/2: 16, 4, 1, 1 of 22
  const auto sharp = Counts({.temperature = 0.5, .seed = 7}, kLogits, 22000);
  EXPECT_NEAR(sharp.at(1), 16000, 330);
  EXPECT_NEAR(sharp.at(3), 4000, 330);
}

TEST(Sampling, KeepsTheLikeliest) {
  const auto kept = [](const SamplingOptions& options) {
    std::vector<int64_t> ids;
    for (const auto& [id, count] : Counts(options, kLogits, 3000)) ids.push_back(id);
    return ids;
  };
  using Ids = std::vector<int64_t>;
  EXPECT_EQ(kept({.temperature = 1}), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(kept({.temperature = 1, .top_k = 2}), (Ids{1, 3}));
  EXPECT_EQ(kept({.temperature = 1, .top_k = 3}), (Ids{0, 1, 3}));  // of equals the first
  EXPECT_EQ(kept({.temperature = 1, .top_k = 99}), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(kept({.temperature = 1, .top_p = 0.4}), (Ids{1}));
  EXPECT_EQ(kept({.temperature = 1, .top_p = 0.6}), (Ids{1, 3}));
  EXPECT_EQ(kept({.temperature = 1, .top_p = 0.8}), (Ids{0, 1, 3}));
  // Of the two that top_k keeps, the first has 2/3.
  EXPECT_EQ(kept({.temperature = 1, .top_k = 2, .top_p = 0.6}), (Ids{1}));
  EXPECT_EQ(kept({.temperature = 1, .min_p = 0.4}), (Ids{1, 3}));
  EXPECT_EQ(kept({.temperature = 1, .min_p = 1}), (Ids{1}));
  EXPECT_EQ(Counts({.temperature = 1, .min_p = 1}, {1, 3, 3, 2}, 50).size(), 2) << "equal shares";
  // A millionth above the least share, and below.
  for (const float above : {1e-6f, -1e-6f})
    EXPECT_EQ(Counts({.temperature = 1, .min_p = 0.5}, {0, std::log(0.5f) + above}, 50).size(),
              above > 0 ? 2 : 1);
  // Twice the temperature: a quarter becomes a half of the largest's square root.
  EXPECT_EQ(kept({.temperature = 2, .min_p = 0.6}), (Ids{1, 3}));
}

TEST(Sampling, RepeatPenalty) {
  Sampler sampler = Made({.repeat_penalty = 2});
  const std::vector<float> logits = {4, 3, -1, -1.5f};
  EXPECT_EQ(*sampler.Next(logits), 0);
  const auto next = [&](const std::vector<float>& of, const std::vector<int64_t>& recent) {
    return *sampler.Next(of, {.recent = recent});
  };
  EXPECT_EQ(next(logits, {0}), 1);
  EXPECT_EQ(next(logits, {0, 1, 0, 0}), 0);  // once: 2 and 1.5
  EXPECT_EQ(next({-2, -1, -1.5f}, {1, -7, 99}), 2);
}

TEST(Sampling, OtherWeights) {
  const std::vector<float> logits = {4, 3.5f, 3, -1};
  const auto next = [&](const SamplingOptions& options, const PiecesBefore& before) {
    Sampler sampler = Made(options);
    return *sampler.Next(logits, before);
  };
  const std::vector<int64_t> written = {0, 0, 1, 99}, banned = {0, 1, -1};
  EXPECT_EQ(next({.presence_penalty = 1.25}, {.written = written}), 2);
  EXPECT_EQ(next({.presence_penalty = 0.75}, {.written = written}), 0) << "once for both times";
  EXPECT_EQ(next({.frequency_penalty = 0.3}, {.written = written}), 0);
  EXPECT_EQ(next({.frequency_penalty = 0.6}, {.written = written}), 2) << "2.8, 2.9 and 3";
  EXPECT_EQ(next({.presence_penalty = -1}, {.written = std::span(written).subspan(2)}), 1);
  EXPECT_EQ(next({.presence_penalty = 2}, {.recent = written}), 0) << "of the text alone";
  EXPECT_EQ(next({.logit_bias = {{3, 5.5}, {7, 100}}}, {}), 3);
  EXPECT_EQ(next({.logit_bias = {{0, -100}}}, {}), 1);
  EXPECT_EQ(next({}, {.banned = banned}), 2);
  for (uint64_t seed = 0; seed < 50; ++seed)
    EXPECT_GE(next({.temperature = 5, .seed = seed}, {.banned = banned}), 2);
}

// The definition, by sorting and in long double, over random logits.
TEST(Sampling, IsItsDefinition) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 3);
  for (int round = 0; round < 600; ++round) {
    // Few pieces, many of which few count, and many of equal ones.
    const bool many = round >= 300, flat = round >= 450;
    std::vector<float> logits(1 + random() % (many ? 3000 : 40));
    for (float& logit : logits)
      logit = flat ? std::round(normal(random)) / 4 : normal(random) * (many ? 5 : 1);
    const SamplingOptions o = {.temperature = 0.3 + 0.1 * (round % 20),
                               .top_k = static_cast<int64_t>(
                                   many && random() % 2 == 0 ? random() % 2 * 1500 : random() % 12),
                               .top_p = round % 3 == 0 ? 1 : 0.5 + 0.05 * (round % 11),
                               .min_p = (flat   ? 0.02
                                         : many ? 0.0002
                                                : 0.02) *
                                        (round % 5),
                               .seed = random()};
    std::vector<std::pair<long double, int64_t>> order;
    for (size_t i = 0; i < logits.size(); ++i)
      order.emplace_back(-static_cast<long double>(logits[i]), i);
    std::sort(order.begin(), order.end());
    if (o.top_k > 0 && order.size() > o.top_k) order.resize(o.top_k);
    long double total = 0, sum = 0;
    std::vector<long double> weights;
    for (const auto& [logit, id] : order)
      weights.push_back(std::exp((order[0].first - logit) / o.temperature));
    for (const long double w : weights) total += w;
    size_t kept = 0;
    for (; kept < weights.size(); ++kept) {
      if ((kept > 0 && sum >= o.top_p * total) || weights[kept] < o.min_p) break;
      sum += weights[kept];
    }
    Sampler sampler = Made(o);
    for (uint64_t draw = 0; draw < 20; ++draw) {
      const long double u = static_cast<long double>(RandomBits(o.seed, draw) >> 11) / 0x1p53L;
      long double reached = 0;
      size_t i = 0;
      for (; i + 1 < kept; ++i) {
        reached += weights[i];
        if (reached > u * sum) break;
      }
      ASSERT_EQ(*sampler.Next(logits), order[i].second) << round << " " << draw;
    }
  }
}

TEST(Sampling, Refuses) {
  const auto usage = [](const SamplingOptions& o) { return Sampler::Make(o).error().message(); };
  EXPECT_EQ(usage({.temperature = -1}), "temperature -1: expected 0 to 1000");
  EXPECT_EQ(usage({.temperature = NAN}), "temperature nan: expected 0 to 1000");
  EXPECT_EQ(usage({.top_k = -1}), "top_k -1: expected 0 or more");
  EXPECT_EQ(usage({.top_p = 1.5}), "top_p 1.5: expected 0 to 1");
  EXPECT_EQ(usage({.min_p = -0.5}), "min_p -0.5: expected 0 to 1");
  EXPECT_EQ(usage({.repeat_penalty = 0}), "repeat_penalty 0: expected 0.01 to 100");
  EXPECT_EQ(usage({.presence_penalty = NAN}), "presence_penalty nan: expected -100 to 100");
  EXPECT_EQ(usage({.frequency_penalty = 101}), "frequency_penalty 101: expected -100 to 100");
  EXPECT_EQ(usage({.logit_bias = {{1, INFINITY}}}), "logit_bias inf: expected -1000 to 1000");
  Sampler sampler = Made({});
  EXPECT_EQ(sampler.Next(std::vector<float>{0, NAN}).error().message(),
            "logit 1 is nan, expected a number");
  EXPECT_EQ(sampler.Next(std::vector<float>{INFINITY}).error().message(),
            "logit 0 is inf, expected a number");
  EXPECT_EQ(sampler.Next({}).error().message(), "none of 0 logits is a finite number");
  EXPECT_EQ(sampler.Next(std::vector<float>{-INFINITY}).error().message(),
            "none of 1 logits is a finite number");
}

}  // namespace
}  // namespace evoq
