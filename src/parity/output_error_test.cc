#include "parity/output_error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace evoq {
namespace {

using Labels = std::vector<std::optional<int64_t>>;

Tensor Floats(const Shape& shape, const std::vector<float>& values) {
  return Tensor::FromValues<float>(shape, values);
}
Tensor Row(const std::vector<float>& values) {
  return Floats(Shape{1, static_cast<int64_t>(values.size())}, values);
}

// One sample.
OutputError Of(const std::vector<Tensor>& right, const std::vector<Tensor>& got, bool scores,
               Metric metric = Metric::kSqnr, std::optional<int64_t> label = {},
               const std::vector<int64_t>& next = {}) {
  OutputErrors errors(metric, scores);
  const Status added = errors.Add(right, got, Labels{label}, next);
  EXPECT_TRUE(added) << added.error().message();
  return errors.Mean();
}

TEST(OutputError, KlOfScoresByHand) {
  // softmax: (1, 2, 1) / 4 and (1, 1, 2) / 4; the second by scores that are all 5 larger.
  const float two = std::log(2.0f);
  const OutputError e = Of({Row({0, two, 0})}, {Row({5, 5, 5 + two})}, true);
  EXPECT_NEAR(*e.kl, 0.25 * std::log(2.0), 1e-6);  // 1/2 ln 2 - 1/4 ln 2
  // Probabilities are taken as they are; of 0 as of 1e-9.
  EXPECT_NEAR(*Of({Row({0.5f, 0.5f, 0})}, {Row({0.25f, 0.5f, 0.25f})}, true).kl,
              0.5 * std::log(2.0), 1e-6);
  EXPECT_NEAR(*Of({Row({0.5f, 0.5f})}, {Row({1, 0})}, true).kl,
              0.5 * std::log(0.5) + 0.5 * std::log(0.5 / 1e-9), 1e-6);
  EXPECT_EQ(*Of({Row({1, 2, 3})}, {Row({1, 2, 3})}, true).kl, 0);
  EXPECT_FALSE(Of({Row({1, 2, 3})}, {Row({1, 2, 4})}, false).kl);
}

TEST(OutputError, WorstOutputAndTheSumOfNoise) {
  const std::vector<Tensor> right = {Row({3, 4}), Row({1, 0})};
  const OutputError e = Of(right, {Row({3, 5}), Row({1, 0.5f})}, false);
  EXPECT_DOUBLE_EQ(e.sqnr_db, 10 * std::log10(4.0));  // 1 / 0.25 is less than 25 / 1
  EXPECT_DOUBLE_EQ(e.cosine, 1 / std::sqrt(1.25));
  EXPECT_DOUBLE_EQ(e.noise, 1.0 / 25 + 0.25);
  const OutputError exact = Of(right, right, false);
  EXPECT_TRUE(std::isinf(exact.sqnr_db) && exact.sqnr_db > 0);
  EXPECT_EQ(exact.cosine, 1);
  EXPECT_EQ(exact.noise, 0);
  EXPECT_EQ(Of({Row({1})}, {Row({std::numeric_limits<float>::quiet_NaN()})}, false).sqnr_db, -1000);
}

TEST(OutputError, Metrics) {
  OutputErrors top1(Metric::kTop1, true), agreement(Metric::kAgreement, true);
  const std::vector<Tensor> right = {Row({1, 2, 3})};
  for (const auto& [got, label] : std::vector<std::pair<Tensor, int64_t>>{
           {Row({1, 2, 3}), 2}, {Row({1, 4, 3}), 1}, {Row({4, 2, 3}), 2}, {Row({1, 2, 5}), 0}}) {
    ASSERT_TRUE(top1.Add(right, std::span(&got, 1), Labels{label}, {}));
    ASSERT_TRUE(agreement.Add(right, std::span(&got, 1), Labels{label}, {}));
  }
  EXPECT_EQ(*top1.Mean().metric, 0.5);
  EXPECT_EQ(*agreement.Mean().metric, 0.5);
  ASSERT_TRUE(top1.Add(right, right, {}, {}));  // without a label it does not count
  ASSERT_TRUE(agreement.Add(right, right, {}, {}));
  EXPECT_EQ(*top1.Mean().metric, 0.5);
  EXPECT_EQ(*agreement.Mean().metric, 0.6);
  EXPECT_FALSE(Of(right, right, true).metric);
}

TEST(OutputError, PerplexityOfAText) {
  // Two tokens of a text of two pieces: probabilities 3/4 and 1/2 of what follows.
  const Tensor right = Floats(Shape{1, 2, 2}, {0, 0, 0, 0});
  const Tensor got = Floats(Shape{1, 2, 2}, {0, std::log(3.0f), 1, 1});
  const OutputError e = Of({right}, {got}, true, Metric::kPerplexity, {}, {1, 0});
  EXPECT_NEAR(*e.metric, 1 / std::sqrt(0.75 * 0.5), 1e-6);
  // Of the first token half of ln (1/2 / 1/4) and of ln (1/2 / 3/4); of the second nothing.
  EXPECT_NEAR(*e.kl, 0.5 * (0.5 * std::log(2.0) + 0.5 * std::log(2.0 / 3)), 1e-6);
}

TEST(OutputError, WhatDoesNotFit) {
  OutputErrors errors(Metric::kTop1, true);
  const std::vector<Tensor> two = {Row({1, 2})}, three = {Row({1, 2, 3})};
  for (const Status& status :
       {errors.Add(two, three, Labels{0}, {}), errors.Add(two, {}, Labels{0}, {}),
        errors.Add(two, two, Labels{2}, {}), errors.Add(two, two, Labels{-1}, {})}) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), ErrorCode::kInvalidInput);
  }
  const std::vector<int64_t> next = {2};
  EXPECT_FALSE(errors.Add(two, two, {}, next));
}

// Two rows of three scores: each has its own class, and its own label.
TEST(OutputError, RowsOfASample) {
  const std::vector<Tensor> right = {Tensor::FromValues<float>({2, 3}, {9, 1, 2, 1, 9, 2})},
                            got = {Tensor::FromValues<float>({2, 3}, {9, 1, 2, 1, 2, 9})};
  OutputErrors top1(Metric::kTop1, true, 2), agreement(Metric::kAgreement, true, 2);
  ASSERT_TRUE(top1.Add(right, got, Labels{0, 2}, {}));
  ASSERT_TRUE(agreement.Add(right, got, Labels{std::nullopt}, {}));
  EXPECT_EQ(top1.Mean().metric, 1);
  EXPECT_EQ(agreement.Mean().metric, 0.5);
  EXPECT_FALSE(top1.Add(right, got, Labels{0}, {}));     // one label of two answers
  EXPECT_FALSE(top1.Add(right, got, Labels{0, 3}, {}));  // of three classes
}

}  // namespace
}  // namespace evoq
