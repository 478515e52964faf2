#include "base/thread_pool.h"

#include <cpuinfo.h>
#include <pthreadpool.h>
#include <sched.h>

#include <algorithm>

#include "base/check.h"

namespace evoq {

struct ThreadPool::Impl {
  pthreadpool_t pool = nullptr;
  ~Impl() { pthreadpool_destroy(pool); }
};

ThreadPool::ThreadPool(int threads) : threads_(threads <= 0 ? PhysicalCores() : threads) {
  if (threads_ > 1) {
    impl_ = std::make_unique<Impl>();
    impl_->pool = pthreadpool_create(static_cast<size_t>(threads_));
    EVOQ_CHECK(impl_->pool != nullptr, "cannot create {} threads", threads_);
  }
}

ThreadPool::~ThreadPool() = default;

void ThreadPool::Run(int64_t count, int64_t grain, const void* body, void (*part)(void*, size_t, size_t)) {
  pthreadpool_parallelize_1d_tile_1d(impl_->pool, part, const_cast<void*>(body), static_cast<size_t>(count),
                                     static_cast<size_t>(std::max<int64_t>(grain, 1)), 0);
}

int PhysicalCores() {
  int allowed = 1;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) allowed = std::max(1, CPU_COUNT(&set));
  if (!cpuinfo_initialize()) return allowed;
  return std::clamp(static_cast<int>(cpuinfo_get_cores_count()), 1, allowed);
}

}  // namespace evoq
