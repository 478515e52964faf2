// The instruction sets that kernels run with.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace evoq {

// What kernels may use of a processor: a set of features. A kernel names the set that it needs; a
// machine, or EVOQ_TARGET, gives the set that there is.
struct Isa {
  uint32_t features = 0;  // bits of Feature

  enum Feature : uint32_t {
    kFeatureAvx2 = 1 << 0,          // AVX2, FMA, F16C
    kFeatureAvx512 = 1 << 1,        // AVX-512 F, BW, VL, DQ and VNNI
    kFeatureAvx512Bf16 = 1 << 2,    // products of bfloat16 pairs
    kFeatureAvxVnni = 1 << 3,       // AVX-VNNI: products of four bytes in 256 bits, without AVX-512
    kFeatureEvexVnni = 1 << 4,      // the same in AVX-512's encoding
    kFeatureNeon = 1 << 5,          // Arm, 64 bit: always there
    kFeatureNeonDot = 1 << 6,       // dot products of four signed bytes
    kFeatureNeonI8mm = 1 << 7,      // 2 x 2 products of eight bytes, of either sign
    kFeatureNeonBf16 = 1 << 8,      // dot products of bfloat16 pairs
    kFeatureAmx = 1 << 9,           // AMX tiles, int8 and bfloat16, that the system lets us use
    kFeatureAmxSoftware = 1 << 10,  // the same tiles in plain C++ (kernels/amx/software.h)
  };

  constexpr bool Has(Isa needs) const { return (features & needs.features) == needs.features; }
  friend constexpr bool operator==(Isa, Isa) = default;

  // The sets that have a name.
  static const Isa kScalar, kAvx2, kAvx2Vnni, kAvx2VnniEvex, kAvx512, kAvx512Bf16;
  static const Isa kAmx, kAmxSoftware;
  static const Isa kNeon, kNeonDot, kNeonI8mm, kNeonBf16;
};
inline constexpr Isa Isa::kScalar{};  // plain C++, everywhere: the definition of every result
inline constexpr Isa Isa::kAvx2{kFeatureAvx2};
inline constexpr Isa Isa::kAvx2Vnni{kFeatureAvx2 | kFeatureAvxVnni};
// What processors with AVX-VNNI and without AVX-512 run, on those with AVX-512: to test and
// measure.
inline constexpr Isa Isa::kAvx2VnniEvex{kFeatureAvx2 | kFeatureEvexVnni};
inline constexpr Isa Isa::kAvx512{kFeatureAvx2 | kFeatureAvx512};
inline constexpr Isa Isa::kAvx512Bf16{kFeatureAvx2 | kFeatureAvx512 | kFeatureAvx512Bf16};
inline constexpr Isa Isa::kAmx{kFeatureAvx2 | kFeatureAvx512 | kFeatureAvx512Bf16 | kFeatureAmx};
// AMX's kernels where only AVX-512 is, to test them: slow, and chosen by EVOQ_TARGET only.
inline constexpr Isa Isa::kAmxSoftware{kFeatureAvx2 | kFeatureAvx512 | kFeatureAmxSoftware};
inline constexpr Isa Isa::kNeon{kFeatureNeon};
inline constexpr Isa Isa::kNeonDot{kFeatureNeon | kFeatureNeonDot};
inline constexpr Isa Isa::kNeonI8mm{kFeatureNeon | kFeatureNeonDot | kFeatureNeonI8mm};
inline constexpr Isa Isa::kNeonBf16{kFeatureNeon | kFeatureNeonDot | kFeatureNeonI8mm |
                                    kFeatureNeonBf16};

// The named sets of this architecture, better ones first; the last one is kScalar.
std::span<const Isa> AllIsas();

// "SCALAR", "AVX2", "AVX2_VNNI_EVEX", "AVX2_VNNI", "AVX512", "AMX_SOFTWARE", "AVX512_BF16", "AMX",
// on Arm "SCALAR", "NEON", "NEON_DOT", "NEON_I8MM", "NEON_BF16": the spelling of EVOQ_TARGET, of
// the best named set that `isa` has.
const char* IsaName(Isa isa);
// The set of this name, nothing where there is none.
std::optional<Isa> IsaFromName(std::string_view name);
// "SCALAR, AVX2, AVX2_VNNI_EVEX, AVX2_VNNI, AVX512, AMX_SOFTWARE, AVX512_BF16 or AMX", for
// messages.
std::string IsaNames();

// Whether this machine can run it.
bool IsaSupported(Isa isa);

// The best named set of this machine that pays there, or the one that EVOQ_TARGET names.
// Errors: kUsage when EVOQ_TARGET is misspelled or names what the machine lacks.
Result<Isa> SelectIsa();
// Why SelectIsa leaves out what the processor announces, for a note: what and why, or empty.
std::string IsaNote();

// Whether the cores are Intel's: what no feature tells of them (which instructions are slow, how
// far they fetch ahead).
bool IntelCores();

// What measured times hold for: processor, instruction set and version of evoq.
std::string MachineName(Isa isa);

// Bytes of the largest cache, shared by its cores; 1 MiB where the machine does not say.
int64_t LargestCacheBytes();

// The processor's name, "AMD EPYC 9B45", or "unknown processor".
std::string CpuName();

}  // namespace evoq
