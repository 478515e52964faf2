// What measuring reads of the machine: clocks, and what other processes do meanwhile.
#pragma once

#include <cstdint>

namespace evoq {

// Counts that only grow. Times in seconds; those of several processors are added up.
struct MachineCounters {
  double wall_s = 0;
  double own_s = 0;      // processor time of all threads of this process
  double busy_s = -1;    // processor time of all processes; below 0 where the system does not tell
  double stolen_s = 0;   // what other virtual machines took of the processors
  int64_t switches = 0;  // how often a thread of this process was taken off its processor
  int processors = 1;    // that this process may use: only these are counted
};

// The real machine; tests derive one whose time is made up.
class Watch {
 public:
  virtual ~Watch() = default;
  virtual double WallMs();
  // Processor time of the calling thread.
  virtual double ThreadMs();
  virtual int64_t Switches();
  virtual MachineCounters Counters();
  // How long a fixed piece of arithmetic takes that fills a core's execution units, undisturbed if
  // that is possible within about a millisecond: longer when the clock is down or another hardware
  // thread shares the core.
  virtual double LoopMs();
  virtual void SleepMs(double ms);
};

// Never null, shared by all threads.
Watch* ThisMachine();

}  // namespace evoq
