// A machine whose time is made up, for tests of what is concluded from measurements.
#pragma once

#include <functional>

#include "profile/watch.h"

namespace evoq {

class FakeWatch : public Watch {
 public:
  double WallMs() override {
    wall_ms += look_ms;
    return wall_ms;
  }
  double ThreadMs() override { return thread_ms; }
  int64_t Switches() override { return switches; }
  MachineCounters Counters() override {
    return {wall_ms / 1e3, own_s, busy_s, stolen_s, switches, processors};
  }
  double LoopMs() override { return loop_ms; }
  void SleepMs(double ms) override {
    ++sleeps;
    Pass(ms, 0);
  }

  // Time passes, for so long of it with a processor for the calling thread. Other processes have
  // `others` processors meanwhile.
  void Pass(double ms, double on_processor_ms) {
    wall_ms += ms;
    thread_ms += on_processor_ms;
    own_s += on_processor_ms / 1e3;
    busy_s += on_processor_ms / 1e3 + others * ms / 1e3;
  }
  void Work(double ms) { Pass(ms, ms); }

  double wall_ms = 1e6, thread_ms = 500, loop_ms = 0.1;
  double look_ms = 0;  // what each look at the clock takes
  double own_s = 3, busy_s = 1000, stolen_s = 7;
  double others = 0;
  int64_t switches = 40;
  int processors = 2, sleeps = 0;
};

}  // namespace evoq
