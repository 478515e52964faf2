// Losses, optimizers, schedules and augmentations against their formulas.
#include "base/rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "train/augmentation.h"
#include "train/distill.h"
#include "train/loss.h"
#include "train/optimizer.h"
#include "train/recipe.h"
#include "train/schedule.h"

namespace evoq {
namespace {

// In float64, by the formulas of train/loss.h and of the rows' files.
double LossOf(const std::string& name, const std::vector<double>& scores, int64_t label,
              double smoothing) {
  const auto n = static_cast<double>(scores.size());
  double sum = 0, loss = 0;
  for (double s : scores) sum += std::exp(s);
  for (size_t j = 0; j < scores.size(); ++j) {
    const double target = smoothing / n + (static_cast<int64_t>(j) == label ? 1 - smoothing : 0);
    loss += name == "mse" ? (scores[j] - target) * (scores[j] - target) / n
                          : -target * (scores[j] - std::log(sum));
  }
  return loss;
}

TEST(Losses, AreTheirFormulasAndTheGradientsTheirDifferences) {
  const std::vector<float> scores = {0.5f, -1.25f, 3.0f, 0.0f, 2.5f};
  for (const LossDef* loss : AllLosses()) {
    for (const float smoothing : {0.0f, 0.1f}) {
      std::vector<float> gradient(scores.size());
      const double value = loss->sample(scores, 2, smoothing, 0.5f, gradient.data());
      std::vector<double> wide(scores.begin(), scores.end());
      EXPECT_NEAR(value, LossOf(loss->name, wide, 2, smoothing), 1e-6) << loss->name;
      for (size_t j = 0; j < wide.size(); ++j) {
        constexpr double kStep = 1e-5;
        wide[j] += kStep;
        const double more = LossOf(loss->name, wide, 2, smoothing);
        wide[j] -= 2 * kStep;
        const double less = LossOf(loss->name, wide, 2, smoothing);
        wide[j] += kStep;
        EXPECT_NEAR(gradient[j], 0.5 * (more - less) / (2 * kStep), 1e-6) << loss->name << j;
      }
    }
  }
}

TEST(Losses, CrossEntropyOfLargeScoresIsFinite) {
  const std::vector<float> scores = {1000, -1000};
  std::vector<float> gradient(2);
  const LossDef* loss = FindRow(AllLosses(), "cross-entropy");
  EXPECT_DOUBLE_EQ(loss->sample(scores, 1, 0, 1, gradient.data()), 2000);
  EXPECT_EQ(gradient, (std::vector<float>{1, -1}));
}

// Three steps with gradients 1, -2, 0.5 from w = 1, in float64.
std::vector<double> ThreeSteps(const std::string& name) {
  const double rate = 0.1, momentum = 0.9, beta2 = 0.99, epsilon = 1e-8, decay = 0.05;
  double w = 1, first = 0, second = 0;
  std::vector<double> out;
  const double gradients[] = {1, -2, 0.5};
  for (int t = 1; t <= 3; ++t) {
    double g = gradients[t - 1];
    if (name != "adamw") g += decay * w;
    if (name == "sgd" || name == "nesterov") {
      first = momentum * first + g;
      w -= rate * (name == "sgd" ? first : g + momentum * first);
    } else {
      first = momentum * first + (1 - momentum) * g;
      second = beta2 * second + (1 - beta2) * g * g;
      const double m = first / (1 - std::pow(momentum, t));
      const double v = second / (1 - std::pow(beta2, t));
      if (name == "adamw") w -= rate * decay * w;
      w -= rate * m / (std::sqrt(v) + epsilon);
    }
    out.push_back(w);
  }
  return out;
}

// KL by its definition in float64, and its differences.
TEST(Losses, DistillationIsDivergenceFromTheTeacher) {
  const std::vector<float> scores = {0.5f, -1.25f, 3.0f}, teacher = {1.5f, 0.25f, -2.0f};
  for (const double t : {1.0, 4.0}) {
    const auto shares = [&](const std::vector<double>& s) {
      double sum = 0;
      std::vector<double> p;
      for (const double x : s) sum += std::exp(x / t);
      for (const double x : s) p.push_back(std::exp(x / t) / sum);
      return p;
    };
    const auto loss = [&](const std::vector<double>& s) {
      const auto p = shares({teacher.begin(), teacher.end()}), q = shares(s);
      double kl = 0;
      for (size_t j = 0; j < p.size(); ++j) kl += p[j] * std::log(p[j] / q[j]);
      return t * t * kl;
    };
    std::vector<float> gradient = {1, 1, 1};
    const double value =
        AddDistillation(scores, teacher, static_cast<float>(t), 0.5f, gradient.data());
    std::vector<double> wide(scores.begin(), scores.end());
    EXPECT_NEAR(value, loss(wide), 1e-9);
    for (size_t j = 0; j < wide.size(); ++j) {
      constexpr double kStep = 1e-5;
      std::vector<double> more = wide, less = wide;
      more[j] += kStep;
      less[j] -= kStep;
      EXPECT_NEAR(gradient[j] - 1, 0.5 * (loss(more) - loss(less)) / (2 * kStep), 1e-6);
    }
  }
}

TEST(Optimizers, AreTheirFormulas) {
  for (const OptimizerDef* optimizer : AllOptimizers()) {
    const std::vector<double> wanted = ThreeSteps(optimizer->name);
    std::vector<float> w(11, 1.0f), slots[2] = {std::vector<float>(11), std::vector<float>(11)};
    const float gradients[] = {1, -2, 0.5f};
    for (int t = 1; t <= 3; ++t) {
      const std::vector<float> g(11, gradients[t - 1]);
      optimizer->update({.w = w.data(),
                         .g = g.data(),
                         .slots = {slots[0].data(), slots[1].data()},
                         .n = 11,
                         .rate = 0.1f,
                         .momentum = 0.9f,
                         .beta2 = 0.99f,
                         .epsilon = 1e-8f,
                         .decay = 0.05f,
                         .step = t});
      for (float v : w) EXPECT_NEAR(v, wanted[static_cast<size_t>(t - 1)], 2e-6) << optimizer->name;
    }
  }
}

TEST(Schedules, AreTheirFormulas) {
  const auto at = [](const char* name, double done) {
    return FindRow(AllSchedules(), name)->factor(done);
  };
  EXPECT_EQ(at("constant", 0.9), 1);
  EXPECT_DOUBLE_EQ(at("linear", 0.25), 0.75);
  EXPECT_DOUBLE_EQ(at("cosine", 0), 1);
  EXPECT_NEAR(at("cosine", 1.0 / 3), 0.75, 1e-12);
  EXPECT_EQ(at("step", 0.49), 1);
  EXPECT_EQ(at("step", 0.5), 0.1);
  EXPECT_EQ(at("step", 0.75), 0.01);
  const ScheduleDef& linear = *FindRow(AllSchedules(), "linear");
  // Four steps up, then a line over the six that are left.
  EXPECT_DOUBLE_EQ(LearningRate(linear, 2, 0, 10, 4), 0.5);
  EXPECT_DOUBLE_EQ(LearningRate(linear, 2, 3, 10, 4), 2);
  EXPECT_DOUBLE_EQ(LearningRate(linear, 2, 4, 10, 4), 2);
  EXPECT_DOUBLE_EQ(LearningRate(linear, 2, 7, 10, 4), 1);
  EXPECT_DOUBLE_EQ(LearningRate(linear, 2, 0, 10, 0), 2);
}

TEST(Augmentations, MoveWholePixels) {
  const PlaneSizes sizes{2, 3, 4};
  std::vector<float> from(24), to(24);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
  const auto shift = *ParseAugmentations({"shift=1"});
  const auto flip = *ParseAugmentations({"flip"});
  XorShift random(7);
  std::set<std::pair<int, int>> moves;
  for (int i = 0; i < 200; ++i) {
    shift[0].row->apply(sizes, shift[0].amount, random, from.data(), to.data());
    // The middle of the image says how it moved; all else follows.
    const int down = 1 - static_cast<int>(to[5]) / 4, right = 1 - static_cast<int>(to[5]) % 4;
    moves.emplace(down, right);
    for (int c = 0; c < 2; ++c) {
      for (int y = 0; y < 3; ++y) {
        for (int x = 0; x < 4; ++x)
          ASSERT_EQ(to[c * 12 + y * 4 + x],
                    from[c * 12 + std::clamp(y - down, 0, 2) * 4 + std::clamp(x - right, 0, 3)]);
      }
    }
  }
  EXPECT_EQ(moves.size(), 9u);
  int turned = 0;
  for (int i = 0; i < 200; ++i) {
    flip[0].row->apply(sizes, 1, random, from.data(), to.data());
    turned += to[0] == 3;
    ASSERT_EQ(to[4], to[0] == 3 ? 7 : 4);
  }
  EXPECT_GT(turned, 60);
  EXPECT_LT(turned, 140);
}

TEST(Recipes, AreCheckedOptionByOption) {
  const auto error = [](auto change) {
    TrainingRecipe recipe;
    change(recipe);
    const Status checked = CheckRecipe(recipe);
    return checked ? std::string() : checked.error().message();
  };
  EXPECT_EQ(error([](TrainingRecipe&) {}), "");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.optimizer = "sdg"; }),
            "--optimizer sdg: expected one of sgd, nesterov, adam, adamw; the nearest is sgd");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.schedule = "x"; }),
            "--schedule x: expected one of constant, cosine, linear, step");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.loss = "l1"; }),
            "--loss l1: expected one of cross-entropy, mse");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.label_smoothing = 1.5; }),
            "--label-smoothing 1.5: expected a number from 0 to 1");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.lr = NAN; }),
            "--lr nan: expected a number from 0 to 1000");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.augment = {"turn"}; }),
            "--augment turn: expected one of shift, flip");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.augment = {"shift=x"}; }),
            "--augment shift=x: expected a number from 0 to 1024");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.scheme = "int4-weights"; }),
            "--scheme int4-weights: expected int8, whose arithmetic training simulates");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.weight_bits = {"4"}; }),
            "--weight-bits: of training with integers: --scheme int8");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.exclude = {"conv_1"}; }),
            "--exclude: of training with integers: --scheme int8");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.distill = 0; }),
            "--distill 0: expected a number from 0.01 to 1000");
}

}  // namespace
}  // namespace evoq
