#include "base/threads.h"

#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/thread_state.h"

namespace evoq {

void RunOnThreads(int count, const std::function<void(int)>& body) {
  enum { kWait, kBegin, kGiveUp };
  std::atomic<int> gate{kWait};
  std::mutex mutex;
  std::exception_ptr thrown;
  const auto run = [&](int i) {
    try {
      body(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (thrown == nullptr) thrown = std::current_exception();
    }
  };
  std::vector<std::jthread> threads;
  const auto open = [&](int how) {
    gate.store(how);
    gate.notify_all();
  };
  try {
    for (int i = 1; i < count; ++i) {
      threads.emplace_back([&, i] {
        const ThreadState state;
        gate.wait(kWait);
        if (gate.load() == kBegin) run(i);
      });
    }
  } catch (const std::system_error& e) {
    open(kGiveUp);
    throw std::system_error(e.code(),
                            fmt::format("thread {} of {} cannot start", threads.size() + 2, count));
  } catch (...) {
    open(kGiveUp);
    throw;
  }
  open(kBegin);
  run(0);
  threads.clear();  // joins them
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

}  // namespace evoq
