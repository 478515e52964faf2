// Speed of a model beside the float model.
#pragma once

#include <limits>

#include "base/on_progress.h"
#include "certify/certificate.h"
#include "certify/samples.h"
#include "engine/engine.h"

namespace evoq {

struct SpeedOptions {
  double duration_s = 6;  // for both together, and for waiting
  int rounds = 20;
  // At most half of the duration is spent waiting for other processes to leave enough processors
  // free.
  bool wait = true;
  OnProgress progress;
  Watch* watch = ThisMachine();
};

// What runs the engine's model when its speed is measured: on the samples' timed run of this
// number, where there are some; else at the shapes given at load, or, where what runs depends on
// data, on the first of the samples. Errors: kUsage where that needs a sample and there is none.
Result<std::shared_ptr<Runnable>> RunnerOf(Engine& engine, const Samples& samples,
                                           size_t timed = 0);

// Whether both programs run the same kernels on the same shapes in the same order: neither is
// slower.
bool SameSteps(const Program& a, const Program& b);

// Interleaved (profile/compare.h); of programs with the same steps the ratio is 1 by what they are.
Result<SpeedClaim> MeasureSpeed(const Runnable& reference, const Runnable& model,
                                const SpeedOptions& options);

using MeasureSpeedFn = std::function<Result<SpeedClaim>(
    const Runnable& reference, const Runnable& model, const SpeedOptions& options)>;

struct ShareOfTime {
  double seconds = 1;  // about
  double limit_s =
      std::numeric_limits<double>::infinity();  // no run begins later, once each has run
  Watch* watch = ThisMachine();
};
// Calm milliseconds (RunTimes::CalmMs) of whole runs of each executor, run in turn, each after a
// run of the same executor; at least 7 rounds within the limit.
Result<std::vector<double>> CalmRuns(std::span<Runnable* const> executors, const ShareOfTime& time);

// Calm milliseconds (lower quartiles) of each step, by executor: scaled so that they add up to
// those of whole runs.
Result<std::vector<std::vector<double>>> CalmSteps(std::span<Runnable* const> executors,
                                                   const ShareOfTime& time);

using CalmRunsFn = std::function<Result<std::vector<double>>(std::span<Runnable* const> executors,
                                                             const ShareOfTime& time)>;
using CalmStepsFn = std::function<Result<std::vector<std::vector<double>>>(
    std::span<Runnable* const> executors, const ShareOfTime& time)>;

}  // namespace evoq
