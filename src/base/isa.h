// The instruction set that kernels run with.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace evoq {

// Ordered: a higher one of the same architecture implies the lower ones.
enum class Isa {
  kScalar,  // plain C++, everywhere: the definition of every result
  kAvx2,    // AVX2 + FMA + F16C
  kAvx512,  // AVX-512 F/BW/VL/DQ + VNNI
  kNeon,    // Armv8.2 with dot product
};

// "SCALAR", "AVX2", "AVX512", "NEON": the spelling of EVOQ_TARGET.
const char* IsaName(Isa isa);

// Whether this machine can run it.
bool IsaSupported(Isa isa);

// The best one of this machine, or the one that EVOQ_TARGET names.
// Errors: kUsage when EVOQ_TARGET is misspelled or names what the machine lacks.
Result<Isa> SelectIsa();

// Whether the machine has AVX512_BF16 (asked separately: it is not implied by kAvx512).
bool HasBf16();

// What measured times hold for: processor, instruction set and version of evoq.
std::string MachineName(Isa isa);

// Bytes of the largest cache, shared by its cores; 1 MiB where the machine does not say.
int64_t LargestCacheBytes();

// The processor's name, "AMD EPYC 9B45", or "unknown processor".
std::string CpuName();

}  // namespace evoq
