#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "base/isa.h"
#include "base/loop_notes.h"
#include "base/math.h"
#include "base/median.h"
#include "base/text.h"
#include "base/thread_pool.h"

namespace evoq {
namespace {

TEST(Math, ProductStopsAtOverflow) {
  EXPECT_EQ(CheckedProduct(std::vector<int64_t>{2, 3, 4}), 24);
  EXPECT_EQ(CheckedProduct(std::vector<int64_t>{}), 1);
  EXPECT_EQ(CheckedProduct(std::vector<int64_t>{int64_t{1} << 40, int64_t{1} << 40}), std::nullopt);
  EXPECT_EQ(CheckedProduct(std::vector<int64_t>{4, -1}), std::nullopt);
}

TEST(Text, Glob) {
  EXPECT_TRUE(GlobMatch("conv*", "conv_12"));
  EXPECT_TRUE(GlobMatch("*/conv?", "a/b/conv1"));
  EXPECT_FALSE(GlobMatch("conv", "conv_12"));
  EXPECT_TRUE(GlobMatch("*a*b", "xaxbab"));
  EXPECT_FALSE(GlobMatch("*a*b", "xaxba"));
}

TEST(File, AtomicWriteReplacesWhole) {
  const auto dir = std::filesystem::temp_directory_path() / "evoq_base_test";
  std::filesystem::create_directories(dir);
  const std::string path = (dir / "f.txt").string();
  ASSERT_TRUE(WriteFileAtomic(path, "first"));
  ASSERT_TRUE(WriteFileAtomic(path, "second, longer"));
  EXPECT_EQ(ReadTextFile(path).value(), "second, longer");
  EXPECT_EQ(ListFiles(dir.string()).value().size(), 1u);
  std::filesystem::remove_all(dir);
}

TEST(File, FailuresSayWhy) {
  EXPECT_EQ(MappedFile::Open("/nowhere/x").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(MappedFile::Open("/tmp").error().code(), ErrorCode::kInvalidInput);
  const Status status = WriteFileAtomic("/nowhere/x", "text");
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message().find("/nowhere/x"), std::string::npos);
}

TEST(ThreadPool, CoversEveryItemOnce) {
  for (int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    std::vector<int> hits(1001);
    pool.ParallelFor(1001, 10, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++hits[i];
    });
    EXPECT_EQ(std::count(hits.begin(), hits.end(), 1), 1001) << threads;
  }
}

TEST(ThreadPool, GivesEachPieceToOneNumberedThread) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int64_t count : {1, 3, 4, 100, 1003}) {
      std::vector<std::atomic<int>> inside(threads);
      std::vector<int> hits(count);
      std::atomic<bool> wrong{false};
      pool.ParallelFor(count, 7, [&](int64_t begin, int64_t end, int thread) {
        if (thread < 0 || thread >= threads || inside[thread]++ != 0) wrong = true;
        std::this_thread::sleep_for(
            std::chrono::microseconds(20));  // long enough for the others to come
        if (threads > 1 && count > 7 && (end - begin > 7 || begin % 7 != 0)) wrong = true;
        for (int64_t i = begin; i < end; ++i) ++hits[i];
        --inside[thread];
      });
      EXPECT_FALSE(wrong) << threads << " threads, " << count << " items";
      EXPECT_EQ(std::count(hits.begin(), hits.end(), 1), count);
    }
  }
}

TEST(ThreadPool, NotesLoopsInsteadOfRunningThem) {
  ThreadPool pool(2);
  int calls = 0;
  const auto loop = [&](int64_t count, int64_t grain) {
    pool.ParallelFor(count, grain, [&](int64_t, int64_t) { ++calls; });
  };
  {
    const LoopNotes notes;
    loop(100, 30);
    EXPECT_EQ(calls, 0);
    loop(30, 30);
    EXPECT_EQ(calls, 1) << "one piece is no shared loop";
    ASSERT_EQ(notes.loops().size(), 1u);
    EXPECT_EQ(notes.loops()[0].count, 100);
    EXPECT_EQ(notes.loops()[0].grain, 30);
  }
  loop(30, 30);
  EXPECT_EQ(calls, 2) << "the notes have ended";
}

TEST(ThreadPool, LoopsInARowAndTwoPoolsAtOnce) {
  ThreadPool a(2), b(4);
  int64_t sum_a = 0, sum_b = 0;
  for (int round = 0; round < 20000; ++round) {
    std::atomic<int64_t> part_a{0}, part_b{0};
    a.ParallelFor(7, 1, [&](int64_t begin, int64_t end) { part_a += (end - begin) * round; });
    b.ParallelFor(9, 2, [&](int64_t begin, int64_t end) { part_b += (end - begin) * round; });
    sum_a += part_a;
    sum_b += part_b;
  }
  EXPECT_EQ(sum_a, int64_t{7} * 20000 * 19999 / 2);
  EXPECT_EQ(sum_b, int64_t{9} * 20000 * 19999 / 2);
}

TEST(ThreadPool, SleepsWhenIdleAndWakes) {
  ThreadPool pool(3);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> items{0};
    pool.ParallelFor(100, 3,
                     [&](int64_t begin, int64_t end) { items += static_cast<int>(end - begin); });
    EXPECT_EQ(items.load(), 100);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> inside{0};
    pool.ParallelFor(3, 1, [&](int64_t, int64_t) {
      ++inside;
      while (inside < 3) std::this_thread::yield();  // ends only when all are awake
    });
  }
}

// A worker that is late for the only loop may meet the end of its pool in the middle of its first
// look: pools end at all moments from 0 to 100 us after the loop.
TEST(ThreadPool, EndsWhileWorkersAreLate) {
  constexpr int kRounds = 10000;
  int64_t items = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<int64_t> part{0};
    ThreadPool pool(2);
    pool.ParallelFor(4, 1, [&](int64_t begin, int64_t end) { part += end - begin; });
    const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(round % 2000 * 50);
    while (std::chrono::steady_clock::now() < end) {
    }
    items += part;
  }
  EXPECT_EQ(items, 4 * kRounds);
}

TEST(Median, IsTheMeanOfBothMiddleValues) {
  std::vector<double> one = {3}, odd = {5, 1, 3}, even = {4, 1, 10, 2}, none;
  EXPECT_EQ(Median(one), 3);
  EXPECT_EQ(Median(odd), 3);
  EXPECT_EQ(Median(even), 3);
  EXPECT_EQ(Median(none), 0);
}

// Ranks of 0, 0.75, 1.5, 2.7 and 3 among four.
TEST(Percentile, LiesBetweenTheClosestRanks) {
  const std::vector<double> sorted = {1, 2, 4, 10}, one = {7};
  EXPECT_DOUBLE_EQ(Percentile(sorted, 0), 1);
  EXPECT_DOUBLE_EQ(Percentile(sorted, 25), 1.75);
  EXPECT_DOUBLE_EQ(Percentile(sorted, 50), 3);
  EXPECT_DOUBLE_EQ(Percentile(sorted, 90), 8.2);
  EXPECT_DOUBLE_EQ(Percentile(sorted, 100), 10);
  EXPECT_DOUBLE_EQ(Percentile(one, 0), 7);
  EXPECT_DOUBLE_EQ(Percentile(one, 100), 7);
}

TEST(Isa, SelectedIsSupported) {
  const auto isa = SelectIsa();
  ASSERT_TRUE(isa) << isa.error().message();
  EXPECT_TRUE(IsaSupported(*isa));
}

}  // namespace
TEST(Text, Utf8CharactersAndBytesThatAreNone) {
  const std::string text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
  std::vector<uint32_t> codes;
  for (size_t at = 0; at < text.size(); at += Utf8At(text, at).bytes)
    codes.push_back(Utf8At(text, at).code);
  EXPECT_EQ(codes, (std::vector<uint32_t>{'a', 0xe9, 0x20ac, 0x1f600}));
  // A continuation alone, a lead without its rest, leads that no character has.
  for (const char* wrong : {"\x80", "\xc3", "\xe2\x82", "\xc3g", "\xf8\x88\x80\x80\x80", "\xff"}) {
    const Utf8Character c = Utf8At(wrong, 0);
    EXPECT_FALSE(c.valid) << wrong;
    EXPECT_EQ(c.bytes, 1u);
    EXPECT_EQ(c.code, static_cast<unsigned char>(wrong[0]));
  }
}

}  // namespace evoq
