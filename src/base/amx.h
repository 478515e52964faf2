// Intel's matrix unit (AMX: tiles of 16 rows of 64 bytes): whether this process may use it.
#pragma once

#include <cstdint>
#include <string>

namespace evoq {

// What the processor and the system say of the unit, as they say it (Intel's Software Developer's
// Manual, volume 2, CPUID; volume 1, chapter 18). 0 where a register cannot be read.
struct AmxWords {
  uint32_t features = 0;   // CPUID leaf 7, subleaf 0, EDX
  uint64_t registers = 0;  // XCR0: the registers that the system keeps for a thread
  uint32_t palettes = 0;   // leaf 1D, subleaf 0, EAX: the number of the last palette
  uint32_t row_bytes = 0;  // subleaf 1, of palette 1: EBX, low half
  uint32_t tiles = 0;      // EBX, high half
  uint32_t rows = 0;       // ECX, low half
};

struct AmxAnswer {
  bool usable = false;
  // Of a processor that announces tiles, int8 and bfloat16, why they are not used; or else empty.
  std::string hindrance;
};

// `request` asks the system to let the process use the tiles and gives 0 or an errno; it is called
// where nothing else stands in the way.
AmxAnswer JudgeAmx(const AmxWords& words, int (*request)());

// Of this machine. The first call asks the system, which from then on keeps 8 KiB more for each
// thread that uses tiles and refuses alternate signal stacks that are too small for them.
const AmxAnswer& AmxHere();

}  // namespace evoq
