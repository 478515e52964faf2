// A thread that prepares executors beside the runs of a model.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "program/model.h"
#include "runtime/executor.h"

namespace evoq {

// Any thread may call any function at any time. In a child of fork() it goes on, on a thread of the
// child's: fork() waits for what the parent's is at.
class Preparer {
 public:
  struct Made {
    InputShapes shapes;
    Result<std::shared_ptr<Executor>> executor;
    double ms = 0;
  };
  // `prepare` is called on the thread, once for each set of sizes, in the order in which they were
  // asked for. Throws std::system_error where there is no thread for it.
  explicit Preparer(std::function<Result<std::shared_ptr<Executor>>(const InputShapes&)> prepare);
  // Waits for what it is at, and forgets the rest.
  ~Preparer();
  Preparer(const Preparer&) = delete;
  Preparer& operator=(const Preparer&) = delete;

  // Nothing where it is waited for already.
  void Ask(const InputShapes& shapes);
  // Whether Take has something to give.
  bool made_any() const { return made_any_; }
  std::vector<Made> Take();
  // Until all that was asked for is made.
  void Wait();

 private:
  void Work();
  // Before anything else, of every function: in a child of fork() a thread of its own.
  void Begin();
  void ForgetParent();

  std::function<Result<std::shared_ptr<Executor>>(const InputShapes&)> prepare_;
  std::mutex mutex_;  // of what follows
  std::deque<InputShapes> asked_;
  std::vector<Made> made_;
  std::atomic<bool> made_any_ = false;
  bool busy_ = false, closing_ = false;
  std::condition_variable changed_, idle_;
  std::atomic<uint32_t> born_;  // Forks() of the process that the thread is of
  std::thread thread_;          // the last: it uses all others
};

}  // namespace evoq
