// How a thread of the host computes while it is in evoq.
#pragma once

#include <locale.h>

#include <cstdint>

namespace evoq {

// Rounding to nearest, denormal numbers as they are, no trap on NaN or infinity, and the C locale
// for numbers in texts, for the calling thread until the end of the scope: results are the same
// whatever a host has set for itself (fesetround, feenableexcept, flushing to zero, setlocale).
// Threads that are made meanwhile compute so too.
class ThreadState {
 public:
  ThreadState() noexcept;
  ~ThreadState();
  ThreadState(const ThreadState&) = delete;
  ThreadState& operator=(const ThreadState&) = delete;

 private:
  uint64_t floats_;  // the host's control register
  locale_t locale_;
};

}  // namespace evoq
