// Runs without end: no growth, no allocation; forks; files cut short under a session; many
// sessions.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <thread>

#include "api/test_model.h"
#include "base/test_child.h"
#include "evoq/evoq.h"
#include "evoq/evoq_c.h"
#include "tests/faults/faults.h"

namespace evoq {
namespace {

class LongRunTest : public ::testing::Test {
 protected:
  void Write(const std::string& text) {
    file_.emplace(text);
    path_ = file_->path();
  }
  // y = x W, 64 by 64, W = 2 in its diagonal: weights of 16 KiB.
  void WriteProduct() {
    std::string weights;
    for (int i = 0; i < 64 * 64; ++i) weights += i % 65 == 0 ? "2.0, " : "0.0, ";
    weights.resize(weights.size() - 2);
    Write("input %x: float32[N, 64]\nconst %w: float32[64, 64] = [" + weights +
          "]\nm: %y: float32[N, 64] = MatMul(%x, %w)\noutput %y\n");
  }

  static std::vector<Array> Input(int64_t rows) {
    std::vector<Array> inputs = {Array::Zeros(ElementType::kFloat32, {rows, 64})};
    for (size_t i = 0; i < inputs[0].size(); ++i)
      inputs[0].data<float>()[i] = static_cast<float>(i % 100);
    return inputs;
  }
  static bool IsDouble(const std::vector<Array>& y, const std::vector<Array>& x) {
    if (y.size() != 1 || y[0].shape != x[0].shape) return false;
    for (size_t i = 0; i < x[0].size(); ++i) {
      if (y[0].data<float>()[i] != 2 * x[0].data<float>()[i]) return false;
    }
    return true;
  }

  // Whether each run is an error that says so, from the moment that path_ is cut short, and a fresh
  // session is none.
  bool RunsOnACutFile(bool c_interface) {
    const std::vector<Array> x = {Array::Zeros(ElementType::kFloat32, {2, 32768})};
    std::vector<Array> y;
    std::string error;
    char c_error[300] = "";
    bool good = true;
    if (c_interface) {
      evoq_session* s = evoq_session_load(path_.c_str(), 1, nullptr, 0);
      const evoq_array in = {1, 2, x[0].shape.data(), const_cast<std::byte*>(x[0].bytes.data())};
      good = evoq_session_compute(s, &in, 1, nullptr, 0) == 0 && ::truncate(path_.c_str(), 64) == 0;
      for (int i = 0; i < 3; ++i) {
        good = good && evoq_session_compute(s, &in, 1, c_error, sizeof(c_error)) != 0;
        evoq_array result;
        good = good && evoq_session_result(s, 0, &result) != 0;
      }
      error = c_error;
      evoq_session_free(s);
    } else {
      auto session = Session::Load(path_, {2});
      good = session && session->Run(x, &y) && y[0].data<float>()[40000] == 1;
      good = good && ::truncate(path_.c_str(), 64) == 0;
      const std::vector<Array> more = {Array::Zeros(ElementType::kFloat32, {3, 32768})};
      for (int i = 0; i < 3; ++i) good = good && !session->Run(i == 1 ? more : x, &y, &error);
    }
    good = good && error.find(path_ + ": the file was cut short") == 0;
    if (!good) std::fprintf(stderr, "'%s'\n", error.c_str());
    WriteProduct();  // another model is not touched by it
    auto fresh = Session::Load(path_, {1}, &error);
    const std::vector<Array> small = Input(2);
    const bool works = fresh && fresh->Run(small, &y, &error) && IsDouble(y, small);
    if (!works) std::fprintf(stderr, "'%s'\n", error.c_str());
    file_.reset();
    return good && works;
  }

  std::optional<ModelFile> file_;
  std::string path_;
};

#ifndef EVOQ_NO_FAULTS

// What evoq.h promises; the C interface needs none either.
TEST_F(LongRunTest, ARepeatedRunAllocatesNothing) {
  WriteProduct();
  for (const int threads : {1, 2}) {
    auto session = Session::Load(path_, {threads});
    ASSERT_TRUE(session);
    const std::vector<Array> x = Input(3), other = Input(3);
    std::vector<Array> y;
    ASSERT_TRUE(session->Run(x, &y));
    const int64_t before = faults::Requests();
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(session->Run(i % 2 == 0 ? other : x, &y));
    EXPECT_EQ(faults::Requests() - before, 0) << threads << " threads";
    EXPECT_TRUE(IsDouble(y, x));
    evoq_session* s = evoq_session_load(path_.c_str(), threads, nullptr, 0);
    ASSERT_NE(s, nullptr);
    std::vector<float> out(3 * 64);
    const evoq_array in = {1, 2, x[0].shape.data(), const_cast<std::byte*>(x[0].bytes.data())};
    const evoq_array to = {1, 2, x[0].shape.data(), out.data()};
    ASSERT_EQ(evoq_session_run(s, &in, 1, &to, 1, nullptr, 0), 0);
    const int64_t after = faults::Requests();
    for (int i = 0; i < 20; ++i) ASSERT_EQ(evoq_session_run(s, &in, 1, &to, 1, nullptr, 0), 0);
    EXPECT_EQ(faults::Requests() - after, 0) << threads << " threads";
    evoq_session_free(s);
  }
}

// At one shape, at shapes in turn, at more shapes than are kept, with errors between: after the
// first rounds nothing more is held.
TEST_F(LongRunTest, NothingGrows) {
  WriteProduct();
  auto session = Session::Load(path_, {1});
  ASSERT_TRUE(session);
  const int64_t runs = faults::LongForm() ? 1'000'000 : 10'000;
  std::vector<Array> y, x = Input(2);
  const std::vector<Array> wrong = {Array::Zeros(ElementType::kFloat32, {2, 63})};
  int64_t held = 0;
  for (int64_t i = 0; i < runs; ++i) {
    ASSERT_TRUE(session->Run(x, &y));
    if (i % 100 == 0) {
      std::string error;
      ASSERT_FALSE(session->Run(wrong, &y, &error));
    }
    if (i % 100 == 50) ASSERT_TRUE(session->Run(Input(1 + i / 100 % 50), &y));
    if (i % 5000 == 4999) {
      ASSERT_TRUE(session->Run(x, &y));
      const int64_t now = faults::Living();
      if (i > 5000) ASSERT_EQ(now, held) << "after " << i << " runs";
      held = now;
    }
  }
  ASSERT_TRUE(session->Run(x, &y));
  EXPECT_TRUE(IsDouble(y, x));
}

TEST_F(LongRunTest, SessionsComeAndGo) {
  WriteProduct();
  const std::vector<Array> x = Input(2);
  int64_t held = 0;
  for (int i = 0; i < (faults::LongForm() ? 10000 : 60); ++i) {
    {
      auto session = Session::Load(path_, {2});
      ASSERT_TRUE(session);
      std::vector<Array> y;
      ASSERT_TRUE(session->Run(x, &y));
      ASSERT_TRUE(IsDouble(y, x));
      auto moved = std::move(*session);
      ASSERT_TRUE(moved.Run(x, &y));
    }
    if (i == 5) held = faults::Living();
  }
  EXPECT_EQ(faults::Living(), held);
}

// A server that loads and then forks: its children run the session, and so does the parent.
TEST_F(LongRunTest, ASessionInAChild) {
  WriteProduct();
  for (const int threads : {1, 4}) {
    for (const bool run_before : {false, true}) {
      auto session = Session::Load(path_, {threads});
      ASSERT_TRUE(session);
      const std::vector<Array> x = Input(9);
      std::vector<Array> y;
      if (run_before) ASSERT_TRUE(session->Run(x, &y));
      std::vector<pid_t> children;
      for (int c = 0; c < 3; ++c) {
        const pid_t pid = ::fork();
        if (pid == 0) {
          ::alarm(120);  // a child that hangs is one that fails
          bool good = true;
          for (int64_t rows : {9, 1, 200, 9}) {
            const std::vector<Array> mine = Input(rows);
            good = good && session->Run(mine, &y) && IsDouble(y, mine);
          }
          session.reset();
          ::_exit(good ? 0 : 1);
        }
        children.push_back(pid);
      }
      ASSERT_TRUE(session->Run(x, &y));
      EXPECT_TRUE(IsDouble(y, x));
      for (const pid_t pid : children) {
        int status = -1;
        ASSERT_EQ(::waitpid(pid, &status, 0), pid);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
      }
    }
  }
}

// Someone writes a new model over the file in place, or a disk loses its end: the run that reads
// what is missing is an error, and the process lives. In a child: a process remembers damage.
TEST_F(LongRunTest, AFileThatIsCutShort) {
  // y = x + c; c is read where it lies in the file: weights of 64 KiB and more are.
  std::string values = "1.0";
  for (int i = 1; i < 32768; ++i) values += ", 1.0";
  const std::string sum = "input %x: float32[N, 32768]\nconst %c: float32[32768] = [" + values +
                          "]\na: %y: float32[N, 32768] = Add(%x, %c)\noutput %y\n";
  for (const bool c_interface : {false, true}) {
    Write(sum);
    EXPECT_EQ(StatusOfChild([&] { return RunsOnACutFile(c_interface); }), 0);
  }
}

// Weights that were packed are copies: runs go on with right results, or are errors.
TEST_F(LongRunTest, AFileThatIsCutShortBehindPackedWeights) {
  WriteProduct();
  EXPECT_EQ(StatusOfChild([&] {
              auto session = Session::Load(path_, {1});
              const std::vector<Array> x = Input(2);
              std::vector<Array> y;
              bool good = session && session->Run(x, &y) && ::truncate(path_.c_str(), 64) == 0;
              for (int64_t rows : {2, 5, 300, 2}) {
                const std::vector<Array> more = Input(rows);
                if (session->Run(more, &y)) good = good && IsDouble(y, more);
              }
              return good;
            }),
            0);
}

#endif  // EVOQ_NO_FAULTS

TEST_F(LongRunTest, ManySessionsOnManyThreads) {
  WriteProduct();
  std::vector<std::thread> threads;
  for (int t = 0; t < 12; ++t) {
    threads.emplace_back([&, t] {
      auto session = Session::Load(path_, {1 + t % 3});
      ASSERT_TRUE(session);
      for (int64_t i = 0; i < (faults::LongForm() ? 2000 : 30); ++i) {
        const std::vector<Array> x = Input(1 + (t + i) % 17);
        std::vector<Array> y;
        ASSERT_TRUE(session->Run(x, &y));
        ASSERT_TRUE(IsDouble(y, x));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace evoq
