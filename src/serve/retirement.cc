#include "serve/retirement.h"

#include <utility>

namespace evoq::serve {

Retirement::Retirement() : worker_([this] { Work(); }) {}

std::shared_ptr<Retirement> Retirement::Begin() {
  return std::shared_ptr<Retirement>(new Retirement);
}

Retirement::~Retirement() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

std::shared_ptr<ServedModel> Retirement::Kept(std::shared_ptr<Retirement> retirement,
                                              std::unique_ptr<ServedModel> model) {
  {
    const std::lock_guard lock(retirement->mutex_);
    // Room for all that may come back: handing over allocates nothing.
    retirement->retired_.reserve(retirement->alive_ + 1);
    ++retirement->alive_;
  }
  Retirement* const to = retirement.get();
  return std::shared_ptr<ServedModel>(model.release(), [to](ServedModel* last) {
    const std::lock_guard lock(to->mutex_);
    to->retired_.emplace_back(last);
    to->changed_.notify_all();
  });
}

void Retirement::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return alive_ == 0; });
}

void Retirement::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closing_ || !retired_.empty(); });
    if (retired_.empty()) return;
    std::unique_ptr<ServedModel> one = std::move(retired_.back());
    retired_.pop_back();
    lock.unlock();
    one.reset();
    lock.lock();
    --alive_;
    changed_.notify_all();
  }
}

}  // namespace evoq::serve
