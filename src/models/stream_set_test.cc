// Streams of a model: which runs go on, that a run is told of exactly once, and that being held up,
// cancelled or late changes nothing for others.
#include "engine/stream_set.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <random>

#include "models/models.h"
#include "reference/test_graph.h"

namespace evoq {
namespace {

using Clock = StreamSet::Clock;
using Ending = StreamSet::Ending;

constexpr int64_t kWidth = 64;

// A run of many steps, each of which gives the rows other numbers.
std::string Chain(int steps) {
  std::string text = fmt::format("input %x0: float32[\"N\", {}]\n", kWidth);
  for (int i = 0; i < steps; ++i)
    text += fmt::format("s{}: %x{}: float32[\"N\", {}] = Softmax(%x{})\n", i, i + 1, kWidth, i);
  return text + fmt::format("output %x{}\n", steps);
}

std::unique_ptr<StreamSet> Made(const std::string& text, StreamSetOptions options) {
  auto engine = EngineFromGraph(Parsed(text), {.threads = 1});
  EXPECT_TRUE(engine) << engine.error().message();
  return std::make_unique<StreamSet>(std::move(*engine), std::move(options));
}

Tensor Rows(int64_t rows, int seed) {
  Tensor x = Tensor::Allocate(TensorType(DType::kFloat32, Shape{rows, kWidth}));
  for (int64_t i = 0; i < x.elements(); ++i)
    x.mutable_data<float>()[i] = static_cast<float>((i * 7 + seed) % 13) - 6;
  return x;
}

struct Told {
  StreamSet::Outputs outputs;
  Ending ending;
};

// A run of which the test waits to hear.
class Asked {
 public:
  Asked(StreamSet& streams, int stream, Tensor x,
        std::optional<Clock::time_point> deadline = std::nullopt) {
    auto told = std::make_shared<std::promise<Told>>();
    future_ = told->get_future();
    auto asked = streams.Submit(
        stream, {std::move(x)},
        [told](StreamSet::Outputs outputs, Ending ending) {
          told->set_value({std::move(outputs), ending});
        },
        deadline);
    EXPECT_TRUE(asked) << asked.error().message();
    id_ = asked.value_or(0);
  }
  StreamSet::RunId id() const { return id_; }
  bool ended() const {
    return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  Told Get() { return future_.get(); }

 private:
  std::future<Told> future_;
  StreamSet::RunId id_ = 0;
};

// Until so many runs have begun; or one of those that are to has ended already.
void AwaitRunning(const StreamSet& streams, int count, const Asked& one) {
  while (streams.running() < count && !one.ended()) std::this_thread::yield();
}

TEST(StreamSet, RunsGiveWhatSingleRunsGive) {
  const std::string text = Chain(5);
  auto engine = EngineFromGraph(Parsed(text), {.threads = 1});
  ASSERT_TRUE(engine);
  for (const bool share : {true, false}) {
    const auto streams = Made(text, {.priorities = {0, 1, 1}, .at_once = 2, .share_arenas = share});
    EXPECT_EQ(streams->streams(), 3);
    std::vector<Asked> asked;
    for (int i = 0; i < 30; ++i) asked.emplace_back(*streams, i % 3, Rows(1 + i % 4, i));
    for (int i = 0; i < 30; ++i) {
      const Tensor x = Rows(1 + i % 4, i);
      const Told told = asked[i].Get();
      ASSERT_TRUE(told.outputs) << told.outputs.error().message();
      EXPECT_EQ(told.ending, Ending::kRan);
      const auto expected = (*engine)->Run(std::span(&x, 1));
      ASSERT_TRUE(expected);
      EXPECT_TRUE(BitEqual((*told.outputs)[0], (*expected)[0]));
    }
  }
}

TEST(StreamSet, RunsOfAStreamFollowEachOther) {
  const auto streams = Made(Chain(3), {.priorities = {0, 0}, .at_once = 2});
  std::mutex mutex;
  std::vector<int> order[2];
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(streams->Submit(i % 2, {Rows(1 + i % 5, i)}, [&, i](StreamSet::Outputs, Ending) {
      const std::lock_guard lock(mutex);
      order[i % 2].push_back(i);
    }));
  }
  streams->Wait();
  for (const auto& one : order) {
    EXPECT_EQ(one.size(), 20);
    EXPECT_TRUE(std::ranges::is_sorted(one));
  }
}

// A run of a stream that is not urgent, and one of an urgent one that takes three times as long:
// with one run at a time the first is held up, so that it ends after the other one, and then gives
// what it gives without being held up.
TEST(StreamSet, AnUrgentRunHoldsUpAnother) {
  const std::string text = Chain(400);
  const auto streams = Made(text, {.priorities = {5, 1}, .at_once = 1});
  const Tensor x = Rows(100, 1);
  Asked first(*streams, 0, x);
  const Tensor expected = (*first.Get().outputs)[0];
  bool held_up = false;
  for (int attempt = 0; attempt < 100 && !held_up; ++attempt) {
    Asked goes_on(*streams, 0, x);
    AwaitRunning(*streams, 1, goes_on);
    Asked waits(*streams, 0, x), urgent(*streams, 1, Rows(300, 2));
    EXPECT_TRUE(BitEqual((*goes_on.Get().outputs)[0], expected));
    held_up = urgent.ended();
    EXPECT_TRUE(BitEqual((*waits.Get().outputs)[0], expected));
    ASSERT_TRUE(urgent.Get().outputs);
  }
  EXPECT_TRUE(held_up);
}

TEST(StreamSet, PrioritiesChange) {
  const auto streams = Made(Chain(400), {.priorities = {0, 1}, .at_once = 1});
  EXPECT_FALSE(streams->SetPriority(2, 0));
  EXPECT_FALSE(streams->SetPriority(-1, 0));
  // The other one looks where it ends, not this thread, which a busy machine may hold up for longer
  // than a run takes: only what has begun and is not over can be cancelled. Where this thread comes
  // too late with the priority, the long one ends first, and the next attempt's takes longer.
  bool overtaken = false;
  for (int attempt = 0; attempt < 10 && !overtaken; ++attempt) {
    ASSERT_TRUE(streams->SetPriority(1, 1));
    Asked long_one(*streams, 0, Rows(8000 * (1 + attempt), 1));
    AwaitRunning(*streams, 1, long_one);
    std::promise<bool> other;
    ASSERT_TRUE(
        streams->Submit(1, {Rows(100, 2)}, [&](const StreamSet::Outputs& outputs, Ending ending) {
          EXPECT_TRUE(outputs);
          EXPECT_EQ(ending, Ending::kRan);
          other.set_value(streams->Cancel(long_one.id()));
        }));
    ASSERT_TRUE(streams->SetPriority(1, -1));
    overtaken = other.get_future().get();
    const Told told = long_one.Get();
    EXPECT_EQ(told.ending, overtaken ? Ending::kCancelled : Ending::kRan);
    EXPECT_EQ(told.outputs.has_value(), !overtaken);
  }
  EXPECT_TRUE(overtaken);
  // What is held up that way, or not, runs to its end where nobody cancels it.
  ASSERT_TRUE(streams->SetPriority(1, 1));
  Asked long_one(*streams, 0, Rows(4000, 1));
  AwaitRunning(*streams, 1, long_one);
  Asked other(*streams, 1, Rows(100, 2));
  ASSERT_TRUE(streams->SetPriority(1, -1));
  EXPECT_TRUE(other.Get().outputs);
  EXPECT_TRUE(long_one.Get().outputs);
}

TEST(StreamSet, CancelledRunsReleaseTheirPlace) {
  const auto streams = Made(Chain(400), {.priorities = {0}, .queue = 2});
  Asked runs(*streams, 0, Rows(300, 1));
  Asked waits(*streams, 0, Rows(300, 2));
  EXPECT_TRUE(streams->Cancel(waits.id()));
  EXPECT_FALSE(streams->Cancel(waits.id()));
  const Told told = waits.Get();
  EXPECT_EQ(told.ending, Ending::kCancelled);
  ASSERT_FALSE(told.outputs);
  EXPECT_EQ(told.outputs.error().code(), ErrorCode::kConditionFailed);
  EXPECT_EQ(told.outputs.error().message(), "the run was cancelled");
  Asked after(*streams, 0, Rows(1, 3));
  if (streams->Cancel(runs.id())) {
    EXPECT_EQ(runs.Get().ending, Ending::kCancelled);
  }
  EXPECT_TRUE(after.Get().outputs);
  streams->Wait();
  EXPECT_FALSE(streams->Cancel(after.id()));
  EXPECT_FALSE(streams->Cancel(12345));
}

// The same of a run that has begun, which ends behind the step that it is at.
TEST(StreamSet, ARunEndsBetweenItsSteps) {
  const auto streams = Made(Chain(400), {.priorities = {0, 0}, .at_once = 2});
  bool cut = false;
  for (int attempt = 0; attempt < 100 && !cut; ++attempt) {
    Asked stopped(*streams, 1, Rows(1000, 1));
    AwaitRunning(*streams, 1, stopped);
    Asked whole(*streams, 0, Rows(1000, 1));
    streams->Cancel(stopped.id());
    cut = stopped.Get().ending == Ending::kCancelled && !whole.ended();
    EXPECT_TRUE(whole.Get().outputs);
  }
  EXPECT_TRUE(cut);
}

TEST(StreamSet, LateRunsAreGivenUp) {
  const auto streams = Made(Chain(400), {.priorities = {0, 1}, .at_once = 1});
  const auto now = Clock::now();
  Asked runs(*streams, 0, Rows(300, 1));
  Asked in_time(*streams, 0, Rows(1, 1), now + std::chrono::hours(1));
  Asked late(*streams, 1, Rows(1, 2), now);
  Asked later(*streams, 1, Rows(1, 3), now + std::chrono::milliseconds(1));
  for (Asked* one : {&late, &later}) {
    const Told told = one->Get();
    EXPECT_EQ(told.ending, Ending::kLate);
    ASSERT_FALSE(told.outputs);
    EXPECT_EQ(told.outputs.error().message(), "the run has not ended at its deadline");
  }
  EXPECT_TRUE(runs.Get().outputs);
  EXPECT_TRUE(in_time.Get().outputs);
}

TEST(StreamSet, AsManyWaitAsMay) {
  const auto streams = Made(Chain(400), {.priorities = {0}, .queue = 3});
  int taken = 0;
  std::string refused;
  while (refused.empty() && taken < 10000) {
    const auto run = streams->Submit(0, {Rows(300, 1)}, [](StreamSet::Outputs, Ending) {});
    if (run) ++taken;
    if (!run) refused = run.error().message();
  }
  EXPECT_EQ(refused, "stream 0: 3 runs wait already, as many as may");
  EXPECT_GE(taken, 3);
  EXPECT_FALSE(streams->Submit(1, {Rows(1, 1)}, [](StreamSet::Outputs, Ending) {}));
}

TEST(StreamSet, AnErrorIsTold) {
  const auto streams = Made(Chain(2), {});
  Asked wrong(*streams, 0, Tensor::FromValues<float>(Shape{2}, {1, 2}));
  const Told told = wrong.Get();
  EXPECT_EQ(told.ending, Ending::kRan);
  EXPECT_FALSE(told.outputs);
  EXPECT_TRUE(Asked(*streams, 0, Rows(1, 1)).Get().outputs);
}

// Streams that never run at once need one arena; with memory of their own each has one.
TEST(StreamSet, ArenasAreShared) {
  int64_t bytes[2];
  for (const bool share : {true, false}) {
    const auto streams =
        Made(Chain(4), {.priorities = {0, 0, 0, 0}, .at_once = 1, .share_arenas = share});
    for (int i = 0; i < 40; ++i)
      ASSERT_TRUE(streams->Submit(i % 4, {Rows(100, i)}, [](StreamSet::Outputs, Ending) {}));
    streams->Wait();
    bytes[share] = streams->arena_bytes();
  }
  EXPECT_GT(bytes[1], 0);
  EXPECT_EQ(bytes[0], 4 * bytes[1]);
}

TEST(StreamSet, ClosingTellsOfAllRuns) {
  std::atomic<int> told = 0;
  {
    const auto streams = Made(Chain(400), {.priorities = {0, 1, 1}, .at_once = 1});
    for (int i = 0; i < 30; ++i) {
      std::optional<Clock::time_point> deadline;
      if (i % 2 == 1) deadline = Clock::now() + std::chrono::hours(1);
      ASSERT_TRUE(streams->Submit(
          i % 3, {Rows(100, i)}, [&](StreamSet::Outputs, Ending) { ++told; }, deadline));
    }
  }
  EXPECT_EQ(told, 30);
}

// Whatever happens at the same time: each run is told of once, with a result or a reason.
TEST(StreamSet, AnyMixture) {
  const std::string text = Chain(20);
  std::atomic<int> told = 0, wrong = 0, asked = 0;
  {
    const auto streams = Made(text, {.priorities = {0, 1, 2, 2}, .at_once = 2});
    std::vector<std::thread> callers;
    for (int c = 0; c < 3; ++c) {
      callers.emplace_back([&, c] {
        std::mt19937 random(static_cast<uint32_t>(c));
        std::vector<StreamSet::RunId> ids = {0};
        for (int i = 0; i < 300; ++i) {
          const int what = static_cast<int>(random() % 8);
          if (what == 0) EXPECT_TRUE(streams->SetPriority(random() % 4, random() % 3));
          if (what == 1) streams->Cancel(ids[random() % ids.size()]);
          if (what == 2) streams->Wait(static_cast<int>(random() % 4));
          if (what < 3) continue;
          std::optional<Clock::time_point> deadline;
          if (what == 3) deadline = Clock::now() + std::chrono::microseconds(random() % 3000);
          const auto done = [&](StreamSet::Outputs outputs, Ending ending) {
            ++told;
            if (outputs.has_value() != (ending == Ending::kRan)) ++wrong;
          };
          const auto id =
              streams->Submit(random() % 4, {Rows(1 + random() % 20, i)}, done, deadline);
          ASSERT_TRUE(id) << id.error().message();
          ids.push_back(*id);
          ++asked;
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
  }
  EXPECT_GT(asked, 100);
  EXPECT_EQ(told, asked);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace evoq
