// A fixed set of threads that run the parts of one parallel loop.
#pragma once

#include <cstdint>
#include <memory>

namespace evoq {

// Wraps pthreadpool. A pool of one thread runs everything on the caller. Not for concurrent use by two callers: each
// stream of an executor owns its pool. Parts must not depend on which thread runs them: results are equal for any
// number of threads.
class ThreadPool {
 public:
  // `threads` >= 1. 0 means one per physical core.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls body(begin, end) for pieces of [0, count) of at most `grain` items each and returns when all are done. Never
  // allocates: body is passed by reference.
  template <typename Body>
  void ParallelFor(int64_t count, int64_t grain, const Body& body) {
    if (count <= 0) return;
    if (threads_ == 1 || count <= grain) {
      body(int64_t{0}, count);
      return;
    }
    Run(count, grain, &body,
        [](void* b, size_t begin, size_t n) {
          (*static_cast<const Body*>(b))(static_cast<int64_t>(begin), static_cast<int64_t>(begin + n));
        });
  }

 private:
  void Run(int64_t count, int64_t grain, const void* body, void (*part)(void*, size_t, size_t));
  struct Impl;
  std::unique_ptr<Impl> impl_;
  int threads_;
};

// Physical cores that this process may use (its affinity mask and container limits respected), at least 1.
int PhysicalCores();

}  // namespace evoq
