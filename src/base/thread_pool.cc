#include "base/thread_pool.h"

#include <cpuinfo.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/forks.h"
#include "base/loop_notes.h"
#include "base/processor_quota.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace evoq {
namespace {

thread_local LoopNotes* present_notes = nullptr;

inline void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Spins until done() or for about `ns`; whether done() came true.
template <typename Done>
bool SpinUntil(const Done& done, int64_t ns) {
  const int64_t end = NowNs() + ns;
  do {
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      Pause();
    }
  } while (NowNs() < end);
  return false;
}

}  // namespace

LoopNotes::LoopNotes() {
  EVOQ_CHECK(present_notes == nullptr, "notes within notes");
  present_notes = this;
}
LoopNotes::~LoopNotes() { present_notes = nullptr; }

// One loop at a time. `open` names the loop that may be joined, 0 when there is none. A worker
// announces itself in `inside` and then looks at `open` again; the caller closes `open` and then
// waits for `inside` to become 0. Both sides write before they read (sequentially consistent), so a
// worker that comes late never touches a loop that has ended.
struct ThreadPool::Impl {
  // Items [next, end), begun by one thread: those that no thread has taken.
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };
  alignas(64) std::atomic<uint32_t> open{0};
  alignas(64) std::atomic<uint32_t> published{0};  // the newest loop; what sleeping workers wait on
  alignas(64) std::atomic<int> inside{0};
  std::atomic<int> asleep{0};
  std::atomic<bool> stop{false};
  int64_t count = 0, grain = 1;
  const void* body = nullptr;
  Part part = nullptr;
  uint32_t generation = 0;
  const uint32_t born = Forks();
  std::vector<Share> shares;  // per thread, the caller first
  std::mutex mutex;           // of `thrown`
  std::exception_ptr thrown;  // the first that a part of this loop threw
  std::vector<std::thread> workers;

  explicit Impl(int threads) : shares(static_cast<size_t>(threads)) {
    workers.reserve(shares.size());
    try {
      for (size_t i = 1; i < shares.size(); ++i) workers.emplace_back([this, i] { Work(i); });
    } catch (const std::system_error& e) {
      const size_t started = workers.size() + 1;
      End();
      throw std::system_error(e.code(),
                              fmt::format("thread {} of {} cannot start", started + 1, threads));
    } catch (...) {
      End();
      throw;
    }
  }
  ~Impl() { End(); }

  void End() {
    stop.store(true);
    published.store(generation + 1);
    published.notify_all();
    for (std::thread& worker : workers) worker.join();
    workers.clear();
  }

  // Shares out whole pieces.
  void Divide() {
    const int64_t pieces = (count - 1) / grain + 1, threads = static_cast<int64_t>(shares.size());
    const int64_t least = pieces / threads, more = pieces % threads;
    int64_t begin = 0;
    for (int64_t i = 0; i < threads; ++i) {
      shares[i].next.store(begin, std::memory_order_relaxed);
      const int64_t mine = least + (i < more ? 1 : 0);
      begin = mine > (count - begin) / grain ? count : begin + mine * grain;
      shares[i].end = begin;
    }
  }

  // What a part throws ends the thread's work on this loop; the caller of the loop gets it.
  void TakeParts(size_t thread) {
    try {
      TakeAll(thread);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (thrown == nullptr) thrown = std::current_exception();
    }
  }

  void TakeAll(size_t thread) {
    for (size_t i = 0; i < shares.size(); ++i) {
      Share& share = shares[(thread + i) % shares.size()];
      for (;;) {
        const int64_t begin = share.next.fetch_add(grain, std::memory_order_relaxed);
        if (begin >= share.end) break;
        part(body, begin, std::min(begin + grain, share.end), static_cast<int>(thread));
      }
    }
  }

  void Work(size_t thread) {
    uint32_t seen = 0;
    for (;;) {
      if (!SpinUntil([&] { return published.load() != seen; }, kSpinNs)) {
        asleep.fetch_add(1);
        published.wait(seen);
        asleep.fetch_sub(1);
      }
      const uint32_t now = published.load();
      if (stop.load())
        return;  // set before the last number is published: a thread that read that number sees it
      if (now == seen) continue;
      seen = now;
      inside.fetch_add(1);
      if (open.load() == seen) TakeParts(thread);
      inside.fetch_sub(1);
    }
  }

  void Publish(uint32_t id) {
    published.store(id);
    if (asleep.load() > 0) published.notify_all();
  }
};

ThreadPool::ThreadPool(int threads) : threads_(threads <= 0 ? PhysicalCores() : threads) {
  if (threads_ > 1) impl_ = std::make_unique<Impl>(threads_);
}

ThreadPool::~ThreadPool() {
  // After a fork there are no threads to end, and their handles are not ours to free.
  if (impl_ != nullptr && impl_->born != Forks()) (void)impl_.release();
}

void ThreadPool::Run(int64_t count, int64_t grain, const void* body, Part part) {
  if (present_notes != nullptr) return present_notes->loops_.push_back({count, grain});
  if (impl_->born != Forks()) [[unlikely]] {
    auto own = std::make_unique<Impl>(threads_);
    (void)impl_.release();
    impl_ = std::move(own);
  }
  Impl& pool = *impl_;
  pool.count = count;
  pool.grain = grain;
  pool.body = body;
  pool.part = part;
  pool.Divide();
  if (++pool.generation == 0) ++pool.generation;  // 0 means closed
  pool.open.store(pool.generation);
  pool.Publish(pool.generation);
  pool.TakeParts(0);
  pool.open.store(0);
  // A worker that was taken off its core in the middle of a part needs the core that this thread
  // would spin on.
  while (!SpinUntil([&] { return pool.inside.load() == 0; }, kSpinNs)) sched_yield();
  if (pool.thrown != nullptr) [[unlikely]]
    std::rethrow_exception(std::exchange(pool.thrown, nullptr));
}

int PhysicalCores() {
  int allowed = 1;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) allowed = std::max(1, CPU_COUNT(&set));
  // A container that may use two of many would be held up with a thread for each.
  allowed = std::min(allowed, ProcessorQuota().value_or(allowed));
  if (!cpuinfo_initialize()) return allowed;
  return std::clamp(static_cast<int>(cpuinfo_get_cores_count()), 1, allowed);
}

}  // namespace evoq
