#include "engine/preparer.h"

#include <algorithm>
#include <utility>

#include "base/forks.h"
#include "base/guarded.h"
#include "base/stopwatch.h"

namespace evoq {

Preparer::Preparer(std::function<Result<std::shared_ptr<Executor>>(const InputShapes&)> prepare)
    : prepare_(std::move(prepare)), born_(Forks()), thread_([this] { Work(); }) {}

void Preparer::Begin() {
  if (born_.load() == Forks()) return;
  static std::mutex one;
  const std::lock_guard lock(one);
  if (born_.load() == Forks()) return;
  ForgetParent();
  thread_ = std::thread([this] { Work(); });
  born_.store(Forks());
}

void Preparer::ForgetParent() {
  MakeAnew(mutex_);
  MakeAnew(changed_);
  MakeAnew(idle_);
  MakeAnew(thread_);
}

Preparer::~Preparer() {
  if (born_.load() != Forks()) {
    ForgetParent();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

void Preparer::Ask(const InputShapes& shapes) {
  Begin();
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(asked_, shapes) != asked_.end()) return;
  asked_.push_back(shapes);
  changed_.notify_one();
}

std::vector<Preparer::Made> Preparer::Take() {
  Begin();
  const std::lock_guard lock(mutex_);
  made_any_ = false;
  return std::exchange(made_, {});
}

void Preparer::Wait() {
  Begin();
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return asked_.empty() && !busy_; });
}

void Preparer::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closing_ || !asked_.empty(); });
    if (closing_) return;
    lock.unlock();
    const Unforked work;
    lock.lock();
    if (closing_) return;
    const InputShapes shapes = std::move(asked_.front());
    asked_.pop_front();
    busy_ = true;
    lock.unlock();
    const Stopwatch watch;
    auto executor = Guarded([&] { return prepare_(shapes); });
    const double ms = watch.ms();
    lock.lock();
    busy_ = false;
    made_.push_back({shapes, std::move(executor), ms});
    made_any_ = true;
    if (asked_.empty()) idle_.notify_all();
  }
}

}  // namespace evoq
