// What a host program does around a session changes nothing: rounding and traps that it has set,
// small stacks, runs from two threads at once.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <thread>
#include <vector>

#include "api/test_model.h"
#include "base/test_child.h"
#include "evoq/evoq.h"
#include "evoq/gemm.h"
#include "evoq/streams.h"

namespace evoq {
namespace {

constexpr int64_t kWidth = 96;

// A product, a division by what may be 0, an exponential that may overflow.
std::string Model() {
  std::string weights;
  for (int64_t i = 0; i < kWidth * kWidth; ++i)
    weights += fmt::format("{}{}", i == 0 ? "" : ", ", static_cast<float>(i % 7) / 3.0f);
  return fmt::format(
      "input %x: float32[N, {0}]\nconst %w: float32[{0}, {0}] = [{1}]\n"
      "m: %h: float32[N, {0}] = MatMul(%x, %w)\nd: %q: float32[N, {0}] = Div(%h, %x)\n"
      "e: %y: float32[N, {0}] = Exp(%q)\noutput %y\n",
      kWidth, weights);
}

// What everything runs on, computed before the host changes anything.
struct Inputs {
  Array x = Array::Zeros(ElementType::kFloat32, {8, kWidth});
  std::vector<float> b = std::vector<float>(kWidth * kWidth);

  Inputs() {
    for (size_t i = 0; i < x.size(); ++i)
      x.data<float>()[i] = std::numeric_limits<float>::min() * static_cast<float>(i % 5) / 3.0f;
    for (size_t i = 0; i < b.size(); ++i) b[i] = 1.0f / static_cast<float>(i % 9 + 1);
  }
};

// Bytes of the outputs of a session that is loaded there, of streams, and of a product of matrices.
std::vector<std::vector<std::byte>> Everything(const Inputs& given, const std::string& path,
                                               int threads) {
  std::vector<std::vector<std::byte>> all;
  std::string error;
  auto session = Session::Load(path, {threads}, &error);
  EXPECT_TRUE(session) << error;
  std::vector<Array> outputs;
  EXPECT_TRUE(session && session->Run({given.x}, &outputs, &error)) << error;
  for (const Array& a : outputs) all.push_back(a.bytes);

  auto streams = Streams::Load(path, {}, &error);
  EXPECT_TRUE(streams) << error;
  if (streams) {
    for (const Array& a : streams->Run(0, {given.x}).get().outputs) all.push_back(a.bytes);
  }

  std::vector<float> c(8 * kWidth);
  EXPECT_EQ(evoq_gemm_set_threads(threads), 0);
  EXPECT_EQ(
      evoq_sgemm(EVOQ_ROW_MAJOR, EVOQ_NO_TRANSPOSE, EVOQ_NO_TRANSPOSE, 8, kWidth, kWidth, 1.0f,
                 given.x.data<float>(), kWidth, given.b.data(), kWidth, 0.0f, c.data(), kWidth),
      0);
  const auto* bytes = reinterpret_cast<const std::byte*>(c.data());
  all.emplace_back(bytes, bytes + c.size() * sizeof(float));
  return all;
}

TEST(Host, Rounding) {
  const ModelFile file(Model());
  const Inputs given;
  const auto wanted = Everything(given, file.path(), 1);
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    for (const int threads : {1, 2}) {
      ASSERT_EQ(std::fesetround(mode), 0);
      const auto got = Everything(given, file.path(), threads);
      EXPECT_EQ(std::fegetround(), mode);
      std::fesetround(FE_TONEAREST);
      EXPECT_EQ(got, wanted) << mode << ", " << threads << " threads";
    }
  }
}

#if defined(__GLIBC__) && defined(__x86_64__)
TEST(Host, Traps) {
  const ModelFile file(Model());
  const Inputs given;
  const auto wanted = Everything(given, file.path(), 1);
  ::feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
  const auto got = Everything(given, file.path(), 2);
  ::fedisableexcept(FE_ALL_EXCEPT);
  EXPECT_EQ(got, wanted);
}
#endif

#if !defined(EVOQ_FEW_VARIANTS)  // sanitizers keep more on the stack
TEST(Host, SmallStacks) {
  struct Work {
    const ModelFile file{Model()};
    const Inputs given;
    std::vector<Array> outputs;
    std::string error;
  } work;
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, size_t{512} << 10), 0);
  pthread_t thread;
  const auto body = [](void* of) -> void* {
    auto& work = *static_cast<Work*>(of);
    auto session = Session::Load(work.file.path(), {1}, &work.error);
    if (session) session->Run({work.given.x}, &work.outputs, &work.error);
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, body, &work), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  EXPECT_EQ(work.outputs.size(), 1u) << work.error;
}
#endif

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define EVOQ_TSAN  // which does not follow threads into a child
#endif
#endif
#ifndef EVOQ_TSAN

constexpr char kNeg[] = "input %x: float32[N, 2]\nn: %y: float32[N, 2] = Neg(%x)\noutput %y\n";

bool Negates(Session& session, int64_t rows) {
  Array x = Array::Zeros(ElementType::kFloat32, {rows, 2});
  std::fill_n(x.data<float>(), x.size(), 3.0f);
  std::vector<Array> y;
  return session.Run({x}, &y) && y[0].data<float>()[x.size() - 1] == -3.0f;
}

// Threads that prepare gears do not come along; fork() waits for what they are at.
TEST(Host, AChildOfForkHasGears) {
  const ModelFile file(kNeg, {{{"x", {4, 2}}}, {{"x", {8, 2}}}, {{"x", {64, 2}}}});
  for (const bool ready : {false, true}) {
    for (const bool runs : {false, true}) {
      std::string error;
      auto session = Session::Load(file.path(), {2}, &error);
      ASSERT_TRUE(session) << error;
      if (ready) session->WaitForGears();
      EXPECT_TRUE(InChild([&] {
        if (!runs) return session.reset(), true;
        if (!Negates(*session, 4) || !Negates(*session, 5)) return false;
        session->WaitForGears();
        const bool all = session->sizes().ready == session->sizes().gears;
        session.reset();
        return all;
      })) << ready
          << runs;
      session->WaitForGears();
      EXPECT_TRUE(Negates(*session, 8)) << "the parent's goes on";
    }
  }
}

TEST(Host, AChildOfForkHasStreams) {
  const ModelFile file(kNeg);
  std::string error;
  auto streams = Streams::Load(file.path(), {}, &error);
  ASSERT_TRUE(streams) << error;
  const auto runs = [&] {
    Array x = Array::Zeros(ElementType::kFloat32, {1, 2});
    x.data<float>()[1] = 5;
    const RunResult result = streams->Run(1, {x}, 60).get();
    return result.ending == RunResult::Ending::kRan && result.outputs[0].data<float>()[1] == -5;
  };
  EXPECT_TRUE(runs());
  EXPECT_TRUE(InChild([&] {
    if (!runs()) return false;
    const bool below = InChild([&] { return runs(); });
    streams->Wait();
    streams.reset();
    return below;
  }));
  EXPECT_TRUE(InChild([&] { return streams->Wait(), streams.reset(), true; }));
  EXPECT_TRUE(runs()) << "the parent's go on";
}

// Threads of the host that multiply while the process ends.
TEST(Host, TheProcessEndsDuringAProduct) {
  // Threads of before a fork() leave memory behind that a leak checker finds in the child.
  ASSERT_EQ(evoq_gemm_set_threads(1), 0);
  for (int round = 0; round < 10; ++round) {
    const int status = StatusOfChild([] {
      if (evoq_gemm_set_threads(2) != 0) std::exit(1);
      std::atomic<bool> begun{false};
      std::thread([&begun] {
        std::vector<float> a(kWidth * kWidth), b(kWidth * kWidth), c(kWidth * kWidth);
        for (;; begun.store(true))
          evoq_sgemm(EVOQ_ROW_MAJOR, EVOQ_NO_TRANSPOSE, EVOQ_NO_TRANSPOSE, kWidth, kWidth, kWidth,
                     1.0f, a.data(), kWidth, b.data(), kWidth, 0.0f, c.data(), kWidth);
      }).detach();
      while (!begun.load()) std::this_thread::yield();
      std::exit(0);
    });
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

#endif  // EVOQ_TSAN

// Each run gives what it should, or says that another one goes on.
TEST(Host, OneRunAtATime) {
  const ModelFile file(Model());
  const Inputs given;
  std::string error;
  auto session = Session::Load(file.path(), {1}, &error);
  ASSERT_TRUE(session) << error;
  std::vector<Array> wanted;
  ASSERT_TRUE(session->Run({given.x}, &wanted, &error)) << error;
  std::atomic<int> refused{0}, wrong{0};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto runs = [&] {
    std::vector<Array> got;
    std::string why;
    while (refused.load() == 0 && std::chrono::steady_clock::now() < end) {
      if (session->Run({given.x}, &got, &why)) {
        if (got[0].bytes != wanted[0].bytes) ++wrong;
      } else {
        ++refused;
        if (why != "another call of this session has not ended, expected one at a time") ++wrong;
      }
    }
  };
  std::thread other(runs);
  runs();
  other.join();
  EXPECT_GT(refused.load(), 0);
  EXPECT_EQ(wrong.load(), 0);
  ASSERT_TRUE(session->Run({given.x}, &wanted, &error)) << error;
}

}  // namespace
}  // namespace evoq
