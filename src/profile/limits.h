// What this machine can do at most, measured: the denominators of every roofline share.
#pragma once

#include <string>
#include <vector>

#include "base/isa.h"
#include "kernels/kernel.h"

namespace evoq {

struct Limits {
  std::string cpu;
  std::string core;  // CoreKind(); the cpu where a file does not say
  Isa isa = Isa::kScalar;
  int threads = 1;
  double int8_gops =
      0;  // 8-bit multiply-accumulates x 2, with the exact instruction that kernels of this ISA use
  double bf16_gflops = 0;  // 0 where kernels of this ISA multiply bfloat16 as float32
  double fp32_gflops = 0;  // multiply-adds x 2
  double dram_read_gbps = 0;
  double l3_read_gbps = 0;
};

// Runs register-only loops of each instruction and reads of blocks in and far above the L3,
// `threads` at a time. Takes about a second. The result is the best of several rounds: a limit, not
// an average.
Limits MeasureLimits(Isa isa, int threads);

// What the products of one instruction set reach, as in Limits.
struct SetPeaks {
  Isa isa;
  double int8_gops = 0, bf16_gflops = 0, fp32_gflops = 0;
};
// Of every named set that this machine can run, the best first; AMX_SOFTWARE, whose products are no
// instructions, has no peak.
std::vector<SetPeaks> MeasureSets(int threads);

// Giga operations per second that products of this kind reach at most: of bfloat16, where they are
// computed in float32, those of float32; 0 of what has none.
double PeakGops(const Limits& limits, Peak peak);

// The time, in nanoseconds, that the roofline allows for a step: the larger of its arithmetic at
// peak and its bytes at the speed of what they are read from: `memory_bytes` of them from DRAM, the
// others from the L3 where they fit there, else from DRAM too.
double RooflineNs(const Limits& limits, Peak peak, int64_t macs, int64_t bytes,
                  int64_t memory_bytes = 0);

}  // namespace evoq
