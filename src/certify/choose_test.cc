// The search within its time, and measuring within its own, on a clock that is made up.
#include "certify/choose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "certify/test_job.h"
#include "profile/test_watch.h"

namespace evoq {
namespace {

class ChooseTest : public ConvNetTest {
 protected:
  ChooseTest() : ConvNetTest(12) {}
  void SetUp() override {
    ConvNetTest::SetUp();
    job_ = Search();
    job_.watch = &watch_;
    PlantSpeeds(job_);
    auto engine = Engine::FromGraph(net_, {1, {}});
    ASSERT_TRUE(engine);
    auto answers = Answer(**engine, samples_);
    ASSERT_TRUE(answers);
    reference_ = std::move(*answers);
  }

  // What is measured takes its share, and what it may take at most is what the search has left.
  void Spend(const ShareOfTime& time) override {
    const double left_s = std::max(0.0, job_.seconds - (watch_.wall_ms - begun_ms_) / 1e3);
    EXPECT_LE(time.limit_s, left_s + 2 * watch_.look_ms / 1e3 + 1e-9);
    EXPECT_EQ(time.watch, &watch_);
    watch_.Work(1e3 * std::min(time.seconds, time.limit_s));
  }
  Result<ChosenPlan> Choose(double seconds, Metric metric = Metric::kSqnr) {
    job_.seconds = seconds;
    begun_ms_ = watch_.wall_ms;
    return ChoosePrecisions(job_, samples_, reference_, metric);
  }
  static int Count(const ChosenPlan& chosen, const std::string& scheme) {
    int count = 0;
    for (const auto& [layer, choice] : chosen.plan) count += choice.scheme == scheme;
    return count;
  }

  FakeWatch watch_;
  Answers reference_;
  ChooseJob job_;
  double begun_ms_ = 0;
};

TEST_F(ChooseTest, PlantedSpeedsDecide) {
  job_.limit = {100, -500};
  const auto fast = Choose(60);
  ASSERT_TRUE(fast) << fast.error().message();
  EXPECT_EQ(Count(*fast, "float32"), 0);
  EXPECT_FALSE(fast->out_of_time);
  EXPECT_EQ(fast->tried[0].name == "mixed" || fast->tried[0].name.starts_with("int8"), true)
      << fast->tried[0].name;
  int8_ms_ = 5;
  const auto slow = Choose(60);
  ASSERT_TRUE(slow) << slow.error().message();
  EXPECT_EQ(Count(*slow, "int8") + Count(*slow, "int8-dynamic"), 0) << "slower than float32";
}

// The net's five layers take 3 ms each, 2.5 ms in int8, more in all else; where a value leads from
// one form to another, 0.05 ms an element: what the search must find from a plan that alternates.
// So a layer alone in int8 saves 0.5 ms and costs as much as what it reads and gives is large, and
// all in int8 save 2.5 ms and cost 0.05 x (432 + 10) ms.
TEST_F(ChooseTest, ConversionsCostWhatWholeRunsShow) {
  struct Layer {
    const char* name;
    int64_t reads, gives;  // elements; of `project` also those of the stem
  };
  constexpr Layer kLayers[] = {{"stem", 432, 1152},
                               {"depthwise", 1152, 1152},
                               {"project", 1152 + 1152, 288},
                               {"last", 288, 16},
                               {"classes", 16, 10}};
  constexpr double kEach = 0.05;
  enum Form { kFloat, kInt8, kOther };
  const auto forms_of = [&](const Program& program) {
    std::map<std::string, Form> forms;
    for (const Step& step : program.steps) {
      const Node& node = program.graph->node(step.node);
      // What int8-dynamic reads has no parameters of its own.
      const bool quantized = program.graph->value(node.input(0)).type.quantized();
      for (const Layer& layer : kLayers) {
        if (node.name != layer.name) continue;
        const auto& precision = step.decision.precision;
        forms[layer.name] = precision == "float32"             ? kFloat
                            : precision == "int8" && quantized ? kInt8
                                                               : kOther;
      }
    }
    EXPECT_EQ(forms.size(), std::size(kLayers));
    return forms;
  };
  const auto ms_of = [](Form form) { return form == kFloat ? 3 : form == kInt8 ? 2.5 : 4; };
  job_.steps = [&](std::span<Runnable* const> executors,
                   const ShareOfTime& time) -> Result<std::vector<std::vector<double>>> {
    Spend(time);
    std::vector<std::vector<double>> all;
    for (Runnable* e : executors) {
      auto forms = forms_of(e->program());
      std::vector<double>& ms = all.emplace_back();
      for (const Step& step : e->program().steps) {
        const auto form = forms.find(e->program().graph->node(step.node).name);
        ms.push_back(form == forms.end() ? 0 : ms_of(form->second));
      }
    }
    return all;
  };
  job_.runs = [&](std::span<Runnable* const> executors,
                  const ShareOfTime& time) -> Result<std::vector<double>> {
    Spend(time);
    std::vector<double> all;
    for (Runnable* e : executors) {
      auto forms = forms_of(e->program());
      double ms = 0;
      for (const auto& [name, form] : forms) ms += ms_of(form);
      const auto differ = [&](const char* a, const char* b) { return forms[a] != forms[b]; };
      ms += kEach * (432 * (forms["stem"] != kFloat) +
                     1152 * (differ("stem", "depthwise") || differ("stem", "project")) +
                     1152 * differ("depthwise", "project") + 288 * differ("project", "last") +
                     16 * differ("last", "classes") + 10 * (forms["classes"] != kFloat));
      all.push_back(ms);
    }
    return all;
  };
  job_.limit = {100, -500};
  const auto chosen = Choose(60);
  ASSERT_TRUE(chosen) << chosen.error().message();
  for (const Layer& layer : kLayers) {
    const LayerChoice& plan = chosen->plan.at(layer.name);
    EXPECT_EQ(plan.scheme, "float32") << layer.name;
    EXPECT_EQ(plan.why,
              fmt::format("slower-when-measured: int8 saves 0.5000 ms here and costs {:.4f} ms "
                          "around it",
                          kEach * static_cast<double>(layer.reads + layer.gives)))
        << layer.name;
  }
}

TEST_F(ChooseTest, PlansThatLoseTooMuchAreNotChosen) {
  job_.limit = {100, 200};
  const auto none = Choose(60);
  ASSERT_TRUE(none) << none.error().message();
  EXPECT_EQ(Count(*none, "float32"), 5);
}

TEST_F(ChooseTest, TheTimeIsALimitAtEveryStage) {
  // Each look at the clock takes so long: 1 ms lets the search end, 3 s let it not even measure
  // every method.
  for (const double look_ms : {1.0, 20.0, 60.0, 150.0, 500.0, 3000.0}) {
    for (const double db : {-500.0, 25.0, 200.0}) {
      job_.limit = {100, db};
      watch_.look_ms = look_ms;
      const auto chosen = Choose(2);
      ASSERT_TRUE(chosen) << chosen.error().message();
      // Every stage looks once and begins nothing.
      EXPECT_LE(chosen->seconds, 2 + 9 * look_ms / 1e3 + 0.11) << look_ms << " ms, " << db << " dB";
      EXPECT_EQ(chosen->plan.size(), 5u);
      if (look_ms > 50) EXPECT_TRUE(chosen->out_of_time) << look_ms;
      if (look_ms > 1000) {
        EXPECT_EQ(chosen->candidates, 2) << "float32, to be measured by steps and in whole runs";
        EXPECT_EQ(chosen->accuracies, 0);
      }
    }
  }
}

TEST_F(ChooseTest, WithoutTimeForAnyAccuracyTheFastestIsHandedOverUntried) {
  job_.limit = {100, 200};
  job_.seconds = 2;
  watch_.look_ms = 120;
  const auto chosen = Choose(2);
  ASSERT_TRUE(chosen) << chosen.error().message();
  EXPECT_TRUE(chosen->out_of_time);
  EXPECT_EQ(chosen->accuracies, 0);
  for (const TriedPlan& plan : chosen->tried) EXPECT_FALSE(plan.keeps) << plan.name;
}

class SpeedTest : public ::testing::Test {
 protected:
  std::shared_ptr<Executor> Make(const InputShapes& shapes, int threads) {
    auto engine = Engine::FromGraph(MakeNet(kConvNet), {threads, shapes});
    EXPECT_TRUE(engine) << engine.error().message();
    auto executor = (*engine)->Default();
    EXPECT_TRUE(executor) << executor.error().message();
    engines_.push_back(std::move(*engine));
    return *executor;
  }
  std::vector<std::unique_ptr<Engine>> engines_;
};

TEST_F(SpeedTest, MeasuringEndsAtItsLimit) {
  const auto executor = Make({}, 1);
  Runnable* const executors[] = {executor.get(), executor.get()};
  FakeWatch watch;
  watch.look_ms = 10;
  double start = watch.wall_ms;
  ASSERT_TRUE(CalmRuns(executors, {0.05, 0.001, &watch}).has_value());
  EXPECT_LE(watch.wall_ms - start, 120) << "one round of two runs, with two looks each";
  start = watch.wall_ms;
  ASSERT_TRUE(CalmRuns(executors, {0.05, 100, &watch}).has_value());
  EXPECT_GE(watch.wall_ms - start, 7 * 2 * 2 * 10) << "seven rounds while there is time";
  start = watch.wall_ms;
  const auto steps = CalmSteps(executors, {0.05, 0.001, &watch});
  ASSERT_TRUE(steps.has_value());
  EXPECT_LE(watch.wall_ms - start, 80);
  ASSERT_EQ(steps->size(), 2u);
  EXPECT_EQ((*steps)[0].size(), executor->program().steps.size());
  // Whole runs take 10 ms on this clock: so do the steps together.
  EXPECT_NEAR(std::accumulate((*steps)[0].begin(), (*steps)[0].end(), 0.0), 10, 1e-6);
}

TEST_F(SpeedTest, TheSameStepsAreEquallyFastByWhatTheyAre) {
  const auto a = Make({}, 1), b = Make({}, 1);
  FakeWatch watch;
  watch.look_ms = 5;
  watch.others = 2;
  SpeedOptions options;
  options.watch = &watch;
  options.duration_s = 0.5;
  const auto claim = MeasureSpeed(*a, *b, options);
  ASSERT_TRUE(claim.has_value());
  EXPECT_EQ(claim->ratio.speedup, 1);
  EXPECT_EQ(claim->ratio.low, 1);
  EXPECT_EQ(claim->ratio.high, 1);
  EXPECT_EQ(claim->guaranteed, 1) << "busy or not";
  EXPECT_EQ(claim->not_promised, "");
  EXPECT_EQ(claim->ratio.a_ms, claim->ratio.b_ms);
  EXPECT_GT(claim->ratio.a_ms, 0);
}

}  // namespace
}  // namespace evoq
