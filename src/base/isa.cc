#include "base/isa.h"

#include <cpuinfo.h>

#include <cstdlib>

#include "base/text.h"
#include "base/version.h"

namespace evoq {

const char* IsaName(Isa isa) {
  switch (isa) {
    case Isa::kScalar: return "SCALAR";
    case Isa::kAvx2: return "AVX2";
    case Isa::kAvx512: return "AVX512";
    case Isa::kNeon: return "NEON";
  }
  return "?";
}

bool IsaSupported(Isa isa) {
  if (isa == Isa::kScalar) return true;
  if (!cpuinfo_initialize()) return false;
#if defined(__x86_64__)
  const bool avx2 = cpuinfo_has_x86_avx2() && cpuinfo_has_x86_fma3() && cpuinfo_has_x86_f16c();
  if (isa == Isa::kAvx2) return avx2;
  if (isa == Isa::kAvx512)
    return avx2 && cpuinfo_has_x86_avx512f() && cpuinfo_has_x86_avx512bw() &&
           cpuinfo_has_x86_avx512vl() && cpuinfo_has_x86_avx512dq() && cpuinfo_has_x86_avx512vnni();
#elif defined(__aarch64__)
  if (isa == Isa::kNeon) return cpuinfo_has_arm_neon_dot();
#endif
  return false;
}

Result<Isa> SelectIsa() {
  static constexpr Isa kBestFirst[] = {Isa::kAvx512, Isa::kAvx2, Isa::kNeon, Isa::kScalar};
  if (const char* wanted = std::getenv("EVOQ_TARGET"); wanted != nullptr && *wanted != '\0') {
    for (Isa isa : kBestFirst) {
      if (std::string_view(wanted) != IsaName(isa)) continue;
      if (IsaSupported(isa)) return isa;
      return Fail(ErrorCode::kUsage, "EVOQ_TARGET={}: this machine ({}) does not have it", wanted,
                  CpuName());
    }
    return Fail(ErrorCode::kUsage, "EVOQ_TARGET={}: expected SCALAR, AVX2, AVX512 or NEON", wanted);
  }
  for (Isa isa : kBestFirst) {
    if (IsaSupported(isa)) return isa;
  }
  return Isa::kScalar;
}

bool HasBf16() {
#if defined(__x86_64__)
  return cpuinfo_initialize() && cpuinfo_has_x86_avx512bf16();
#else
  return false;
#endif
}

int64_t LargestCacheBytes() {
  constexpr int64_t kUnknown = 1 << 20;
  if (!cpuinfo_initialize()) return kUnknown;
  if (cpuinfo_get_l3_caches_count() > 0) return cpuinfo_get_l3_cache(0)->size;
  return cpuinfo_get_l2_caches_count() > 0 ? cpuinfo_get_l2_cache(0)->size : kUnknown;
}

std::string MachineName(Isa isa) {
  return fmt::format("{}, {}, evoq {}", CpuName(), IsaName(isa), EVOQ_VERSION);
}

std::string CpuName() {
  if (!cpuinfo_initialize() || cpuinfo_get_packages_count() == 0) return "unknown processor";
  return cpuinfo_get_package(0)->name;
}

}  // namespace evoq
