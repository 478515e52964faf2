// Ends a fuzzer, which then keeps the input, when one input takes more than 5 s of processor time,
// however busy the machine is; 50 s where a sanitizer multiplies what everything takes.
#pragma once

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>

#include "base/check.h"

namespace evoq {

class TimeLimit {
 public:
#if defined(EVOQ_FEW_VARIANTS)  // a build with a sanitizer
  static constexpr int kSeconds = 50;
#else
  static constexpr int kSeconds = 5;
#endif

  TimeLimit() {
    static const bool once = [] { return signal(SIGPROF, TooLong) != SIG_ERR; }();
    EVOQ_CHECK(once);
    Set(kSeconds);
  }
  ~TimeLimit() { Set(0); }
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

 private:
  static void Set(int seconds) {
    const itimerval timer = {{0, 0}, {seconds, 0}};
    setitimer(ITIMER_PROF, &timer, nullptr);
  }
  static void TooLong(int) {
    constexpr char kText[] = "one input took more than its limit of processor time\n";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, kText, sizeof(kText) - 1);
    abort();
  }
};

}  // namespace evoq
