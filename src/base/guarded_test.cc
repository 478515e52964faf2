// Exceptions of the standard library become errors, and threads that throw or cannot start end
// well.
#include "base/guarded.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <limits>
#include <system_error>
#include <thread>
#include <vector>

#include "base/aligned.h"
#include "base/test_child.h"
#include "base/thread_pool.h"
#include "base/threads.h"

#if defined(__SANITIZE_THREAD__)
#define EVOQ_TSAN
#elif defined(__SANITIZE_ADDRESS__)
#define EVOQ_ASAN
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define EVOQ_TSAN
#elif __has_feature(address_sanitizer)
#define EVOQ_ASAN
#endif
#endif

namespace evoq {
namespace {

Status Caught(const std::function<void()>& body) {
  return Guarded([&]() -> Status {
    body();
    return {};
  });
}

TEST(Guarded, WhatMemoryThreadsAndFilesThrow) {
  EXPECT_TRUE(Caught([] {}));
  EXPECT_EQ(Guarded([]() -> Result<int> { return 7; }).value(), 7);
  EXPECT_EQ(Guarded([]() -> Result<int> { return InvalidInput("bad"); }).error().message(), "bad");
  const struct {
    std::function<void()> body;
    ErrorCode code;
    const char* says;
  } cases[] = {
      {[] { throw std::bad_alloc(); }, ErrorCode::kTooLarge, "out of memory"},
      {[] { throw std::bad_array_new_length(); }, ErrorCode::kTooLarge, "out of memory"},
      {[] { (void)std::vector<int>().at(0); }, ErrorCode::kInternal, "unexpected: "},
      {[] { std::vector<int64_t>().resize(std::numeric_limits<size_t>::max() / 8); },
       ErrorCode::kTooLarge, "a size is beyond what this machine can address"},
      {[] { throw std::system_error(EAGAIN, std::generic_category(), "thread 3 of 4"); },
       ErrorCode::kTooLarge, "thread 3 of 4: Resource temporarily unavailable"},
      {[] { throw std::system_error(ENOMEM, std::generic_category(), "a map"); },
       ErrorCode::kTooLarge, "a map: Cannot allocate memory"},
      {[] { throw std::system_error(ENOSPC, std::generic_category(), "stdout"); }, ErrorCode::kIo,
       "stdout: No space left on device"},
      {[] { (void)std::filesystem::file_size("/nowhere/at/all"); }, ErrorCode::kIo,
       "/nowhere/at/all"},
  };
  for (const auto& c : cases) {
    const Status status = Caught(c.body);
    ASSERT_FALSE(status) << c.says;
    EXPECT_EQ(status.error().code(), c.code) << c.says;
    EXPECT_NE(status.error().message().find(c.says), std::string::npos) << status.error().message();
  }
  EXPECT_THROW((void)Caught([] { throw 7; }), int) << "nothing of the standard library's";
}

TEST(Guarded, MemoryThatIsNotThere) {
#if !defined(EVOQ_ASAN) && !defined(EVOQ_TSAN)  // which end the process
  for (const size_t bytes :
       {std::numeric_limits<size_t>::max(), std::numeric_limits<size_t>::max() - 63,
        std::numeric_limits<size_t>::max() / 2, size_t{1} << 62}) {
    const Status status = Caught([&] { const AlignedBuffer buffer(bytes); });
    ASSERT_FALSE(status) << bytes;
    EXPECT_EQ(status.error().message(), "out of memory");
  }
#endif
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65}}) {
    const AlignedBuffer buffer(bytes);
    EXPECT_EQ(buffer.size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
  }
}

// In each part, on whichever thread: the loop ends, the caller gets it, the pool works on.
TEST(AlignedBuffer, OfEverySize) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4096}, (size_t{4} << 20) - 1,
                             size_t{4} << 20, (size_t{9} << 20) + 77}) {
    for (int round = 0; round < 2; ++round) {  // the second one of memory that was used
      AlignedBuffer buffer = AlignedBuffer::Zeros(bytes);
      EXPECT_EQ(buffer.size(), bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kAlignment, 0u);
      EXPECT_EQ(std::count(buffer.data(), buffer.data() + bytes, std::byte{0}),
                static_cast<int64_t>(bytes));
      const size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
      std::fill_n(buffer.data(), whole, std::byte{7});
      const AlignedBuffer moved = std::move(buffer);
      EXPECT_EQ(moved.size(), bytes);
      EXPECT_EQ(std::count(moved.data(), moved.data() + whole, std::byte{7}),
                static_cast<int64_t>(whole));
    }
  }
}

TEST(Guarded, PartsOfALoopThatThrow) {
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    for (int64_t bad = 0; bad < 20; ++bad) {
      const Status status = Caught([&] {
        pool.ParallelFor(20, 1, [&](int64_t begin, int64_t end) {
          if (begin <= bad && bad < end) throw std::bad_alloc();
        });
      });
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().message(), "out of memory");
      std::atomic<int> items{0};
      pool.ParallelFor(20, 1,
                       [&](int64_t begin, int64_t end) { items += static_cast<int>(end - begin); });
      EXPECT_EQ(items, 20);
    }
    EXPECT_FALSE(
        Caught([&] { pool.ParallelFor(20, 1, [](int64_t, int64_t) { throw std::bad_alloc(); }); }));
  }
}

TEST(Threads, RunTogetherAndThrowOnce) {
  for (const int count : {1, 2, 5}) {
    std::vector<int> hits(count);
    std::atomic<int> inside{0};
    RunOnThreads(count, [&](int i) {
      ++hits[i];
      ++inside;
      while (inside < count) std::this_thread::yield();  // ends only when all run at once
    });
    EXPECT_EQ(hits, std::vector<int>(count, 1));
    for (int bad = 0; bad < count; ++bad) {
      std::atomic<int> done{0};
      const Status status = Caught([&] {
        RunOnThreads(count, [&](int i) {
          if (i == bad) throw std::bad_alloc();
          ++done;
        });
      });
      EXPECT_FALSE(status);
      EXPECT_EQ(done, count - 1) << "the others have ended";
    }
  }
}

#ifndef EVOQ_TSAN

int64_t SumOf(ThreadPool& pool, int64_t count) {
  std::atomic<int64_t> sum{0};
  pool.ParallelFor(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) sum += i;
  });
  return sum;
}

// Threads do not come along to a child: its first loop starts its own, and its pool can end.
TEST(Threads, APoolWorksAfterAFork) {
  for (const int threads : {1, 2, 4}) {
    auto pool = std::make_unique<ThreadPool>(threads);
    EXPECT_EQ(SumOf(*pool, 100), 4950);
    EXPECT_TRUE(InChild([&] {
      std::vector<std::atomic<int>> seen(threads);
      if (SumOf(*pool, 100) != 4950 || SumOf(*pool, 7) != 21) return false;
      // All its threads take part: each waits for the others.
      std::atomic<int> inside{0};
      pool->ParallelFor(threads, 1, [&](int64_t, int64_t) {
        ++inside;
        while (inside < threads) std::this_thread::yield();
      });
      // And a fork of the fork.
      const bool below = InChild([&] { return SumOf(*pool, 50) == 1225; });
      pool.reset();
      return below;
    }));
    EXPECT_TRUE(InChild([&] {
      pool.reset();  // without a loop
      return true;
    }));
    EXPECT_EQ(SumOf(*pool, 100), 4950) << "the parent's own are untouched";
  }
}

#endif  // EVOQ_TSAN

}  // namespace
}  // namespace evoq
