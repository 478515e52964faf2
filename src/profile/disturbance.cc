#include "profile/disturbance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/median.h"

namespace evoq {
namespace {

// The system counts processor time in ticks of 10 ms, on each processor.
constexpr double kTickS = 0.01;

double Share(double part, double whole) {
  return whole > 0 ? std::clamp(part / whole, 0.0, 1.0) : 0;
}

}  // namespace

double Disturbance::distortion() const {
  // What another process does on the next core (caches, memory, hardware threads, clock) matters
  // less than what is done on this one.
  return 0.25 * others + 0.5 * stolen + 0.5 * waited + 0.25 * slowed;
}

double Disturbance::Widening(double ratio) const {
  // Models that are equally fast at rest may still differ in what disturbs them.
  constexpr double kLeast = 0.03;
  return std::exp(distortion() * (std::fabs(std::log(ratio)) + kLeast));
}

Disturbance Between(const MachineCounters& before, const MachineCounters& after) {
  Disturbance d;
  d.seconds = std::max(0.0, after.wall_s - before.wall_s);
  d.switches = std::max<int64_t>(0, after.switches - before.switches);
  const double all_s = d.seconds * after.processors, ticks_s = kTickS * after.processors;
  if (before.busy_s >= 0 && after.busy_s >= 0)
    d.others = Share(after.busy_s - before.busy_s - (after.own_s - before.own_s) - ticks_s, all_s);
  d.stolen = Share(after.stolen_s - before.stolen_s - ticks_s, all_s);
  return d;
}

void DisturbanceMeter::Run(double wall_ms, double thread_ms) {
  run_ms_ += wall_ms;
  waited_ms_ += std::max(0.0, wall_ms - thread_ms);
}

void DisturbanceMeter::Round(double figure) {
  loops_.push_back(watch_->LoopMs());
  figures_.push_back(figure);
}

Disturbance DisturbanceMeter::Read() const {
  Disturbance d = Between(before_, watch_->Counters());
  d.waited = Share(waited_ms_, run_ms_);
  if (loops_.empty()) return d;
  std::vector<double> loops = loops_, figures = figures_;
  const double fastest = *std::min_element(loops.begin(), loops.end());
  if (fastest > 0) d.slowed = std::clamp(Median(loops) / fastest - 1, 0.0, 1.0);
  std::sort(figures.begin(), figures.end());
  const double middle = Percentile(figures, 50);
  if (middle > 0) d.spread = (Percentile(figures, 75) - Percentile(figures, 25)) / middle;
  return d;
}

double WaitForCalm(Watch* watch, int threads, double most_s) {
  constexpr double kPartMs = 200;
  constexpr double kSlack = 0.25;  // of a processor
  const MachineCounters start = watch->Counters();
  for (MachineCounters before = start;;) {
    const double waited_s = before.wall_s - start.wall_s, left_ms = 1e3 * (most_s - waited_s);
    if (before.busy_s < 0 || left_ms <= 0) return waited_s;
    watch->SleepMs(std::min(kPartMs, left_ms));
    const MachineCounters after = watch->Counters();
    const Disturbance d = Between(before, after);
    const double free = after.processors * (1 - d.others - d.stolen);
    const double wanted = std::min(threads, after.processors);
    if (free >= wanted - kSlack || !(after.wall_s > before.wall_s))
      return after.wall_s - start.wall_s;
    before = after;
  }
}

std::string ToText(const Disturbance& d) {
  if (!d.notable()) return "";
  constexpr double kNamed = 0.02;
  std::vector<std::string> parts;
  const auto name = [&](double share, const char* what) {
    if (share >= kNamed) parts.push_back(fmt::format(fmt::runtime(what), 100 * share));
  };
  name(d.others, "other processes used {:.0f}% of the processors");
  name(d.stolen, "other virtual machines took {:.0f}% of the processors");
  name(d.waited, "runs waited for a processor {:.0f}% of their time");
  name(d.slowed, "cores were {:.0f}% slower than at their fastest");
  if (parts.empty()) parts.push_back("several small disturbances came together");
  return fmt::format("{}", fmt::join(parts, ", "));
}

nlohmann::json ToJson(const Disturbance& d) {
  return {{"seconds", d.seconds},     {"others_share", d.others},     {"stolen_share", d.stolen},
          {"waited_share", d.waited}, {"slowed", d.slowed},           {"round_spread", d.spread},
          {"switches", d.switches},   {"distortion", d.distortion()}, {"too_much", d.too_much()}};
}

}  // namespace evoq
