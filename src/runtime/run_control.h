// How a run is held up or ended between two of its steps, from other threads.
#pragma once

#include <atomic>

namespace evoq {

class RunControl {
 public:
  // The run waits behind the step that it is at, until Resume or Stop.
  void Pause() { Change(kGo, kPaused); }
  void Resume() { Change(kPaused, kGo); }
  // The run ends behind the step that it is at. For good.
  void Stop() {
    state_.store(kStopped, std::memory_order_release);
    state_.notify_all();
  }
  bool stopped() const { return state_.load(std::memory_order_acquire) == kStopped; }

  // Of the run, before each step: waits while it is paused. False: it is to end.
  bool Continue() {
    for (;;) {
      const int state = state_.load(std::memory_order_acquire);
      if (state != kPaused) return state == kGo;
      state_.wait(kPaused, std::memory_order_acquire);
    }
  }

 private:
  static constexpr int kGo = 0, kPaused = 1, kStopped = 2;

  void Change(int from, int to) {
    if (state_.compare_exchange_strong(from, to)) state_.notify_all();
  }

  std::atomic<int> state_ = kGo;
};

}  // namespace evoq
