// Losses, optimizers, schedules and augmentations against their formulas.
#include "base/rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "train/augmentation.h"
#include "train/distill.h"
#include "train/feeder.h"
#include "train/loss.h"
#include "train/optimizer.h"
#include "train/recipe.h"
#include "train/schedule.h"

namespace evoq {
namespace {

// In float64, by the formulas of the rows' files; of a mix of classes 2 and 4.
double LossOf(const std::string& name, const std::vector<double>& scores, double smoothing,
              double share) {
  const auto n = static_cast<double>(scores.size());
  double sum = 0, loss = 0;
  for (double s : scores) sum += std::exp(s);
  for (size_t j = 0; j < scores.size(); ++j) {
    const double mixed = j == 2 ? 1 - share : j == 4 ? share : 0;
    const double target = smoothing / n + (1 - smoothing) * mixed;
    const double log_p = scores[j] - std::log(sum), off = 1 - std::exp(log_p);
    if (name == "mse") loss += (scores[j] - target) * (scores[j] - target) / n;
    const double size = std::fabs(scores[j] - target);
    if (name == "l1") loss += size / n;
    if (name == "huber") loss += (size <= 1 ? size * size / 2 : size - 0.5) / n;
    if (name == "bce") loss += (std::log(1 + std::exp(scores[j])) - target * scores[j]) / n;
    if (name == "cross-entropy") loss -= target * log_p;
    if (name == "kl") loss += target > 0 ? target * (std::log(target) - log_p) : 0;
    if (name == "focal") loss -= target * off * off * log_p;
  }
  return loss;
}

TEST(Losses, AreTheirFormulasAndTheGradientsTheirDifferences) {
  const std::vector<float> scores = {0.5f, -1.25f, 3.0f, 0.0f, 2.5f};
  for (const LossDef* loss : AllLosses()) {
    for (const auto& [smoothing, share] : {std::pair(0.0f, 0.0f), {0.1f, 0.0f}, {0.1f, 0.25f}}) {
      std::vector<float> gradient(scores.size());
      const SampleTarget target{.label = 2, .other = 4, .share = share, .smoothing = smoothing};
      const double value = loss->sample(scores, target, 0.5f, gradient.data());
      std::vector<double> wide(scores.begin(), scores.end());
      EXPECT_NEAR(value, LossOf(loss->name, wide, smoothing, share), 1e-6) << loss->name;
      EXPECT_NE(value, 0) << loss->name;
      for (size_t j = 0; j < wide.size(); ++j) {
        constexpr double kStep = 1e-5;
        wide[j] += kStep;
        const double more = LossOf(loss->name, wide, smoothing, share);
        wide[j] -= 2 * kStep;
        const double less = LossOf(loss->name, wide, smoothing, share);
        wide[j] += kStep;
        EXPECT_NEAR(gradient[j], 0.5 * (more - less) / (2 * kStep), 1e-6) << loss->name << j;
      }
    }
  }
}

TEST(Losses, RealTargetsAreMixedAsTheirInputsAre) {
  LabelledSamples samples;
  samples.sizes = {{2}};
  samples.inputs = {{1, 2, -3, 5, 0.5f, 8}};
  samples.targets = samples.inputs[0];
  samples.target_elements = 2;
  ASSERT_EQ(samples.count(), 3);
  const Feeder feeder(samples, {}, 1, 7);
  const std::vector<int64_t> others = {0, 1, 2};
  bool mixed = false;
  for (int64_t i = 0; i < 12; ++i) {
    float input[2];
    float* const place = input;
    SampleTarget target;
    feeder(i % 3, i, others, std::span(&place, 1), std::span(&target, 1));
    for (int64_t j = 0; j < 2; ++j) EXPECT_NEAR(target.of(j, 2), input[j], 1e-6) << i;
    mixed |= input[0] != samples.targets[static_cast<size_t>(2 * (i % 3))];
  }
  EXPECT_TRUE(mixed);
}

TEST(Losses, CrossEntropyOfLargeScoresIsFinite) {
  const std::vector<float> scores = {1000, -1000};
  std::vector<float> gradient(2);
  const LossDef* loss = FindRow(AllLosses(), "cross-entropy");
  EXPECT_DOUBLE_EQ(loss->sample(scores, {.label = 1}, 1, gradient.data()), 2000);
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
    const bool beside = name == "adamw" || name == "lamb";  // decay is not in the gradient
    if (!beside) g += decay * w;
    if (name == "sgd" || name == "nesterov") {
      first = momentum * first + g;
      w -= rate * (name == "sgd" ? first : g + momentum * first);
    } else {
      first = momentum * first + (1 - momentum) * g;
      second = beta2 * second + (1 - beta2) * g * g;
      const double m = first / (1 - std::pow(momentum, t));
      const double v = second / (1 - std::pow(beta2, t));
      double change = m / (std::sqrt(v) + epsilon) + (beside ? decay * w : 0);
      if (name == "lamb") change *= std::fabs(w) / std::fabs(change);
      w -= rate * change;
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

// What an augmentation gives of an image, of many draws.
std::vector<std::vector<float>> Drawn(const std::string& option, const PlaneSizes& sizes,
                                      const std::vector<float>& from, int draws) {
  const auto parsed = *ParseAugmentations({option});
  XorShift random(11);
  std::vector<std::vector<float>> all;
  for (int i = 0; i < draws; ++i) {
    all.emplace_back(from.size());
    parsed[0].row->apply(sizes, parsed[0].amount, random, from.data(), all.back().data());
  }
  return all;
}

// Three channels, each a plane of numbers of its own.
std::vector<float> Ramp(const PlaneSizes& s) {
  std::vector<float> x;
  for (int64_t i = 0; i < s.channels * s.height * s.width; ++i)
    x.push_back(static_cast<float>((i * 7) % 31) * 0.1f - 1);
  return x;
}

TEST(Augmentations, CutoutZerosOneSquare) {
  const PlaneSizes sizes{2, 6, 5};
  const std::vector<float> from(60, 1.0f);
  std::set<int> counts;
  for (const std::vector<float>& to : Drawn("cutout=3", sizes, from, 200)) {
    int top = 6, bottom = -1, left = 5, right = -1, zeros = 0;
    for (int i = 0; i < 30; ++i) {
      ASSERT_EQ(to[i], to[30 + i]);
      if (to[i] != 0) continue;
      ++zeros;
      top = std::min(top, i / 5);
      bottom = std::max(bottom, i / 5);
      left = std::min(left, i % 5);
      right = std::max(right, i % 5);
    }
    EXPECT_EQ(zeros, (bottom - top + 1) * (right - left + 1));
    counts.insert(zeros);
  }
  EXPECT_EQ(*counts.rbegin(), 9);
  EXPECT_EQ(*counts.begin(), 4) << "in a corner";
}

// Brightness, contrast and saturation are linear in the image, and within their bounds.
TEST(Augmentations, ColorStaysWithinItsAmount) {
  const PlaneSizes sizes{3, 4, 4};
  const std::vector<float> from = Ramp(sizes);
  const auto gray = [](const std::vector<float>& x, int i) {
    return (x[i] + x[16 + i] + x[32 + i]) / 3;
  };
  float brightest = 0;
  for (const std::vector<float>& to : Drawn("color=20", sizes, from, 300)) {
    double mean = 0, was = 0;
    for (size_t i = 0; i < to.size(); ++i) {
      mean += to[i] / 48;
      was += from[i] / 48;
    }
    EXPECT_LE(std::fabs(mean - was), 0.2001);
    brightest = std::max(brightest, static_cast<float>(mean - was));
    // All pixels' grays keep their ratios; so do the channels' distances from them.
    const double contrast = (gray(to, 1) - gray(to, 0)) / (gray(from, 1) - gray(from, 0));
    EXPECT_GE(contrast, 0.7999);
    EXPECT_LE(contrast, 1.2001);
    const double color = (to[0] - gray(to, 0)) / (from[0] - gray(from, 0)) / contrast;
    EXPECT_GE(color, 0.7998);
    EXPECT_LE(color, 1.2002);
    for (int i = 0; i < 16; ++i)
      EXPECT_NEAR(to[i] - gray(to, i), color * contrast * (from[i] - gray(from, i)), 1e-5);
  }
  EXPECT_GT(brightest, 0.15f);
}

TEST(Augmentations, RandAugmentMovesAndTurns) {
  const PlaneSizes sizes{1, 9, 9};
  std::vector<float> from(81, 0.0f);
  from[4 * 9 + 4] = 1;  // the middle, which turns and shears leave
  int kept = 0, moved = 0;
  for (const std::vector<float>& to : Drawn("rand-augment=10", sizes, from, 300)) {
    for (const float v : to) ASSERT_TRUE(std::isfinite(v));
    kept += to == from;
    moved += to[4 * 9 + 4] < 0.5f * *std::max_element(to.begin(), to.end());
  }
  EXPECT_GT(kept, 1) << "two identities are as likely as any other two";
  EXPECT_GT(moved, 50) << "moves along either axis";
  // Nothing is larger or smaller than at magnitude 30 and beyond.
  const auto most = Drawn("rand-augment=30", sizes, from, 50);
  EXPECT_EQ(most, Drawn("rand-augment=500", sizes, from, 50));
  EXPECT_NE(most, Drawn("rand-augment=3", sizes, from, 50));
  for (const std::vector<float>& to : Drawn("rand-augment=0", sizes, from, 50)) {
    for (size_t i = 0; i < to.size(); ++i) ASSERT_NEAR(to[i], from[i], 1e-6);
  }
}

TEST(Recipes, AreCheckedOptionByOption) {
  const auto error = [](auto change) {
    TrainingRecipe recipe;
    change(recipe);
    const Status checked = CheckRecipe(recipe);
    return checked ? std::string() : checked.error().message();
  };
  EXPECT_EQ(error([](TrainingRecipe&) {}), "");
  EXPECT_EQ(
      error([](TrainingRecipe& r) { r.optimizer = "sdg"; }),
      "--optimizer sdg: expected one of sgd, nesterov, adam, adamw, lamb; the nearest is sgd");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.schedule = "x"; }),
            "--schedule x: expected one of constant, cosine, linear, step");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.loss = "l2"; }),
            "--loss l2: expected one of cross-entropy, mse, l1, huber, bce, kl, focal; the nearest "
            "is l1");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.label_smoothing = 1.5; }),
            "--label-smoothing 1.5: expected a number from 0 to 1");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.lr = NAN; }),
            "--lr nan: expected a number from 0 to 1000");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.augment = {"turn"}; }),
            "--augment turn: expected one of shift, flip, color, cutout, rand-augment");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.augment = {"shift=x"}; }),
            "--augment shift=x: expected a number from 0 to 1024");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.ema = 1.5; }),
            "--ema 1.5: expected a number from 0 to 1");
  EXPECT_EQ(error([](TrainingRecipe& r) {
              r.ema = 0.9;
              r.prune = "unstructured";
            }),
            "--ema 0.9: an average of weights has no zeros: not with --prune");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.mixup = 2; }),
            "--mixup 2: expected a number from 0 to 1");
  for (const char* wrong : {"conv_1", "=1", "conv_1=", "conv_1=x", "conv_1=-1", "conv_1=1e9"})
    EXPECT_EQ(
        error([&](TrainingRecipe& r) { r.decay = {"a=1", wrong}; }),
        std::string("--decay ") + wrong + ": expected PATTERN=DECAY with a number from 0 to 1000");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.context = 0; }),
            "--context 0: expected a number from 1 to 1048576");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.scheme = "int4-weights"; }), "");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.scheme = "int4-dynamic"; }),
            "--scheme int4-dynamic: expected int8, whose arithmetic training simulates, or a "
            "weights-only scheme as int4-weights");
  EXPECT_EQ(error([](TrainingRecipe& r) {
              r.scheme = "nf4-weights";
              r.weight_bits = {"4"};
            }),
            "--weight-bits: of training with integers: --scheme int8, not nf4-weights");
  EXPECT_EQ(error([](TrainingRecipe& r) {
              r.scheme = "int4-weights";
              r.prune = "channel";
            }),
            "--prune channel: not with --scheme int4-weights: prune in float32, then train the "
            "smaller model with integers");
  EXPECT_EQ(error([](TrainingRecipe& r) {
              r.scheme = "int8";
              r.weight_bits = {"4", "a=1"};
              r.prune = "zeros";
            }),
            "--prune zeros: weights of 1 bit are signs, none of them is 0");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.weight_bits = {"4"}; }),
            "--weight-bits: of training with integers: --scheme int8");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.exclude = {"conv_1"}; }),
            "--exclude: of training with integers: --scheme int8");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.distill = 0; }),
            "--distill 0: expected a number from 0.01 to 1000");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.prune_score = "movement"; }),
            "--prune-score movement: expected --prune");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.prune_scope = "global"; }),
            "--prune-scope global: expected --prune");
  EXPECT_EQ(error([](TrainingRecipe& r) { r.prune_multiple = 4; }),
            "--prune-multiple 4: expected --prune");
}

// A checkpoint from before an option was there has its default; what the first version had must be
// there.
TEST(Recipes, OfEarlierCheckpointsHaveDefaults) {
  const nlohmann::json all = ToJson(TrainingRecipe()), added = AddedLater();
  for (const char* name : {"prune_multiple", "lora", "activation_bits", "block", "distill_features",
                           "distill_features_weight"})
    EXPECT_TRUE(added.contains(name)) << name;
  for (const char* name : {"lr", "seed", "scheme", "weight_bits", "prune", "teacher"})
    EXPECT_FALSE(added.contains(name)) << name;
  nlohmann::json old = all;
  for (const auto& [name, value] : added.items()) {
    EXPECT_EQ(value, all[name]) << name;
    old.erase(name);
  }
  nlohmann::json read = added;
  read.update(old);
  EXPECT_EQ(DifferenceOf(all, read), "");
  TrainingRecipe other;
  other.block = "64";
  EXPECT_EQ(DifferenceOf(ToJson(other), read), "block is \"32\", not \"64\"");
  read.erase("lr");
  EXPECT_EQ(DifferenceOf(all, read), "lr is missing");
}

}  // namespace
}  // namespace evoq
