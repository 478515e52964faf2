// The search within its time, and measuring within its own, on a clock that is made up.
#include "certify/choose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "base/thread_pool.h"
#include "certify/test_job.h"
#include "models/models.h"
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
    auto engine = EngineFromGraph(net_, {1, {}});
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
        const Precision precision = step.decision.precision;
        forms[layer.name] = precision == Precision::kFloat32             ? kFloat
                            : precision == Precision::kInt8 && quantized ? kInt8
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
    EXPECT_EQ(plan.why.ToString(),
              fmt::format("slower-when-measured: int8 saves 0.5000 ms here and costs {:.4f} ms "
                          "around it",
                          kEach * static_cast<double>(layer.reads + layer.gives)))
        << layer.name;
  }
}

TEST_F(ChooseTest, PlansThatLoseTooMuchAreNotChosen) {
  job_.limit = {100, 200};
  int8_ms_ = 0.5;
  double tried = -1, lost = -1, changed = -1;  // the fractions told last
  job_.progress = [&](const std::string& stage, double fraction) {
    EXPECT_LE(fraction, 1) << stage;
    if (stage == "trying further plans") tried = fraction;
    if (stage == "measuring what each layer loses") lost = fraction;
    if (stage == "measuring changes of single layers") changed = fraction;
    return Status();
  };
  const auto none = Choose(60);
  ASSERT_TRUE(none) << none.error().message();
  EXPECT_EQ(Count(*none, "float32"), 5);
  EXPECT_NEAR(tried, 299.0 / 300, 1e-12) << "300 further ones are asked for their accuracy";
  EXPECT_NEAR(lost, 4.0 / 5, 1e-12) << "five layers";
  EXPECT_NEAR(changed, 12.0 / 13, 1e-12) << "thirteen changes, four at a time";
  EXPECT_EQ(none->plan.at("classes").why.ToString(),
            "layer-kept-float-by-budget: int8 would save 2.5000 ms and lose too much accuracy");
}

// Where the time is up before a mixed plan is found, a plan of one scheme that holds is there, and
// layers are not said to lose what was not measured.
TEST_F(ChooseTest, WithoutTimeToSearchAPlanOfOneSchemeStands) {
  // int8-dynamic is the fastest and loses too much, int8 holds.
  const auto ms_of = [](const Program& program) {
    std::vector<double> ms;
    for (const Step& step : program.steps) {
      const bool dynamic = step.decision.kernel.find("dynamic") != std::string::npos;
      ms.push_back(dynamic ? 0.2 : step.decision.precision == Precision::kInt8 ? 1 : 3);
    }
    return ms;
  };
  job_.steps = [&](std::span<Runnable* const> executors, const ShareOfTime&) {
    std::vector<std::vector<double>> ms;
    for (Runnable* e : executors) ms.push_back(ms_of(e->program()));
    return Result<std::vector<std::vector<double>>>(ms);
  };
  job_.runs = [&](std::span<Runnable* const> executors, const ShareOfTime&) {
    std::vector<double> ms;
    for (Runnable* e : executors) {
      const std::vector<double> steps = ms_of(e->program());
      ms.push_back(std::accumulate(steps.begin(), steps.end(), 0.0));
    }
    return Result<std::vector<double>>(ms);
  };
  job_.progress = [&](const std::string& stage, double) {
    if (stage == "measuring what each layer loses") watch_.wall_ms = begun_ms_ + 61e3;
    return Status();
  };
  job_.limit = {100, 45};
  const auto chosen = Choose(60);
  ASSERT_TRUE(chosen) << chosen.error().message();
  EXPECT_TRUE(chosen->out_of_time);
  EXPECT_EQ(Count(*chosen, "int8"), 5);
  job_.limit = {100, 90};  // nothing holds
  const auto none = Choose(60);
  ASSERT_TRUE(none) << none.error().message();
  EXPECT_EQ(Count(*none, "float32"), 5);
  EXPECT_EQ(none->plan.at("stem").why.ToString(),
            "layer-kept-float-by-budget: int8-dynamic would save 2.6000 ms and was not tried: the "
            "time of the search was up");
}

// A plan that was the best so far is not measured again as a change of another.
TEST_F(ChooseTest, NoPlanIsMeasuredBesideTheOneThatBeatIt) {
  std::string stage;
  job_.progress = [&](const std::string& now, double) {
    stage = now;
    return Status();
  };
  std::vector<std::string> bests;
  const auto runs = job_.runs;
  job_.runs = [&](std::span<Runnable* const> models, const ShareOfTime& time) {
    for (size_t i = 0; stage == "measuring changes of single layers" && i < models.size(); ++i) {
      std::string plan;
      for (const Step& step : models[i]->program().steps)
        plan += std::string(PrecisionName(step.decision.precision)) + " ";
      if (i == 0) bests.push_back(plan);
      const bool was = std::find(bests.begin(), bests.end(), plan) != bests.end();
      EXPECT_EQ(was, i == 0) << plan;
    }
    return runs(models, time);
  };
  job_.limit = {100, 20};
  int8_ms_ = 2.9;
  ASSERT_TRUE(Choose(60));
  EXPECT_EQ(bests.size(), 2u);
}

// Before any layer alone was measured, the error of a scheme on all layers is shared out evenly.
TEST_F(ChooseTest, WithoutTimeForSingleLayersTheErrorIsSharedOut) {
  job_.progress = [&](const std::string& stage, double) {
    if (stage == "measuring what each layer loses") watch_.wall_ms = begun_ms_ + 31e3;
    return Status();
  };
  job_.limit = {100, 50};
  const auto chosen = Choose(60);
  ASSERT_TRUE(chosen) << chosen.error().message();
  EXPECT_EQ(Count(*chosen, "int8"), 4);
  EXPECT_EQ(chosen->plan.at("classes").scheme, "float32");
  EXPECT_EQ(chosen->accuracies, 6) << "more where what a scheme loses counts on one layer only";
}

TEST_F(ChooseTest, ASearchUsesAllCoresUnlessItIsTold) {
  int asked = 0;
  for (const int threads : {ChooseJob().threads, 3}) {
    const int wanted = threads == 3 ? 3 : PhysicalCores();
    job_.threads = threads;
    job_.runs = [&](std::span<Runnable* const> models,
                    const ShareOfTime&) -> Result<std::vector<double>> {
      for (const Runnable* model : models) EXPECT_EQ(model->threads(), wanted);
      asked += static_cast<int>(models.size());
      return std::vector<double>(models.size(), 1);
    };
    ASSERT_TRUE(Choose(60));
  }
  EXPECT_GT(asked, 0);
}

TEST_F(ChooseTest, TheTimeIsALimitAtEveryStage) {
  // Each look at the clock takes so long: 1 ms lets the search end, 3 s let it not even measure
  // every scheme.
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

// The shares are 0.06, 0.04, 0.01 and 0.05 of the time, and nothing begins after 0.35, 0.45 and all
// of it: of 60 s what is left of 21, 27 and 60 s.
TEST_F(ChooseTest, EachStageHasItsShareOfTheTime) {
  using Log = std::vector<std::tuple<size_t, double, double>>;  // models, seconds, limit
  const size_t all = std::ranges::count_if(AllSchemes(), [](auto* s) { return s->for_auto; });
  Log log;
  const auto note = [&](size_t models, const ShareOfTime& time) {
    log.emplace_back(models, std::round(1e6 * time.seconds) / 1e6,
                     std::round(1e6 * time.limit_s) / 1e6);
  };
  const auto runs = job_.runs;
  const auto steps = job_.steps;
  job_.runs = [&](std::span<Runnable* const> models, const ShareOfTime& time) {
    note(models.size(), time);
    return runs(models, time);
  };
  job_.steps = [&](std::span<Runnable* const> models, const ShareOfTime& time) {
    note(models.size(), time);
    return steps(models, time);
  };
  job_.limit = {100, -500};
  const auto fast = Choose(60);
  ASSERT_TRUE(fast) << fast.error().message();
  // All schemes that are for it; float32 and the three pairs of float32, uint8 and bfloat16; int8,
  // found to be the fastest, beside float32, int8-dynamic and bf16: weights alone are never faster.
  EXPECT_EQ(log, (Log{{all, 3.6, 21}, {4, 2.4, 23.4}, {4, 3, 54}}));
  EXPECT_EQ(fast->seconds, 9);
  EXPECT_EQ(fast->candidates, all + 4 + 1 + 4) << "one for the accuracy";
  EXPECT_EQ(fast->accuracies, 1);
  EXPECT_EQ(fast->plan.at("stem").why.ToString(), "");
  // 3 steps of int8 for the stem with its conversion, 2 for `project` with the pooling, 3 for
  // `last` with the mean and a conversion; what follows has the time that is left.
  int8_ms_ = 5;
  log.clear();
  const auto slow = Choose(60);
  ASSERT_TRUE(slow) << slow.error().message();
  EXPECT_EQ(log, (Log{{all, 3.6, 21}, {4, 2.4, 23.4}, {3, 0.6, 54}, {3, 3, 53.4}}));
  EXPECT_EQ(slow->plan.at("classes").why.ToString(),
            "slower-when-measured: 3.0000 ms as bf16, 3.0000 ms in float32");
  EXPECT_EQ(slow->plan.at("stem").why.ToString(),
            "slower-when-measured: 9.0000 ms as bf16, 6.0000 ms in float32");
}

// A stage begins when its time is just up, and not a moment later.
TEST_F(ChooseTest, StagesBeginUntilTheirTimeIsUp) {
  std::string stages;          // those told
  std::vector<size_t> models;  // of each measurement in whole runs
  double steps_end_s = 0, conversions_end_s = 0, contest_end_s = 0;
  std::pair<std::string, double> when = {"", 0};  // a stage, and when its first sign comes
  const auto set = [&](double seconds) {
    if (seconds > 0) watch_.wall_ms = begun_ms_ + 1e3 * seconds;
  };
  const auto runs = job_.runs;
  const auto steps = job_.steps;
  job_.steps = [&](std::span<Runnable* const> e, const ShareOfTime& time) {
    const auto ms = steps(e, time);
    set(steps_end_s);
    return ms;
  };
  job_.runs = [&](std::span<Runnable* const> e, const ShareOfTime& time) {
    const auto ms = runs(e, time);
    set(models.empty() ? conversions_end_s : contest_end_s);
    models.push_back(e.size());
    return ms;
  };
  job_.progress = [&](const std::string& stage, double) {
    if (stages.find(stage) == std::string::npos) stages += stage + "|";
    if (stage == when.first) set(when.second);
    return Status();
  };
  const auto begin = [&](double db) {
    job_.limit = {100, db};
    stages.clear(), models.clear();
    const auto chosen = Choose(60);
    EXPECT_TRUE(chosen) << chosen.error().message();
    return *chosen;
  };
  const auto told = [&](const char* stage) { return stages.find(stage) != std::string::npos; };
  // Conversions until 0.4 of 60 s.
  steps_end_s = 24;
  begin(-500);
  EXPECT_EQ(models, (std::vector<size_t>{4, 4})) << "the conversions, and the result";
  steps_end_s = 24.001;
  begin(-500);
  EXPECT_EQ(models, (std::vector<size_t>{2, 4})) << "a change of a layer, and the result";
  steps_end_s = 0;
  // What each layer loses until 0.5, the search until 0.8.
  when = {"measuring what each layer loses", 55};
  conversions_end_s = 30;
  begin(200);
  EXPECT_TRUE(told("measuring what each layer loses"));
  when = {"trying further plans", 55};
  conversions_end_s = 30.001;
  begin(200);
  EXPECT_FALSE(told("measuring what each layer loses"));
  EXPECT_TRUE(told("trying further plans"));
  conversions_end_s = 48;
  EXPECT_GT(begin(200).accuracies, 0);
  EXPECT_TRUE(told("measuring changes of single layers"));
  conversions_end_s = 48.001;
  const ChosenPlan untried = begin(200);
  EXPECT_TRUE(untried.out_of_time);
  EXPECT_FALSE(told("measuring changes of single layers"));
  EXPECT_FALSE(told("trying further plans"));
  conversions_end_s = 0;
  // Changes of single layers until 0.9: of nine, four are measured at a time.
  when = {"measuring changes of single layers", 54};
  begin(200);
  EXPECT_EQ(models, (std::vector<size_t>{4, 5, 4})) << "the first group's measuring takes time";
  EXPECT_FALSE(told("trying further plans"));
  when = {"", 0};
  // Whether the search ended by itself is asked at the end.
  contest_end_s = 48;
  EXPECT_FALSE(begin(-500).out_of_time);
  contest_end_s = 48.001;
  EXPECT_TRUE(begin(-500).out_of_time);
}

// Each look at the clock takes a second; measuring by steps ends at 16 s of which the looks before
// are a part.
TEST_F(ChooseTest, SchemesAndConversionsAreBuiltUntilTheirTimeIsUp) {
  size_t schemes = 0;
  std::vector<size_t> models;
  const auto runs = job_.runs;
  const auto steps = job_.steps;
  double steps_s = 0;
  job_.steps = [&](std::span<Runnable* const> e, const ShareOfTime&) {
    schemes = e.size();
    watch_.Work(1e3 * steps_s);
    return steps(e, {.seconds = 0, .limit_s = 0, .watch = &watch_});
  };
  job_.runs = [&](std::span<Runnable* const> e, const ShareOfTime&) {
    models.push_back(e.size());
    return runs(e, {.seconds = 0, .limit_s = 0, .watch = &watch_});
  };
  job_.limit = {100, -500};
  // The second scheme is asked for at the first look, after 0.3 of 60 s, the third at the second.
  watch_.look_ms = 18'000;
  ASSERT_TRUE(Choose(60));
  EXPECT_EQ(schemes, 2u);
  watch_.look_ms = 18'001;
  ASSERT_TRUE(Choose(60));
  EXPECT_EQ(schemes, 1u);
  // A look for each scheme but the first, one for the measurement; then one before the conversions
  // and one for each: the second of them (schemes + 3) s + steps_s in, the limit is 24 s.
  watch_.look_ms = 1000;
  const size_t all = std::ranges::count_if(AllSchemes(), [](auto* s) { return s->for_auto; });
  steps_s = 21 - static_cast<double>(all);
  models.clear();
  ASSERT_TRUE(Choose(60));
  EXPECT_EQ(schemes, all);
  EXPECT_EQ(models[0], 1u + 2u);
  steps_s += 0.001;
  models.clear();
  ASSERT_TRUE(Choose(60));
  EXPECT_EQ(models[0], 1u + 1u);
}

// A table, a GRU and a product. The last two take 3 ms each, 1 ms in int8; the table `table_ms_`, a
// narrow one `narrow_table_ms_`.
class WordsTest : public ::testing::Test {
 protected:
  Result<ChosenPlan> Choose(double min_sqnr_db) {
    const Graph net = MakeNet(R"(input %x: int64[6]
const %words: float32[40, 16]
words: %e: float32[6, 16] = Gather{axis=0}(%words, %x)
const %shape: int64[3] = [6, 1, 16]
view: %v: float32[6, 1, 16] = Reshape(%e, %shape)
const %w: float32[1, 192, 16]
const %r: float32[1, 192, 64]
cell: %y: float32[6, 1, 1, 64] = GRU{hidden_size=64}(%v, %w, %r)
const %flat: int64[2] = [6, 64]
flat: %f: float32[6, 64] = Reshape(%y, %flat)
const %o: float32[64, 16]
last: %z: float32[6, 16] = MatMul(%f, %o)
output %z
)");
    Samples samples;
    samples.inputs = {{Tensor::FromValues<int64_t>({1, 7, 39, 0, 7, 22})},
                      {Tensor::FromValues<int64_t>({11, 8, 9, 30, 17, 2})}};
    samples.labels.resize(2);
    EVOQ_ASSIGN(const auto engine, EngineFromGraph(net, {1, {}}));
    EVOQ_ASSIGN(const Answers reference, Answer(*engine, samples));
    ChooseJob job;
    job.graph = net;
    const auto each = [&](const std::function<Status(std::span<const Tensor>)>& use) -> Status {
      for (const auto& inputs : samples.inputs) EVOQ_TRY(use(inputs));
      return {};
    };
    EVOQ_ASSIGN(job.ranges, Calibrate(net, Reference(), each, {}));
    job.threads = 1;
    job.limit = {100, min_sqnr_db};
    job.watch = &watch_;
    job.steps = [this](std::span<Runnable* const> executors, const ShareOfTime&) {
      std::vector<std::vector<double>> ms;
      for (Runnable* e : executors) ms.push_back(Steps(e->program()));
      return Result<std::vector<std::vector<double>>>(ms);
    };
    job.runs = [this](std::span<Runnable* const> executors, const ShareOfTime&) {
      std::vector<double> ms;
      for (Runnable* e : executors) {
        const std::vector<double> steps = Steps(e->program());
        ms.push_back(std::accumulate(steps.begin(), steps.end(), 0.0));
        const Graph& graph = *e->program().graph;
        const auto is_float = [&](const char* name) {
          return graph.value(graph.node(graph.FindNode(name)).input(1)).type.dtype ==
                 DType::kFloat32;
        };
        if (!is_float("cell") && is_float("last")) ms.back() -= surprise_ms_;
      }
      return Result<std::vector<double>>(ms);
    };
    return ChoosePrecisions(job, samples, reference, Metric::kSqnr);
  }

  double narrow_ms_ = 1, table_ms_ = 0.1, narrow_table_ms_ = 0.1;
  double surprise_ms_ = 0;  // that whole runs take less with `last` alone in float32

 private:
  std::vector<double> Steps(const Program& program) const {
    std::vector<double> ms;
    for (const Step& step : program.steps) {
      const Node& node = program.graph->node(step.node);
      const bool narrow = step.decision.precision == Precision::kInt8;
      const bool table = node.name == "words", layer = node.name == "cell" || node.name == "last";
      ms.push_back(table   ? (narrow ? narrow_table_ms_ : table_ms_)
                   : layer ? (narrow ? narrow_ms_ : 3)
                           : 0);
    }
    return ms;
  }

  FakeWatch watch_;
};

// Recurrent layers are chosen for their speed, tables narrowed where that costs next to nothing,
// and both stay as they are where they would lose too much.
TEST_F(WordsTest, TablesAndRecurrentLayersAreChosen) {
  const auto fast = Choose(-500);
  ASSERT_TRUE(fast) << fast.error().message();
  EXPECT_NE(fast->plan.at("cell").scheme, "float32");
  EXPECT_NE(fast->plan.at("last").scheme, "float32");
  EXPECT_NE(fast->plan.at("words").scheme, "float32") << "as fast, and a quarter of the bytes";
  narrow_table_ms_ = 0.1 + 0.0609;  // 1% of the 6.1 ms of float32
  const auto paid = Choose(-500);
  ASSERT_TRUE(paid) << paid.error().message();
  EXPECT_NE(paid->plan.at("words").scheme, "float32");
  narrow_table_ms_ = 0.1 + 0.0615;
  const auto slow = Choose(-500);
  ASSERT_TRUE(slow) << slow.error().message();
  EXPECT_EQ(slow->plan.at("words").scheme, "float32");
  EXPECT_EQ(slow->plan.at("words").why.code, "slower-when-measured");
  narrow_table_ms_ = 0.1;
  const auto exact = Choose(200);
  ASSERT_TRUE(exact) << exact.error().message();
  for (const auto& [name, choice] : exact->plan) {
    EXPECT_EQ(choice.scheme, "float32") << name;
    EXPECT_EQ(choice.why.code, "layer-kept-float-by-budget")
        << name << " " << choice.why.ToString();
  }
}

// What whole runs show is why, not accuracy that nobody asked for.
TEST_F(WordsTest, WholeRunsOverruleSteps) {
  narrow_ms_ = 2.9;
  surprise_ms_ = 1;
  const auto chosen = Choose(-500);
  ASSERT_TRUE(chosen) << chosen.error().message();
  EXPECT_NE(chosen->plan.at("cell").scheme, "float32");
  EXPECT_EQ(chosen->plan.at("last").scheme, "float32");
  EXPECT_EQ(chosen->plan.at("last").why.ToString(),
            "slower-when-measured: int8 saves 0.1000 ms here, and whole runs are no faster");
}

class SpeedTest : public ::testing::Test {
 protected:
  std::shared_ptr<Executor> Make(const InputShapes& shapes, int threads) {
    auto engine = EngineFromGraph(MakeNet(kConvNet), {threads, shapes});
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
  EXPECT_LE(watch.wall_ms - start, 220) << "one round of two runs of each, with two looks each";
  start = watch.wall_ms;
  ASSERT_TRUE(CalmRuns(executors, {0.05, 100, &watch}).has_value());
  EXPECT_GE(watch.wall_ms - start, 7 * 2 * 2 * 2 * 10) << "seven rounds while there is time";
  start = watch.wall_ms;
  const auto steps = CalmSteps(executors, {0.05, 0.001, &watch});
  ASSERT_TRUE(steps.has_value());
  EXPECT_LE(watch.wall_ms - start, 80);
  ASSERT_EQ(steps->size(), 2u);
  EXPECT_EQ((*steps)[0].size(), executor->program().steps.size());
  start = watch.wall_ms;
  ASSERT_TRUE(CalmSteps(executors, {0, 100, &watch}).has_value());
  EXPECT_EQ(watch.wall_ms - start, 10 * (1 + 8 * 2 * 2 + 7 + 1))
      << "at the start, around eight rounds of two runs, before each but the first, at the end";
  // Whole runs take 10 ms on this clock: so do the steps together.
  EXPECT_NEAR(std::accumulate((*steps)[0].begin(), (*steps)[0].end(), 0.0), 10, 1e-6);
}

// Each look takes a millisecond more than the one before: the whole runs of one model take 3, 6, 9
// to 24 ms. The first one does not count; the lower quartile of the other seven, linearly between
// the second and the third, is 10.5 ms. Without time for another round the first one counts.
// A model takes 1 ms where it ran last, else 2.
class Cached : public Runnable {
 public:
  Cached(FakeWatch& watch, const Cached*& last) : watch_(watch), last_(last) {}
  Result<std::unique_ptr<Runnable>> Fresh(std::shared_ptr<ThreadPool>) const override {
    return Fail(ErrorCode::kInternal, "not asked for");
  }
  const Program& program() const override { return program_; }
  const std::vector<KernelPlan>& plans() const override { return plans_; }
  int threads() const override { return 1; }
  const std::vector<TensorType>& input_types() const override { return types_; }
  const std::vector<TensorType>& output_types() const override { return types_; }
  int64_t arena_bytes() const override { return 0; }
  Status Run(std::span<const Tensor>, std::span<Tensor>) override {
    watch_.Work(last_ == this ? 1 : 2);
    last_ = this;
    return {};
  }
  Status RunTimed(std::span<const Tensor>, std::span<Tensor>, std::span<int64_t>) override {
    return Fail(ErrorCode::kInternal, "not asked for");
  }

 private:
  FakeWatch& watch_;
  const Cached*& last_;
  const Program program_;
  const std::vector<KernelPlan> plans_;
  const std::vector<TensorType> types_;
};

TEST_F(SpeedTest, RunsFollowRunsOfTheSameModel) {
  FakeWatch watch;
  const Cached* last = nullptr;
  Cached a(watch, last), b(watch, last);
  Runnable* const both[] = {&a, &b};
  const auto ms = CalmRuns(both, {0.05, 100, &watch});
  ASSERT_TRUE(ms.has_value()) << ms.error().message();
  EXPECT_EQ(*ms, (std::vector<double>{1, 1}));
  const auto alone = CalmRuns(std::span(both, 1), {0.05, 100, &watch});
  ASSERT_TRUE(alone.has_value());
  EXPECT_EQ(*alone, (std::vector<double>{1}));
}

TEST_F(SpeedTest, TheFirstRoundOnlyFillsTheCaches) {
  class Slowing : public FakeWatch {
   public:
    double WallMs() override {
      ++look_ms;
      return FakeWatch::WallMs();
    }
  };
  Runnable* const one[] = {Make({}, 1).get()};
  for (const double limit_s : {100.0, 0.0}) {
    Slowing watch;
    const auto steps = CalmSteps(one, {0, limit_s, &watch});
    ASSERT_TRUE(steps.has_value());
    EXPECT_NEAR(std::accumulate((*steps)[0].begin(), (*steps)[0].end(), 0.0),
                limit_s > 0 ? 10.5 : 3, 1e-9);
  }
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
