// The queue of a model without a model: who is run with whom, who is refused, and that each request
// is answered exactly once.
#include "serve/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>

namespace evoq::serve {
namespace {

using std::chrono::milliseconds;

Tensor Values(const std::vector<float>& values, int64_t width = 1) {
  return Tensor::FromValues<float>(Shape{static_cast<int64_t>(values.size()) / width, width},
                                   values);
}

struct Answered {
  Served<Tensors> outputs;
  InferenceTimes times;
  std::vector<float> values() const {
    const auto all = (*outputs)[0].values<float>();
    return {all.begin(), all.end()};
  }
};

// A model that doubles, and remembers how many samples each run had. Runs wait while it is held.
class Doubler {
 public:
  Runner runner(bool independent = true) {
    return {[this](const Tensors& inputs, Place& place) { return Run(inputs, place); },
            [independent](const Tensors&) { return independent; }};
  }
  void Hold() { held_ = true; }
  void Release() { held_ = false; }
  int64_t entered() const { return entered_; }  // runs that began
  std::vector<int64_t> runs() {
    const std::lock_guard lock(mutex_);
    return runs_;
  }
  int64_t differs_at = 0;  // the runs of so many samples give other bits
  float refuses = -1;      // a run with such an input fails
  float leaves = -1;       // a run with such an input leaves its place while it is held away
  void HoldAway() { held_away_ = true; }
  void ReleaseAway() { held_away_ = false; }
  int away() const { return away_; }
  int most_at_once() const { return most_at_once_; }  // runs at their places

 private:
  Result<Tensors> Run(const Tensors& inputs, Place& place) {
    ++entered_;
    if (inputs[0].data<float>()[0] == leaves) {
      place.Leave();
      ++away_;
      while (held_away_) std::this_thread::yield();
      --away_;
      place.Return();
    }
    const int at_once = ++at_once_;
    for (int most = most_at_once_; at_once > most;)
      most_at_once_.compare_exchange_weak(most, at_once);
    while (held_) std::this_thread::yield();
    --at_once_;
    {
      const std::lock_guard lock(mutex_);
      runs_.push_back(inputs[0].sizes()[0]);
    }
    Tensor out = Tensor::Allocate(inputs[0].type());
    for (int64_t i = 0; i < out.elements(); ++i) {
      const float x = inputs[0].data<float>()[i];
      if (x == refuses) return InvalidInput("element {} is {}", i, x);
      out.mutable_data<float>()[i] = inputs[0].sizes()[0] == differs_at ? 2.5f * x : 2 * x;
    }
    return Tensors{out};
  }
  std::mutex mutex_;
  std::vector<int64_t> runs_;
  std::atomic<bool> held_ = false, held_away_ = false;
  std::atomic<int> away_ = 0, at_once_ = 0, most_at_once_ = 0;
  std::atomic<int64_t> entered_ = 0;
};

Inference Asking(const Tensor& input, std::promise<Answered>& to) {
  Inference inference;
  inference.inputs = {input};
  inference.samples = input.sizes()[0];
  inference.done = [&to](Served<Tensors> outputs, const InferenceTimes& times) {
    to.set_value({std::move(outputs), times});  // throws where it is called twice
  };
  return inference;
}

// Submits one request of a single value for each of `values`, once the first of them is being run,
// and returns all answers.
std::vector<Answered> AskAll(Scheduler& scheduler, Doubler& model, std::vector<float> values) {
  std::vector<std::promise<Answered>> answers(values.size());
  const int64_t before = model.entered();
  model.Hold();
  for (size_t i = 0; i < values.size(); ++i) {
    Inference inference = Asking(Values({values[i]}), answers[i]);
    EXPECT_TRUE(scheduler.Submit(inference));
    while (i == 0 && model.entered() == before) std::this_thread::yield();
  }
  model.Release();
  std::vector<Answered> all;
  for (auto& answer : answers) all.push_back(answer.get_future().get());
  return all;
}

void ExpectDoubled(const std::vector<Answered>& answers, const std::vector<float>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_TRUE(answers[i].outputs) << answers[i].outputs.error().message;
    EXPECT_EQ(answers[i].values(), std::vector<float>{2 * values[i]});
  }
}

TEST(Scheduler, EachRequestIsARunWithoutBatches) {
  Doubler model;
  Statistics statistics;
  Scheduler scheduler({}, model.runner(), statistics);
  ExpectDoubled(AskAll(scheduler, model, {1, 2, 3}), {1, 2, 3});
  EXPECT_EQ(model.runs(), (std::vector<int64_t>{1, 1, 1}));
  EXPECT_EQ(statistics.Read().executions, 3);
}

// The first runs of a size are checked against runs of each request.
TEST(Scheduler, WaitingRequestsShareRunsOnceTheirBitsAreSeenToHold) {
  Doubler model;
  Statistics statistics;
  Scheduler scheduler({.max_batch = 4}, model.runner(), statistics);
  std::vector<int64_t> wanted;
  for (int round = 0; round < Scheduler::kTrials + 2; ++round) {
    ExpectDoubled(AskAll(scheduler, model, {1, 2, 3, 4, 5, 6}), {1, 2, 3, 4, 5, 6});
    // 1 alone, 2 to 5 together, 6 alone.
    wanted.insert(wanted.end(), {1, 4});
    if (round < Scheduler::kTrials) wanted.insert(wanted.end(), 4, 1);
    wanted.push_back(1);
  }
  EXPECT_EQ(model.runs(), wanted);
  const StatisticsRead read = statistics.Read();
  EXPECT_EQ(read.success.count, 6u * (Scheduler::kTrials + 2));
  EXPECT_EQ(read.executions, 3u * (Scheduler::kTrials + 2));
  EXPECT_EQ(read.batches.at(4).infer.count, 1u * (Scheduler::kTrials + 2));
}

TEST(Scheduler, OtherBitsInABatchAreNeverAnswered) {
  Doubler model;
  model.differs_at = 3;
  Statistics statistics;
  Scheduler scheduler({.max_batch = 3}, model.runner(), statistics);
  for (int round = 0; round < 3; ++round)
    ExpectDoubled(AskAll(scheduler, model, {9, 1, 2, 3}), {9, 1, 2, 3});
  const std::vector<int64_t> runs = model.runs();
  EXPECT_EQ(std::count(runs.begin(), runs.end(), 3), 1);  // it was tried once
}

TEST(Scheduler, SamplesThatMeetAreNotJoined) {
  Doubler model;
  Statistics statistics;
  Scheduler scheduler({.max_batch = 4}, model.runner(/*independent=*/false), statistics);
  ExpectDoubled(AskAll(scheduler, model, {1, 2, 3}), {1, 2, 3});
  EXPECT_EQ(model.runs(), (std::vector<int64_t>{1, 1, 1}));
}

TEST(Scheduler, OneRequestsErrorIsNotThatOfOthers) {
  Doubler model;
  model.refuses = 7;
  Statistics statistics;
  Scheduler scheduler({.max_batch = 8}, model.runner(), statistics);
  const auto answers = AskAll(scheduler, model, {1, 2, 7, 3});
  EXPECT_EQ(answers[1].values(), std::vector<float>{4});
  ASSERT_FALSE(answers[2].outputs);
  EXPECT_EQ(answers[2].outputs.error().why, Why::kBadRequest);
  EXPECT_EQ(answers[2].outputs.error().message, "element 0 is 7");
  EXPECT_EQ(answers[3].values(), std::vector<float>{6});
  EXPECT_EQ(statistics.Read().failures.at("bad_request"), 1u);
}

TEST(Scheduler, RequestsOfOtherShapesRunApart) {
  Doubler model;
  Statistics statistics;
  Scheduler scheduler({.max_batch = 8}, model.runner(), statistics);
  model.Hold();
  std::vector<std::promise<Answered>> answers(4);
  const std::vector<Tensor> inputs = {Values({1}), Values({1, 2}, 2), Values({3, 4, 5}),
                                      Values({6, 7, 8, 9}, 2)};
  for (size_t i = 0; i < inputs.size(); ++i) {
    Inference inference = Asking(inputs[i], answers[i]);
    ASSERT_TRUE(scheduler.Submit(inference));
    while (i == 0 && scheduler.running() == 0) std::this_thread::yield();
  }
  model.Release();
  for (auto& answer : answers) EXPECT_TRUE(answer.get_future().get().outputs);
  // 1; then [1, 2] with [6..9]: 3 samples of 2, tried and run apart; then 3 samples of 1.
  EXPECT_EQ(model.runs(), (std::vector<int64_t>{1, 3, 1, 2, 3}));
}

TEST(Scheduler, WaitsForOthersUntilTheDelayIsOver) {
  Doubler model;
  Statistics statistics;
  Scheduler scheduler({.max_batch = 2, .max_delay_us = 200000}, model.runner(), statistics);
  std::vector<std::promise<Answered>> answers(3);
  for (size_t i = 0; i < 3; ++i) {
    Inference inference = Asking(Values({1}), answers[i]);
    ASSERT_TRUE(scheduler.Submit(inference));
  }
  std::vector<int64_t> queue_ns;
  for (auto& answer : answers) queue_ns.push_back(answer.get_future().get().times.queue_ns);
  EXPECT_LT(queue_ns[0], 200'000'000);  // two make a batch
  EXPECT_GE(queue_ns[2], 200'000'000);  // nobody came
}

TEST(Scheduler, PreferredSizesDoNotWait) {
  Doubler model;
  Statistics statistics;
  Scheduler scheduler({.max_batch = 8, .max_delay_us = 60'000'000, .preferred = {2}},
                      model.runner(), statistics);
  std::vector<std::promise<Answered>> answers(2);
  for (auto& answer : answers) {
    Inference inference = Asking(Values({1}), answer);
    ASSERT_TRUE(scheduler.Submit(inference));
  }
  for (auto& answer : answers) EXPECT_TRUE(answer.get_future().get().outputs);
}

TEST(Scheduler, AFullQueueRefusesAndSaysWhenToComeAgain) {
  Doubler model;
  Statistics statistics;
  Scheduler scheduler({.max_queue = 2}, model.runner(), statistics);
  model.Hold();
  std::vector<std::promise<Answered>> answers(4);
  for (size_t i = 0; i < 3; ++i) {
    Inference inference = Asking(Values({1}), answers[i]);
    ASSERT_TRUE(scheduler.Submit(inference));
    while (i == 0 && scheduler.running() == 0) std::this_thread::yield();
  }
  Inference inference = Asking(Values({5}), answers[3]);
  const Served<void> refused = scheduler.Submit(inference);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().why, Why::kOverloaded);
  EXPECT_GE(refused.error().retry_after_s, 1);
  ASSERT_TRUE(inference.done);  // it is the caller's as before
  EXPECT_EQ(statistics.Read().failures.at("overloaded"), 1u);
  model.Release();
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(answers[i].get_future().get().outputs);
  EXPECT_TRUE(scheduler.Submit(inference));
  EXPECT_TRUE(answers[3].get_future().get().outputs);
}

TEST(Scheduler, LateAndCancelledRequestsAreAnsweredWhileOthersRun) {
  Doubler model;
  Statistics statistics;
  Scheduler scheduler({.max_queue = 2}, model.runner(), statistics);
  model.Hold();
  std::vector<std::promise<Answered>> answers(3);
  Inference runs = Asking(Values({1}), answers[0]);
  ASSERT_TRUE(scheduler.Submit(runs));
  while (scheduler.running() == 0) std::this_thread::yield();
  Inference late = Asking(Values({2}), answers[1]);
  late.deadline = Clock::now() + milliseconds(5);
  Inference given_up = Asking(Values({3}), answers[2]);
  const auto flag = std::make_shared<std::atomic<bool>>(false);
  given_up.cancelled = flag;
  ASSERT_TRUE(scheduler.Submit(late));
  ASSERT_TRUE(scheduler.Submit(given_up));
  const Answered expired = answers[1].get_future().get();
  ASSERT_FALSE(expired.outputs);
  EXPECT_EQ(expired.outputs.error().why, Why::kExpired);
  *flag = true;
  scheduler.Wake();
  const Answered cancelled = answers[2].get_future().get();
  ASSERT_FALSE(cancelled.outputs);
  EXPECT_EQ(cancelled.outputs.error().why, Why::kCancelled);
  EXPECT_EQ(scheduler.queued(), 0);  // their places are free
  model.Release();
  EXPECT_TRUE(answers[0].get_future().get().outputs);
  EXPECT_EQ(model.runs().size(), 1u);
}

TEST(Scheduler, CloseAnswersAllThatWait) {
  Doubler model;
  Statistics statistics;
  Scheduler scheduler({.instances = 2, .max_delay_us = 60'000'000}, model.runner(), statistics);
  std::vector<std::promise<Answered>> answers(20);
  for (auto& answer : answers) {
    Inference inference = Asking(Values({1}), answer);
    ASSERT_TRUE(scheduler.Submit(inference));
  }
  scheduler.Close();
  for (auto& answer : answers) EXPECT_TRUE(answer.get_future().get().outputs);
  std::promise<Answered> after;
  Inference inference = Asking(Values({1}), after);
  const Served<void> refused = scheduler.Submit(inference);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().why, Why::kUnavailable);
}

TEST(Scheduler, OthersHaveTheInstanceOfARunThatIsAway) {
  Doubler model;
  model.leaves = 7;
  model.HoldAway();
  Statistics statistics;
  Scheduler scheduler({}, model.runner(), statistics);
  std::vector<std::promise<Answered>> answers(3);
  Inference leaves = Asking(Values({7}), answers[0]);
  ASSERT_TRUE(scheduler.Submit(leaves));
  while (model.away() == 0) std::this_thread::yield();
  Inference other = Asking(Values({1}), answers[1]);
  ASSERT_TRUE(scheduler.Submit(other));
  EXPECT_EQ(answers[1].get_future().get().values(), std::vector<float>{2});
  while (scheduler.running() > 1) std::this_thread::yield();
  // It waits for its instance when it is back.
  model.Hold();
  Inference holds = Asking(Values({3}), answers[2]);
  const int64_t before = model.entered();
  ASSERT_TRUE(scheduler.Submit(holds));
  while (model.entered() == before) std::this_thread::yield();
  model.ReleaseAway();
  while (model.away() > 0) std::this_thread::yield();
  model.Release();
  EXPECT_EQ(answers[0].get_future().get().values(), std::vector<float>{14});
  EXPECT_EQ(answers[2].get_future().get().values(), std::vector<float>{6});
  EXPECT_EQ(model.most_at_once(), 1);
}

// Of those that are away and all others, Close waits for each.
TEST(Scheduler, CloseAnswersThoseThatAreAway) {
  Doubler model;
  model.leaves = 7;
  model.HoldAway();
  Statistics statistics;
  Scheduler scheduler({.instances = 2}, model.runner(), statistics);
  std::vector<std::promise<Answered>> answers(20);
  for (size_t i = 0; i < answers.size(); ++i) {
    Inference inference = Asking(Values({i < 8 ? 7.0f : 1.0f}), answers[i]);
    ASSERT_TRUE(scheduler.Submit(inference));
  }
  while (model.away() < Scheduler::kMostAway + 2) std::this_thread::yield();
  EXPECT_EQ(scheduler.running(), Scheduler::kMostAway + 2);
  std::thread closing([&] { scheduler.Close(); });
  model.ReleaseAway();
  closing.join();
  for (auto& answer : answers) EXPECT_TRUE(answer.get_future().get().outputs);
  EXPECT_LE(model.most_at_once(), 2);
}

// Many callers at once: each gets the answer to what it asked, once.
TEST(Scheduler, ManyCallersLoseNothing) {
  Doubler model;
  Statistics statistics;
  Scheduler scheduler({.instances = 3, .max_queue = 1000, .max_batch = 5}, model.runner(),
                      statistics);
  model.leaves = 5;
  constexpr int kThreads = 8, kEach = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        std::promise<Answered> answer;
        const auto value = static_cast<float>(t * kEach + i);
        Inference inference = Asking(Values({value}), answer);
        ASSERT_TRUE(scheduler.Submit(inference));
        EXPECT_EQ(answer.get_future().get().values(), std::vector<float>{2 * value});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const StatisticsRead read = statistics.Read();
  EXPECT_EQ(read.success.count, 1u * kThreads * kEach);
  EXPECT_EQ(read.samples, 1u * kThreads * kEach);
}

}  // namespace
}  // namespace evoq::serve
