// What forecasts must know of a machine beside its roofline.
#pragma once

#include "profile/limits.h"

namespace evoq {

struct MachineLimits : Limits {
  double l2_read_gbps = 0;
  double clock_ghz = 0;  // of one busy core: dependent additions per nanosecond
  double fork_ns = 0;    // a parallel loop with nothing to do; 0 with one thread
  int64_t l2_bytes = 0;  // of one core
  int64_t l3_bytes = 0;  // of the largest cache, shared by its cores
};

// MeasureLimits and the rest, in a second and a half.
MachineLimits MeasureMachine(Isa isa, int threads);

// Float32 operations per nanosecond, as Limits::fp32_gflops, but now and in the mean: of a few
// milliseconds on all `threads`. Well below the limit, someone else has the cores or the clock is
// down.
double PresentFp32Gflops(Isa isa, int threads);

}  // namespace evoq
