// The instruction loops behind MeasureLimits, one table per instruction set. Plain types only: the
// files that define them are compiled with instruction-set flags.
#pragma once

#include <cstdint>

namespace evoq {

// Each runs a register-only loop on the calling thread and returns how many operations it did.
struct PeakLoops {
  double (*int8)(int64_t rounds);
  double (*fp32)(int64_t rounds);
  double (*bf16)(int64_t rounds);  // null where there is none
  void (*read)(const void* data,
               int64_t bytes);  // loads every byte once; bytes is a multiple of 1024
};
const PeakLoops& ScalarPeakLoops();
const PeakLoops& Avx2PeakLoops();
const PeakLoops& Avx2VnniPeakLoops();
const PeakLoops& Avx2VnniEvexPeakLoops();
const PeakLoops& Avx512PeakLoops();
const PeakLoops& AmxPeakLoops();

}  // namespace evoq
