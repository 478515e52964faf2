// Which settings are tried for throughput, and that their figures are those of runs.
#include "workflow/throughput.h"

#include <gtest/gtest.h>

#include "workflow/tiny_testing.h"

namespace evoq {
namespace {

class Throughput : public TinyFolder {
 protected:
  std::string Free() {
    return Model("free.onnx",
                 "graph g\ninput %x: float32[N, 3]\nconst %w: float32[3, 2] = [1, 2, 3, 4, 5, 6]\n"
                 "m: %y: float32[N, 2] = MatMul(%x, %w)\noutput %y\n");
  }
  std::string Fixed() {
    return Model("fixed.onnx",
                 "graph g\ninput %x: float32[3, 3]\nr: %y: float32[3, 3] = Relu(%x)\noutput %y\n");
  }
  static ThroughputJob Job(const std::string& model, int cores, int streams = 0, int batch = 0) {
    return {model, {{}, {}, batch, true}, cores, streams, 0.001, {}};
  }
  static std::vector<ThroughputTrial> Tried(const ThroughputJob& job) {
    auto trials = TryThroughput(job);
    if (!trials) {
      ADD_FAILURE() << trials.error().message();
      return {};
    }
    for (const ThroughputTrial& t : *trials) {
      EXPECT_GT(t.per_second, 0);
      EXPECT_GT(t.p50_ms, 0);
      EXPECT_EQ(t.setting.streams * t.setting.threads, job.cores);
    }
    return *trials;
  }
};

// Every divisor of the cores, each with batches that double until two in a row did not do more.
TEST_F(Throughput, SettingsFillTheCores) {
  const std::vector<ThroughputTrial> trials = Tried(Job(Free(), 4));
  std::vector<int> streams;
  for (size_t i = 0; i < trials.size(); ++i) {
    const bool first = i == 0 || trials[i].setting.streams != trials[i - 1].setting.streams;
    if (first) streams.push_back(trials[i].setting.streams);
    EXPECT_EQ(trials[i].batch, first ? 1 : 2 * trials[i - 1].batch);
    EXPECT_EQ(trials[i].batch, trials[i].setting.batch);
    EXPECT_LE(trials[i].batch, 64);
  }
  EXPECT_EQ(streams, (std::vector<int>{1, 2, 4}));
  for (const ThroughputTrial& t : trials) EXPECT_LE(t.per_second, Best(trials).per_second);
}

TEST(ThroughputBatches, EndBehindTwoThatDidNoMore) {
  for (const std::vector<double>& tried :
       {std::vector<double>{}, {1}, {1, 1}, {1, 2, 1}, {1, 2, 1, 3}, {1, 1, 2, 2}})
    EXPECT_TRUE(TriesLarger(tried)) << tried.size();
  for (const std::vector<double>& tried :
       {std::vector<double>{1, 1, 1}, {3, 2, 1}, {3, 1, 2}, {1, 2, 1, 1.5}})
    EXPECT_FALSE(TriesLarger(tried)) << tried.size();
}

TEST_F(Throughput, WhatIsNamedIsKept) {
  std::vector<ThroughputTrial> trials = Tried(Job(Free(), 2, 2, 5));
  ASSERT_EQ(trials.size(), 1);
  EXPECT_EQ(trials[0].batch, 5);
  EXPECT_EQ(trials[0].setting.streams, 2);
  ThroughputJob on_file = Job(Free(), 1);
  on_file.what.inputs = {{"x", Values("x.npy", Shape{2, 3}, {1, 2, 3, 4, 5, 6})}};
  trials = Tried(on_file);
  ASSERT_EQ(trials.size(), 1) << "the file's";
  EXPECT_EQ(trials[0].batch, 2);
  trials = Tried(Job(Fixed(), 2));
  ASSERT_EQ(trials.size(), 2) << "one batch, one and two streams";
  for (const ThroughputTrial& t : trials) EXPECT_EQ(t.batch, 3);
  const auto refused = TryThroughput(Job(Free(), 3, 2));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "2 streams: expected a divisor of 3 threads");
  EXPECT_EQ(refused.error().code(), ErrorCode::kUsage);
  EXPECT_FALSE(TryThroughput(Job(Fixed(), 2, 0, 4))) << "a batch that the model does not take";
}

TEST_F(Throughput, PartitionsHaveOneStream) {
  const std::string places =
      Model("places.onnx",
            "graph g\ninput %x: float32[2, 3]\np: %y: int64[2, ?] = NonZero(%x)\noutput %y\n");
  const std::vector<ThroughputTrial> trials = Tried(Job(places, 2));
  ASSERT_EQ(trials.size(), 1);
  EXPECT_EQ(trials[0].setting.streams, 1);
  EXPECT_EQ(trials[0].setting.threads, 2);
  const auto refused = TryThroughput(Job(places, 2, 2));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kUsage);
  EXPECT_TRUE(refused.error().message().starts_with(
      "--streams 2: " + places + " runs in dynamic partitions, one stream at a time ("))
      << refused.error().message();
}

// Larger batches are tried where a model runs at them, whatever inputs it has besides.
TEST_F(Throughput, BatchesAtWhichTheModelRuns) {
  const std::string scaled = Model("scaled.onnx",
                                   "graph g\ninput %x: float32[N, 3]\ninput %s: float32[]\n"
                                   "m: %y: float32[N, 3] = Mul(%x, %s)\noutput %y\n");
  EXPECT_GE(Tried(Job(scaled, 1)).size(), 3);
  const std::string alone = Model("alone.onnx",
                                  "graph g\ninput %x: float32[N, 4]\nconst %s: int64[2] = [2, 2]\n"
                                  "r: %y: float32[2, 2] = Reshape(%x, %s)\noutput %y\n");
  const std::vector<ThroughputTrial> trials = Tried(Job(alone, 2));
  ASSERT_EQ(trials.size(), 2) << "one and two streams";
  for (const ThroughputTrial& t : trials) EXPECT_EQ(t.batch, 1);
}

}  // namespace
}  // namespace evoq
