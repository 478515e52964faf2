// The public interfaces of streams, in C++ and C.
#include "evoq/streams.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "api/test_model.h"
#include "evoq/streams_c.h"

namespace evoq {
namespace {

using Ending = RunResult::Ending;

constexpr char kNeg[] = "input %x: float32[N, 2]\nn: %y: float32[N, 2] = Neg(%x)\noutput %y\n";

// Takes long, in many steps.
std::string Chain() {
  std::string text = "input %x0: float32[N, 64]\n";
  for (int i = 0; i < 400; ++i)
    text += fmt::format("s{}: %x{}: float32[N, 64] = Softmax(%x{})\n", i, i + 1, i);
  return text + "output %x400\n";
}

Array Rows(int64_t rows, int64_t width, float value) {
  Array a = Array::Zeros(ElementType::kFloat32, {rows, width});
  std::fill_n(a.data<float>(), a.size(), value);
  return a;
}

Streams Loaded(const ModelFile& file, const StreamsOptions& options) {
  std::string error;
  auto streams = Streams::Load(file.path(), options, &error);
  EXPECT_TRUE(streams) << error;
  return std::move(*streams);
}

TEST(Streams, RunsAndDescribes) {
  const ModelFile file(kNeg);
  Streams streams = Loaded(file, {.priorities = {0, 1, 2}, .at_once = 2});
  EXPECT_EQ(streams.count(), 3);
  EXPECT_EQ(streams.at_once(), 2);
  ASSERT_EQ(streams.inputs().size(), 1);
  EXPECT_EQ(streams.inputs()[0].name, "x");
  EXPECT_EQ(streams.outputs()[0].shape, (std::vector<int64_t>{-1, 2}));
  std::vector<std::future<RunResult>> futures;
  for (int i = 0; i < 30; ++i)
    futures.push_back(streams.Run(i % 3, {Rows(1 + i % 4, 2, static_cast<float>(i))}));
  for (int i = 0; i < 30; ++i) {
    const RunResult result = futures[i].get();
    EXPECT_EQ(result.ending, Ending::kRan) << result.error;
    ASSERT_EQ(result.outputs.size(), 1);
    EXPECT_EQ(result.outputs[0].shape, (std::vector<int64_t>{1 + i % 4, 2}));
    EXPECT_EQ(result.outputs[0].data<float>()[1], -static_cast<float>(i));
  }
  EXPECT_EQ(streams.arena_bytes(), 0);  // its one step reads inputs and writes outputs
  Streams moved = std::move(streams);
  EXPECT_EQ(moved.Run(2, {Rows(1, 2, 3)}).get().ending, Ending::kRan);
}

TEST(Streams, WhatIsRefused) {
  const ModelFile file(kNeg);
  std::string error;
  for (const auto& [options, words] :
       {std::pair<StreamsOptions, const char*>{{.priorities = {}}, "0 streams"},
        {{.threads = -1}, "-1 threads"},
        {{.at_once = -1}, "at_once is -1"},
        {{.queue = 0}, "queue is 0"}}) {
    EXPECT_FALSE(Streams::Load(file.path(), options, &error));
    EXPECT_NE(error.find(words), std::string::npos) << error;
  }
  EXPECT_FALSE(Streams::Load("nosuch.etm"));
  Streams streams = Loaded(file, {});
  const auto refused = [&](int stream, std::vector<Array> inputs, double deadline_s) {
    error = "";
    const auto told = [](RunResult) { ADD_FAILURE(); };
    EXPECT_EQ(streams.Submit(stream, std::move(inputs), told, deadline_s, &error), 0);
    return error;
  };
  EXPECT_EQ(refused(2, {Rows(1, 2, 0)}, 0), "stream 2, expected 0 to 1");
  EXPECT_EQ(refused(0, {}, 0), "0 inputs given, expected 1");
  EXPECT_EQ(refused(0, {Array::Zeros(ElementType::kInt8, {1, 2})}, 0),
            "input x: element type 3, expected 1");
  EXPECT_EQ(refused(0, {Rows(1, 2, 0)}, -1), "a deadline of -1 seconds, expected 0 to 1e+06");
  EXPECT_EQ(refused(0, {Rows(1, 2, 0)}, std::nan("")),
            "a deadline of nan seconds, expected 0 to 1e+06");
  EXPECT_EQ(streams.Submit(0, {Rows(1, 2, 0)}, nullptr, 0, &error), 0);
  EXPECT_EQ(error, "done is empty");
  EXPECT_FALSE(streams.SetPriority(2, 0, &error));
  EXPECT_FALSE(streams.Cancel(7));
  std::uint64_t run = 9;
  const RunResult told = streams.Run(5, {Rows(1, 2, 0)}, 0, &run).get();
  EXPECT_EQ(run, 0);
  EXPECT_EQ(told.ending, Ending::kFailed);
  EXPECT_EQ(told.error, "stream 5, expected 0 to 1");
  // Of a shape that the model does not take: it is the run that fails.
  const RunResult failed = streams.Run(0, {Rows(1, 3, 0)}).get();
  EXPECT_EQ(failed.ending, Ending::kFailed);
  EXPECT_NE(failed.error, "");
}

TEST(Streams, CancelledAndLateRuns) {
  const ModelFile file(Chain());
  Streams streams = Loaded(file, {.priorities = {0}});
  std::uint64_t number = 0;
  auto first = streams.Run(0, {Rows(300, 64, 1)});
  auto second = streams.Run(0, {Rows(300, 64, 1)}, 0, &number);
  auto late = streams.Run(0, {Rows(300, 64, 1)}, 1e-9);
  EXPECT_TRUE(streams.Cancel(number));
  EXPECT_EQ(second.get().ending, Ending::kCancelled);
  const RunResult told = late.get();
  EXPECT_EQ(told.ending, Ending::kLate);
  EXPECT_EQ(told.error, "the run has not ended at its deadline");
  EXPECT_EQ(first.get().ending, Ending::kRan);
  streams.Wait();
  EXPECT_GT(streams.arena_bytes(), 0);
}

TEST(Streams, AnUrgentRunOvertakes) {
  const ModelFile file(Chain());
  Streams streams = Loaded(file, {.priorities = {1, 0}, .at_once = 1});
  bool overtaken = false;
  for (int attempt = 0; attempt < 100 && !overtaken; ++attempt) {
    auto slow = streams.Run(0, {Rows(300, 64, 1)});
    EXPECT_EQ(streams.Run(1, {Rows(1, 64, 1)}).get().ending, Ending::kRan);
    overtaken = slow.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
    EXPECT_EQ(slow.get().ending, Ending::kRan);
  }
  EXPECT_TRUE(overtaken);
}

// What the C interface tells.
struct Heard {
  std::mutex mutex;
  std::vector<int> endings;
  std::vector<float> firsts;
  std::string error;
};
void Hear(void* user, int ending, const evoq_array* outputs, int count, const char* error) {
  auto* const heard = static_cast<Heard*>(user);
  const std::lock_guard lock(heard->mutex);
  heard->endings.push_back(ending);
  if (count == 1) heard->firsts.push_back(*static_cast<const float*>(outputs[0].data));
  if (error != nullptr) heard->error = error;
}

TEST(Streams, InC) {
  const ModelFile file(kNeg);
  char error[200] = "";
  const int priorities[] = {1, 0, 2};
  evoq_streams_options options = {
      .struct_size = sizeof(options), .priorities = priorities, .stream_count = 3, .at_once = 1};
  evoq_streams* const streams =
      evoq_streams_load(file.path().c_str(), &options, error, sizeof(error));
  ASSERT_NE(streams, nullptr) << error;
  EXPECT_EQ(evoq_streams_count(streams), 3);
  EXPECT_EQ(evoq_streams_input_count(streams), 1);
  EXPECT_EQ(evoq_streams_output_count(streams), 1);
  EXPECT_STREQ(evoq_streams_input_name(streams, 0), "x");
  EXPECT_STREQ(evoq_streams_output_name(streams, 0), "y");
  EXPECT_EQ(evoq_streams_output_name(streams, 1), nullptr);
  EXPECT_EQ(evoq_streams_input_type(streams, 0), 1);
  EXPECT_EQ(evoq_streams_output_type(streams, -1), 0);
  int64_t sizes[2] = {};
  EXPECT_EQ(evoq_streams_input_shape(streams, 0, sizes, 2), 2);
  EXPECT_EQ(sizes[0], -1);
  EXPECT_EQ(evoq_streams_output_shape(streams, 0, sizes, 1), 2);
  EXPECT_EQ(evoq_streams_at_once(streams), 1);
  Heard heard;
  const int64_t shape[] = {1, 2};
  for (float i = 1; i <= 10; ++i) {
    float x[] = {i, i};  // copied
    const evoq_array input = {1, 2, shape, x};
    EXPECT_NE(evoq_streams_submit(streams, 1, &input, 1, 0, Hear, &heard, error, sizeof(error)), 0)
        << error;
  }
  evoq_streams_wait(streams, 1);
  EXPECT_EQ(heard.endings, std::vector<int>(10, EVOQ_RAN));
  EXPECT_EQ(heard.firsts, (std::vector<float>{-1, -2, -3, -4, -5, -6, -7, -8, -9, -10}));
  EXPECT_EQ(evoq_streams_arena_bytes(streams), 0);

  const int64_t wrong[] = {1, 3};
  float x[] = {1, 2, 3};
  const evoq_array input = {1, 2, wrong, x};
  EXPECT_NE(evoq_streams_submit(streams, 0, &input, 1, 0, Hear, &heard, nullptr, 0), 0);
  evoq_streams_wait(streams, -1);
  EXPECT_EQ(heard.endings.back(), EVOQ_FAILED);
  EXPECT_NE(heard.error, "");

  const evoq_array no_data = {1, 2, shape, nullptr};
  EXPECT_EQ(evoq_streams_submit(streams, 0, &no_data, 1, 0, Hear, &heard, error, sizeof(error)), 0);
  EXPECT_STREQ(error, "input 0: 8 bytes without data");
  EXPECT_EQ(evoq_streams_submit(streams, 0, &input, 1, 0, nullptr, nullptr, error, sizeof(error)),
            0);
  EXPECT_STREQ(error, "done is NULL");
  EXPECT_EQ(evoq_streams_submit(nullptr, 0, &input, 1, 0, Hear, &heard, error, sizeof(error)), 0);
  EXPECT_EQ(evoq_streams_set_priority(streams, 3, 0, error, sizeof(error)), 1);
  EXPECT_STREQ(error, "stream 3, expected 0 to 2");
  EXPECT_EQ(evoq_streams_set_priority(streams, 2, 0, error, sizeof(error)), 0);
  EXPECT_EQ(evoq_streams_cancel(streams, 12345), 0);
  evoq_streams_free(streams);
  evoq_streams_free(nullptr);

  options.struct_size = 3;
  EXPECT_EQ(evoq_streams_load(file.path().c_str(), &options, error, sizeof(error)), nullptr);
  EXPECT_EQ(std::string(error).find("struct_size is 3"), 0);
  EXPECT_EQ(evoq_streams_load(nullptr, nullptr, error, sizeof(error)), nullptr);
}

}  // namespace
}  // namespace evoq
