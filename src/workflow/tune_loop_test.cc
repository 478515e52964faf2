// `tune` on a small model: what its stages do, what is kept, what validation refuses.
#include "workflow/tune_loop.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "graph/run_choices.h"
#include "models/models.h"
#include "program/etm.h"
#include "workflow/deployment_testing.h"

namespace evoq {
namespace {

using nlohmann::json;

class TuneLoopTest : public DeploymentTest {
 protected:
  TuneLoopJob Job() {
    TuneLoopJob job{.model = At("in.onnx"), .output = At("out.etm")};
    job.threads = 1;
    job.duration_s = 0.3;
    return job;
  }
};

TEST_F(TuneLoopTest, GoesThroughTheStages) {
  TuneLoopJob job = Job();
  job.report = At("tuned.html");
  const auto tuned = TuneLoop(job);
  ASSERT_TRUE(tuned) << tuned.error().message();
  EXPECT_GT(tuned->steps_before, tuned->steps_after);
  EXPECT_GT(tuned->arena_before, 0);
  EXPECT_FALSE(tuned->passes.empty());
  EXPECT_GT(tuned->graph.a_ms, 0);
  EXPECT_GT(tuned->whole.b_ms, 0);
  EXPECT_EQ(tuned->outputs.samples, 4);
  EXPECT_GE(tuned->outputs.sqnr_db, job.min_sqnr_db);
  EXPECT_TRUE(tuned->trials.empty());
  ASSERT_FALSE(tuned->slowest.empty());
  EXPECT_LE(tuned->slowest.size(), 5);

  const Told told = Tell(*tuned);
  std::vector<std::string> stages;
  for (const json& stage : told.json["stages"]) stages.push_back(stage["stage"]);
  EXPECT_EQ(stages, (std::vector<std::string>{"baseline", "graph", "operators", "validation"}));
  const auto page = ReadTextFile(At("tuned.html"), size_t{1} << 24);
  ASSERT_TRUE(page);
  EXPECT_NE(page->find("\"stages\""), std::string::npos);
  EXPECT_NE(page->find("in.onnx, as it is"), std::string::npos);
  EXPECT_EQ(page->find("evoq_tune_"), std::string::npos);  // no path of the stages' files

  const auto model = ReadEtm(At("out.etm"));
  ASSERT_TRUE(model);
  EXPECT_EQ(ChoiceOf(model->graph, kStrategyChoice), "latency");
  EXPECT_EQ(model->plans.at(0).decisions.size(), tuned->steps_after);
}

TEST_F(TuneLoopTest, LooksForStreams) {
  TuneLoopJob job = Job();
  job.strategy = "throughput";
  const auto tuned = TuneLoop(job);
  ASSERT_TRUE(tuned) << tuned.error().message();
  ASSERT_FALSE(tuned->trials.empty());
  const auto model = ReadEtm(At("out.etm"));
  ASSERT_TRUE(model);
  EXPECT_EQ(ChoiceOf(model->graph, kStrategyChoice), "throughput");
  EXPECT_EQ(ChosenStreams(model->graph)->streams, Best(tuned->trials).setting.streams);
  EXPECT_EQ(Tell(*tuned).json["stages"].size(), 5);
}

TEST_F(TuneLoopTest, ValidationRefuses) {
  TuneLoopJob job = Job();
  job.min_sqnr_db = 1000;
  const auto refused = TuneLoop(job);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kConditionFailed);
  EXPECT_FALSE(std::filesystem::exists(At("out.etm")));
}

TEST_F(TuneLoopTest, WrongOptions) {
  TuneLoopJob job = Job();
  job.strategy = "fast";
  EXPECT_EQ(TuneLoop(job).error().message(),
            "--strategy fast: expected latency, balanced, throughput");
  job = Job();
  job.duration_s = 0;
  EXPECT_FALSE(TuneLoop(job));
  job = Job();
  job.output = At("no/out.etm");
  EXPECT_FALSE(TuneLoop(job));
  job = Job();
  job.model = At("nosuch.onnx");
  EXPECT_FALSE(TuneLoop(job));
}

}  // namespace
}  // namespace evoq
