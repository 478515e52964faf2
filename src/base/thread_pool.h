// A fixed set of threads that run the parts of one parallel loop.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace evoq {

// Every thread begins with an equal share of neighbouring items, the caller with the first one, and
// then helps the others: steps that cut their rows alike find what the same thread wrote before in
// that core's cache.
//
// A pool of one thread runs everything on the caller. Not for concurrent use by two callers: each
// stream of an executor owns its pool. Parts must not depend on which thread runs them: results are
// equal for any number of threads. What a part throws comes out of ParallelFor. Making a pool
// throws std::system_error when the system refuses a thread. In a child that fork() made while no
// loop ran, the first loop starts threads anew.
//
// Threads that wait spin for kSpinNs, then sleep, so that a busy machine is shared fairly: a step
// that follows at once finds them awake, and an idle pool costs nothing. The caller takes parts too
// and, once none is left, waits only for those being computed.
class ThreadPool {
 public:
  static constexpr int64_t kSpinNs = 50'000;

  // `threads` >= 1. 0 means one per physical core.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls body(begin, end) for pieces of [0, count) of at most `grain` items each and returns when
  // all are done. Never allocates: body is passed by reference. A body that takes a third argument
  // gets which thread calls it, less than threads(); no two pieces run under the same number at
  // once.
  template <typename Body>
  void ParallelFor(int64_t count, int64_t grain, const Body& body) {
    if (count <= 0) return;
    if (threads_ == 1 || count <= grain) {
      Call(body, 0, count, 0);
      return;
    }
    Run(count, grain > 0 ? grain : 1, &body,
        [](const void* b, int64_t begin, int64_t end, int thread) {
          Call(*static_cast<const Body*>(b), begin, end, thread);
        });
  }

 private:
  template <typename Body>
  static void Call(const Body& body, int64_t begin, int64_t end, int thread) {
    if constexpr (std::is_invocable_v<const Body&, int64_t, int64_t, int>) {
      body(begin, end, thread);
    } else {
      body(begin, end);
    }
  }
  using Part = void (*)(const void* body, int64_t begin, int64_t end, int thread);
  void Run(int64_t count, int64_t grain, const void* body, Part part);
  struct Impl;
  std::unique_ptr<Impl> impl_;
  int threads_;
};

// Physical cores that this process may use (its affinity mask respected), at least 1.
int PhysicalCores();

}  // namespace evoq
