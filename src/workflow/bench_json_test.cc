// Figures of `bench`, on made-up times.
#include "workflow/bench_json.h"

#include <gtest/gtest.h>

#include <chrono>

#include "models/models.h"

namespace evoq {
namespace {

std::unique_ptr<Engine> WithBatch(int64_t batch, int threads) {
  auto graph = ParseGraph(fmt::format(R"(graph net
input %x: float32[{0}, 3, 16, 16]
const %w: float32[4, 3, 3, 3]
conv: %y: float32[{0}, 4, 14, 14] = Conv(%x, %w)
relu: %z: float32[{0}, 4, 14, 14] = Relu(%y)
output %z
)",
                                      batch));
  EXPECT_TRUE(graph) << graph.error().message();
  auto engine = EngineFromGraph(std::move(*graph), {threads, {}});
  EXPECT_TRUE(engine) << engine.error().message();
  return std::move(*engine);
}

TEST(BenchJson, SamplesPerSecondAddUpOverStreams) {
  const auto engine = WithBatch(8, 1);
  const auto executor = engine->Default();
  ASSERT_TRUE(executor) << executor.error().message();
  EXPECT_EQ(BatchOf(**executor), 8);
  // One stream had runs of 2 ms in the mean, the other, which was disturbed, one of 10.
  const RunTimes streams[] = {{{1, 2, 3}}, {{10}}};
  const RunTimes all{{1, 2, 3, 10}};  // mean 4 ms, median 2.5
  const nlohmann::json json = BenchJson("net.onnx", **executor, engine->isa(), streams, all, 7.5);
  EXPECT_DOUBLE_EQ(json["per_second"], 8 * 1000.0 / 2 + 8 * 1000.0 / 10);
  EXPECT_EQ(json["batch"], 8);
  EXPECT_EQ(json["streams"], 2);
  EXPECT_EQ(json["threads"], 1);
  EXPECT_EQ(json["runs"], 4);
  EXPECT_DOUBLE_EQ(json["p50_ms"], 2.5);
  EXPECT_DOUBLE_EQ(json["mean_ms"], 4);
  EXPECT_DOUBLE_EQ(json["min_ms"], 1);
  EXPECT_DOUBLE_EQ(json["p90_ms"], 3 + 0.7 * 7) << "rank 2.7 of 0 to 3";
  EXPECT_DOUBLE_EQ(json["p95_ms"], 3 + 0.85 * 7);
  EXPECT_DOUBLE_EQ(json["p99_ms"], 3 + 0.97 * 7);
  EXPECT_DOUBLE_EQ(json["load_ms"], 7.5);
  EXPECT_EQ(json["weight_bytes"], (*executor)->program().weight_bytes);
}

// Two streams on one processor take it from each other between their runs: what either measures
// of a run is what it takes alone.
TEST(BenchJson, StreamsThatWaitBetweenTheirRuns) {
  const auto stream = [](double begin) {
    RunTimes times{{2, 2, 2, 2, 2, 2}};
    for (int i = 0; i < 6;
         ++i)  // 0.01 ms of measuring between runs, after each second one a wait of 4 ms
      times.spans.push_back({begin + 2.01 * i + 4 * (i / 2), 2});
    return times;
  };
  const RunTimes streams[] = {stream(0), stream(4)};
  EXPECT_NEAR(PerSecond(streams, 3), 2 * 3 * 6 * 1e3 / (6 * 2 + 2 * 4), 1e-9);
  EXPECT_NEAR(PerSecond(std::span(streams, 1), 3), 3 * 1e3 / 2, 1e-9) << "measured in turn";
  // After each run: no gap is as short as measuring.
  RunTimes turns{{2, 2, 2}, {{0, 2}, {4, 2}, {8, 2}}};
  const RunTimes pair[] = {turns, turns};
  EXPECT_NEAR(PerSecond(pair, 1), 2 * 3 * 1e3 / (3 * 2 + 2 * (2 - 0.02)), 1e-9);
}

TEST(TimedRuns, OfSeveralLanesAreTheMeanOverThem) {
  // Eight samples on four threads, each with whole runs: what a step takes is the mean over the
  // lanes, so the steps of a run take no longer together than the run.
  const auto engine = WithBatch(1, 1);
  const auto one = engine->Default();
  ASSERT_TRUE(one) << one.error().message();
  const std::shared_ptr<const Program> program(*one, &(*one)->program());
  const auto executor =
      Executor::Create(program, {.threads = 4, .isa = engine->isa(), .repeats = 8});
  ASSERT_TRUE(executor) << executor.error().message();
  EXPECT_EQ((*executor)->repeats(), 8);
  RunBuffers buffers = MakeBuffers(**executor);
  std::vector<int64_t> ns((*executor)->program().steps.size());
  ASSERT_FALSE(ns.empty());
  for (int i = 0; i < 20; ++i) {
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE((*executor)->RunTimed(buffers.inputs, buffers.outputs, ns));
    const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(
                          std::chrono::steady_clock::now() - start)
                          .count();
    int64_t sum = 0;
    for (int64_t step : ns) {
      EXPECT_GE(step, 0);
      sum += step;
    }
    EXPECT_GT(sum, 0);
    EXPECT_LE(sum, took);
  }
}

}  // namespace
}  // namespace evoq
