#include "profile/watch.h"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

namespace evoq {
namespace {

double Ms(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

double Seconds(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
}

// Adds up the lines "cpuN user nice system idle iowait irq softirq steal ..." of /proc/stat whose
// processor this process may use (proc(5)).
void ReadProcessors(MachineCounters& counters) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  counters.processors = std::max(1, CPU_COUNT(&allowed));
  std::ifstream file("/proc/stat");
  long long busy = 0, stolen = 0;
  bool found = false;
  for (std::string line; std::getline(file, line);) {
    int cpu = 0;
    long long user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, steal = 0;
    if (std::sscanf(line.c_str(), "cpu%d %lld %lld %lld %lld %lld %lld %lld %lld", &cpu, &user,
                    &nice, &system, &idle, &wait, &irq, &soft, &steal) < 8)
      continue;
    if (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &allowed)) continue;
    found = true;
    busy += user + nice + system + irq + soft;
    stolen += steal;
  }
  if (!found) return;
  const double ticks = static_cast<double>(std::max(1L, sysconf(_SC_CLK_TCK)));
  counters.busy_s = static_cast<double>(busy) / ticks;
  counters.stolen_s = static_cast<double>(stolen) / ticks;
}

// Six independent chains of additions and multiplications: as many as a core starts in a cycle.
void Arithmetic() {
  uint64_t a = 1, b = 2, c = 3, d = 4;
  double e = 1, f = 2;
  for (int i = 0; i < 20'000; ++i) {
    a += b;
    b ^= a;
    c += d;
    d ^= c;
    e = e * 0.5 + 1;
    f = f * 0.25 + 1;
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+m"(e), "+m"(f));
  }
}

}  // namespace

double Watch::WallMs() { return Ms(CLOCK_MONOTONIC); }
double Watch::ThreadMs() { return Ms(CLOCK_THREAD_CPUTIME_ID); }

int64_t Watch::Switches() {
  rusage usage;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nivcsw : 0;
}

MachineCounters Watch::Counters() {
  MachineCounters counters;
  counters.wall_s = WallMs() / 1e3;
  rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    counters.own_s = Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
    counters.switches = usage.ru_nivcsw;
  }
  ReadProcessors(counters);
  return counters;
}

double Watch::LoopMs() {
  constexpr int kTimes = 5;  // the fastest counts
  double best = 0;
  for (int i = 0; i < kTimes; ++i) {
    const double start = WallMs();
    Arithmetic();
    const double ms = WallMs() - start;
    best = i == 0 ? ms : std::min(best, ms);
  }
  return best;
}

void Watch::SleepMs(double ms) {
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
}

Watch* ThisMachine() {
  static Watch machine;
  return &machine;
}

}  // namespace evoq
