// Tasks are followed, and end where their caller says so, without a file.
#include "workflow/follow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "workflow/compare.h"
#include "workflow/compile.h"
#include "workflow/evaluate.h"
#include "workflow/explain.h"
#include "workflow/optimize.h"
#include "workflow/predict.h"
#include "workflow/quantize.h"
#include "workflow/tiny_testing.h"

namespace evoq {
namespace {

TEST(Follow, NobodyFollows) { EXPECT_TRUE(Follow().At("loading", 0)); }

TEST(Follow, TellsAndAsks) {
  std::vector<std::pair<std::string, double>> told;
  bool stop = false;
  Follow follow;
  follow.progress = [&](const std::string& stage, double f) { told.emplace_back(stage, f); };
  follow.cancelled = [&] { return stop; };
  EXPECT_TRUE(follow.At("loading", 0));
  EXPECT_TRUE(follow.Stage("running")(0.5));
  stop = true;
  const Status stopped = follow.Stages()("searching", 0.75);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().message(), "cancelled while searching");
  EXPECT_EQ(stopped.error().code(), ErrorCode::kConditionFailed);
  EXPECT_EQ(told, (std::vector<std::pair<std::string, double>>{
                      {"loading", 0}, {"running", 0.5}, {"searching", 0.75}}));
}

class Tasks : public TinyFolder {
 protected:
  void SetUp() override {
    TinyFolder::SetUp();
    model_ = Model("model.onnx",
                   "graph g\ninput %x: float32[N, 3]\n"
                   "const %w: float32[3, 2] = [1, 2, 3, 4, 5, 6]\n"
                   "m: %y: float32[N, 2] = MatMul(%x, %w)\noutput %y\n");
    rows_ = Values("rows.npy", Shape{4, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3});
  }

  // Runs the task to its end, then once for each stage that it told, stopped there.
  void StopAtEachStage(const std::string& output,
                       const std::function<Status(const Follow& follow)>& task,
                       const std::vector<std::string>& wanted) {
    std::vector<std::string> stages;
    Follow follow;
    follow.progress = [&](const std::string& stage, double fraction) {
      EXPECT_GE(fraction, 0) << stage;
      EXPECT_LE(fraction, 1 + 1e-9) << stage;
      if (std::find(stages.begin(), stages.end(), stage) == stages.end()) stages.push_back(stage);
    };
    const Status done = task(follow);
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_EQ(stages, wanted);
    if (!output.empty()) {
      EXPECT_TRUE(std::filesystem::remove(output)) << output;
    }
    const auto before = Files();
    for (const std::string& at : stages) {
      bool reached = false;
      int asked = 0;
      Follow stopper;
      stopper.progress = [&](const std::string& stage, double) { reached |= stage == at; };
      stopper.cancelled = [&] {
        asked += reached;
        return reached;
      };
      const Status stopped = task(stopper);
      ASSERT_FALSE(stopped) << at;
      EXPECT_EQ(stopped.error().code(), ErrorCode::kConditionFailed) << at;
      EXPECT_NE(stopped.error().message().find("cancelled while " + at), std::string::npos)
          << stopped.error().message();
      EXPECT_EQ(asked, 1) << at;
      EXPECT_EQ(Files(), before) << at;
    }
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  template <typename T>
  static Status Outcome(const Result<T>& result) {
    return result ? Status() : Status(tl::unexpected(result.error()));
  }

  std::string model_, rows_;
};

TEST_F(Tasks, Quantize) {
  QuantizeJob job;
  job.model = model_;
  job.output = At("out.etm");
  job.calib = {rows_};
  job.threads = 1;
  const auto task = [&](const Follow& follow) { return Outcome(Quantize(job, follow)); };
  StopAtEachStage(
      job.output, task,
      {"loading", "calibrating", "quantizing", "compiling", "checking outputs", "writing"});
  job.output = At("out.onnx");
  StopAtEachStage(job.output, task, {"loading", "calibrating", "quantizing", "writing"});
  job.ranges_out = At("ranges.json");
  Follow at_the_end;
  std::string now;
  at_the_end.progress = [&](const std::string& stage, double) { now = stage; };
  at_the_end.cancelled = [&] { return now == "writing"; };
  EXPECT_FALSE(Quantize(job, at_the_end));
  EXPECT_FALSE(std::filesystem::exists(job.ranges_out));
  EXPECT_TRUE(Quantize(job));
  EXPECT_TRUE(std::filesystem::exists(job.ranges_out));
}

TEST_F(Tasks, QuantizeWithAPromise) {
  QuantizeJob job;
  job.model = model_;
  job.output = At("out.etm");
  job.data = {rows_};
  job.promise.max_drop = 100;
  job.measure_s = 0.05;
  job.threads = 1;
  StopAtEachStage(job.output, [&](const Follow& follow) { return Outcome(Quantize(job, follow)); },
                  {"loading", "calibrating", "running the float model", "measuring accuracy",
                   "measuring speed", "writing"});
}

TEST_F(Tasks, CompileAndOptimize) {
  const CompileJob compile{.model = model_, .output = At("out.etm"), .threads = 1};
  StopAtEachStage(compile.output,
                  [&](const Follow& follow) { return Outcome(Compile(compile, follow)); },
                  {"loading", "compiling", "writing"});
  const OptimizeJob optimize{.model = model_, .output = At("out.onnx")};
  StopAtEachStage(optimize.output,
                  [&](const Follow& follow) { return Outcome(Optimize(optimize, follow)); },
                  {"loading", "optimizing", "writing"});
}

TEST_F(Tasks, Measurements) {
  EvalJob eval;
  eval.model = model_;
  eval.data = {rows_};
  eval.predictions = At("classes.tsv");
  eval.threads = 1;
  StopAtEachStage(eval.predictions,
                  [&](const Follow& follow) { return Outcome(Evaluate(eval, follow)); },
                  {"evaluating"});
  ExplainJob explain;
  explain.model = explain.baseline = model_;
  explain.duration_s = 0.01;
  explain.report = At("report.html");
  explain.threads = 1;
  StopAtEachStage(
      explain.report, [&](const Follow& follow) { return Outcome(Explain(explain, follow)); },
      {"loading", "quantizing the baseline", "measuring the machine's limits", "measuring"});
  CompareJob compare;
  compare.a = compare.b = model_;
  compare.duration_s = 0.05;
  compare.warmup_ms = 1;
  compare.rounds = 3;
  compare.report = At("report.html");
  compare.threads = 1;
  StopAtEachStage(compare.report,
                  [&](const Follow& follow) { return Outcome(Compare(compare, follow)); },
                  {"loading", "comparing", "measuring steps"});
  PredictJob predict;
  predict.model = model_;
  predict.schemes = {"int8"};
  predict.threads = 1;
  StopAtEachStage("", [&](const Follow& follow) { return Outcome(Predict(predict, follow)); },
                  {"loading", "measuring the machine's limits", "predicting"});
}

// Tuning stops between its rounds.
TEST_F(Tasks, Tuning) {
  ::setenv("EVOQ_TUNING_CACHE", "", 1);  // what was measured is not measured again
  CompileJob compile{.model = model_, .output = At("out.etm"), .shapes = {{"x", {64, 3}}}};
  compile.tune = true;
  compile.threads = 2;  // one of them is the other choice
  const auto task = [&](const Follow& follow) { return Outcome(Compile(compile, follow)); };
  StopAtEachStage(compile.output, task, {"loading", "compiling", "tuning", "writing"});
  // Rounds are asked too, not only the beginning of the stage.
  int asked = 0, told = 0;
  Follow stopper;
  stopper.progress = [&](const std::string& stage, double) { told += stage == "tuning"; };
  stopper.cancelled = [&] { return told > 1 && ++asked; };
  const Status stopped = task(stopper);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), ErrorCode::kConditionFailed);
  EXPECT_NE(stopped.error().message().find("cancelled while tuning"), std::string::npos);
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(std::filesystem::exists(compile.output));
  ::unsetenv("EVOQ_TUNING_CACHE");
}

// What a command line refuses before it begins, callers in this process are refused too.
TEST_F(Tasks, OptionsThatDoNotFit) {
  const auto refused = [&](const std::function<void(QuantizeJob&)>& spoil) {
    QuantizeJob job;
    job.model = model_;
    job.output = At("out.etm");
    job.calib_random = 1;
    spoil(job);
    const auto done = Quantize(job);
    if (done) return std::string("done");
    EXPECT_EQ(done.error().code(), ErrorCode::kUsage);
    EXPECT_FALSE(std::filesystem::exists(job.output));
    return done.error().message();
  };
  EXPECT_EQ(refused([](QuantizeJob& job) { job.calib_limit = -1; }),
            "--calib-limit -1: expected at least 0");
  EXPECT_EQ(refused([](QuantizeJob& job) { job.data_limit = -2; }),
            "--data-limit -2: expected at least 0");
  EXPECT_EQ(refused([](QuantizeJob& job) { job.calib_random = -3; }),
            "--calib-random -3: expected at least 0");
  EXPECT_EQ(refused([](QuantizeJob& job) { job.search_s = 0; }),
            "--search-s 0: expected more than 0");
  EXPECT_EQ(refused([](QuantizeJob& job) { job.measure_s = std::nan(""); }),
            "--measure-s nan: expected more than 0");
  EXPECT_EQ(refused([](QuantizeJob& job) { job.promise.max_drop = 101; }),
            "--max-drop 101: expected 0 to 100");
  EXPECT_EQ(refused([](QuantizeJob& job) { job.target = "nobody"; }),
            "--target nobody: no runtime that an .onnx is written for");
  EXPECT_EQ(refused([](QuantizeJob& job) {
              job.method = "equalize";
              job.encodings = "a.encodings";
            }),
            "--method equalize changes the numbers that --encodings a.encodings is about");
  EXPECT_EQ(refused([](QuantizeJob& job) {
              job.method = kAutoMethod;
              job.encodings = "a.encodings";
            }),
            "--method auto tries methods that do not go with --encodings a.encodings");
  EXPECT_EQ(
      refused([](QuantizeJob& job) { job.method = kAutoMethod; }),
      model_ + ": --method auto judges by every 4th sample and was given 1: it needs 4 or more");
  EXPECT_EQ(refused([](QuantizeJob& job) {
              job.method = "bias-correction";
              job.encodings_out = "a.encodings";
            }),
            "--method bias-correction: --encodings-out writes parameters, from which other tools "
            "round to nearest");
  EXPECT_EQ(refused([](QuantizeJob& job) { job.threads = -1; }), "-1 threads, expected 0 to 1024");
  EXPECT_EQ(refused([](QuantizeJob& job) { job.shapes = {{"x", {0, 3}}}; }),
            "shape of x: dimension 0 has size 0, expected at least 1");
}

}  // namespace
}  // namespace evoq
