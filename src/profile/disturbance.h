// How much the machine was disturbed while something was measured: docs/compare.md.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "profile/watch.h"

namespace evoq {

// Shares are between 0 and 1.
struct Disturbance {
  double seconds = 0;  // measured for so long
  double others = 0;   // of the processors: what other processes used
  double stolen = 0;   // of the processors: what other virtual machines took
  double waited = 0;   // of the measured runs' time: when the thread that measures had no processor
  double slowed =
      0;  // how much longer the calibrated loop took in the median round than in the fastest
  double spread = 0;  // how far the middle half of the rounds' figures reaches, over their median
  int64_t switches = 0;  // how often a thread was taken off its processor

  // How far the logarithm of a ratio of two times may be from what it is on a quiet machine, as a
  // share of itself. A judgement, as the limits below (docs/compare.md): two copies of one model
  // are disturbed alike, a model that lives in memory more than one that fits the caches.
  double distortion() const;
  // The factor, at least 1, by which a bound of this ratio is to be moved away from it.
  double Widening(double ratio) const;
  // Worth telling whoever reads a figure.
  bool notable() const { return distortion() >= 0.02; }
  // Nothing should be promised of what was measured then.
  bool too_much() const { return distortion() > 0.15; }
};

// "other processes used 67% of the processors, ..."; "" where it is not notable.
std::string ToText(const Disturbance& disturbance);
nlohmann::json ToJson(const Disturbance& disturbance);

// Of what the counters say of the time between; the rest stays 0.
Disturbance Between(const MachineCounters& before, const MachineCounters& after);

// Collects a Disturbance while something is measured.
class DisturbanceMeter {
 public:
  explicit DisturbanceMeter(Watch* watch) : watch_(watch), before_(watch->Counters()) {}

  // A run that took `wall_ms`, of which its thread had a processor for `thread_ms`.
  void Run(double wall_ms, double thread_ms);
  // After each round: its figure, a time or a ratio. Runs the calibrated loop.
  void Round(double figure);
  Disturbance Read() const;

 private:
  Watch* watch_;
  MachineCounters before_;
  double run_ms_ = 0, waited_ms_ = 0;
  std::vector<double> loops_, figures_;
};

// Sleeps until `threads` processors are free of other work, at most `most_s`; returns for how many
// seconds. At once where the system does not tell.
double WaitForCalm(Watch* watch, int threads, double most_s);

}  // namespace evoq
