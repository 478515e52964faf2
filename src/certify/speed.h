// Speed of a model beside the float model.
#pragma once

#include "certify/certificate.h"
#include "engine/engine.h"

namespace evoq {

struct SpeedOptions {
  double duration_s = 6;  // for both together
  int rounds = 20;
  std::function<void(double fraction)> progress;  // may be null
};

// Whether both programs run the same kernels on the same shapes in the same order: neither is slower.
bool SameSteps(const Program& a, const Program& b);

// Interleaved (profile/compare.h); of programs with the same steps the ratio is 1 by what they are.
Result<SpeedClaim> MeasureSpeed(const Executor& reference, const Executor& model, const SpeedOptions& options);

// Median milliseconds of whole runs of each executor, run in turn for about so many seconds; at least 5 rounds.
Result<std::vector<double>> MedianRuns(std::span<Executor* const> executors, double seconds);

// Median milliseconds of each step, by executor: scaled so that they add up to the median of whole runs.
Result<std::vector<std::vector<double>>> MedianSteps(std::span<Executor* const> executors, double seconds);

}  // namespace evoq
