#include "base/isa.h"

#include <cpuinfo.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include "base/amx.h"
#include "base/core_kind.h"
#include "base/text.h"
#include "base/version.h"

namespace evoq {

namespace {

bool Always() { return true; }

struct NamedIsa {
  const char* name;
  Isa isa;
  bool only_by_name = false;  // never the choice for a machine
  bool (*pays)() = Always;    // whether it is the choice for one that has it
};

// Better ones first. A new one is a row here and rows in the kernel families that use it
// (kernels/isa_table.h).
#if defined(__aarch64__)
constexpr NamedIsa kNamed[] = {{"NEON_BF16", Isa::kNeonBf16},
                               {"NEON_I8MM", Isa::kNeonI8mm},
                               {"NEON_DOT", Isa::kNeonDot},
                               {"NEON", Isa::kNeon},
                               {"SCALAR", Isa::kScalar}};
#else
bool Bf16ProductsPay();
constexpr NamedIsa kNamed[] = {{"AMX", Isa::kAmx},
                               {"AVX512_BF16", Isa::kAvx512Bf16, false, Bf16ProductsPay},
                               {"AMX_SOFTWARE", Isa::kAmxSoftware, true},
                               {"AVX512", Isa::kAvx512},
                               {"AVX2_VNNI", Isa::kAvx2Vnni},
                               {"AVX2_VNNI_EVEX", Isa::kAvx2VnniEvex},
                               {"AVX2", Isa::kAvx2},
                               {"SCALAR", Isa::kScalar}};
#endif

struct FeatureTest {
  Isa::Feature feature;
  bool (*present)();
};

#if defined(__x86_64__)
// CPUID leaf 7, subleaf 1, EAX bit 4 (Intel SDM, volume 2): cpuinfo does not know it. Its registers
// are those of AVX2, whose test asks whether the system keeps them.
bool HasAvxVnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return cpuinfo_has_x86_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 &&
         (a >> 4 & 1) != 0;
}

// Intel's cores with AVX512_FP16 (Golden Cove and later) begin a vdpbf16ps of 512 bits every other
// cycle: 16 multiply-adds a cycle, where float32 has 32 (`evoq limits` shows both). CPUID leaf 7,
// EDX bit 23, which cpuinfo does not know.
bool Bf16ProductsPay() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return !IntelCores() || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d >> 23 & 1) == 0;
}

constexpr FeatureTest kTests[] = {
    {Isa::kFeatureAvx2,
     [] { return cpuinfo_has_x86_avx2() && cpuinfo_has_x86_fma3() && cpuinfo_has_x86_f16c(); }},
    {Isa::kFeatureAvx512,
     [] {
       return cpuinfo_has_x86_avx512f() && cpuinfo_has_x86_avx512bw() &&
              cpuinfo_has_x86_avx512vl() && cpuinfo_has_x86_avx512dq() &&
              cpuinfo_has_x86_avx512vnni();
     }},
    {Isa::kFeatureAvx512Bf16, [] { return cpuinfo_has_x86_avx512bf16(); }},
    {Isa::kFeatureAvxVnni, HasAvxVnni},
    {Isa::kFeatureEvexVnni,
     [] { return cpuinfo_has_x86_avx512vl() && cpuinfo_has_x86_avx512vnni(); }},
    {Isa::kFeatureAmx, [] { return AmxHere().usable; }},
    {Isa::kFeatureAmxSoftware, [] { return true; }},
};
#elif defined(__aarch64__)
constexpr FeatureTest kTests[] = {
    {Isa::kFeatureNeon, [] { return true; }},
    {Isa::kFeatureNeonDot, [] { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }},
    {Isa::kFeatureNeonI8mm, [] { return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0; }},
    {Isa::kFeatureNeonBf16, [] { return (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0; }},
};
#else
constexpr std::span<const FeatureTest> kTests;
#endif

}  // namespace

std::span<const Isa> AllIsas() {
  static constexpr auto kAll = [] {
    std::array<Isa, std::size(kNamed)> all;
    std::transform(std::begin(kNamed), std::end(kNamed), all.begin(),
                   [](const NamedIsa& named) { return named.isa; });
    return all;
  }();
  return kAll;
}

const char* IsaName(Isa isa) {
  for (const NamedIsa& named : kNamed) {
    if (isa.Has(named.isa)) return named.name;
  }
  return "?";
}

std::optional<Isa> IsaFromName(std::string_view name) {
  for (const NamedIsa& named : kNamed) {
    if (name == named.name) return named.isa;
  }
  return std::nullopt;
}

std::string IsaNames() {
  std::string names;
  for (size_t i = std::size(kNamed); i-- > 0;)
    names += fmt::format("{}{}", kNamed[i].name, i > 1 ? ", " : i == 1 ? " or " : "");
  return names;
}

bool IsaSupported(Isa isa) {
  if (!cpuinfo_initialize()) return Isa().Has(isa);
  Isa found;  // of the features in question: AMX asks the system, which others need not do
  for (const FeatureTest& test : kTests) {
    if ((isa.features & test.feature) != 0 && test.present()) found.features |= test.feature;
  }
  return found.Has(isa);
}

namespace {

// The best set of this machine's own, or the best of those that pay.
const NamedIsa& Best(bool paying) {
  return *std::find_if(std::begin(kNamed), std::end(kNamed), [&](const NamedIsa& named) {
    return !named.only_by_name && IsaSupported(named.isa) && (!paying || named.pays());
  });
}

}  // namespace

Result<Isa> SelectIsa() {
  if (const char* wanted = std::getenv("EVOQ_TARGET"); wanted != nullptr && *wanted != '\0') {
    const std::optional<Isa> isa = IsaFromName(wanted);
    if (!isa) return Fail(ErrorCode::kUsage, "EVOQ_TARGET={}: expected {}", wanted, IsaNames());
    if (IsaSupported(*isa)) return *isa;
    const std::string why = isa->Has(Isa{Isa::kFeatureAmx}) ? AmxHere().hindrance : "";
    return Fail(ErrorCode::kUsage, "EVOQ_TARGET={}: this machine ({}) does not have it{}{}", wanted,
                CpuName(), why.empty() ? "" : ": ", why);
  }
  return Best(true).isa;
}

std::string IsaNote() {
  const char* const wanted = std::getenv("EVOQ_TARGET");
  if (wanted != nullptr && *wanted != '\0') return "";
  std::vector<std::string> left_out;
  if (const std::string& why = AmxHere().hindrance; !why.empty())
    left_out.push_back(fmt::format("AMX is not used: {}", why));
  if (const NamedIsa& best = Best(false); !best.pays())
    left_out.push_back(
        fmt::format("{} is not used: its products take longer than those of float32 on this "
                    "processor",
                    best.name));
  return fmt::format("{}", fmt::join(left_out, "; "));
}

bool IntelCores() {
  return cpuinfo_initialize() && cpuinfo_get_cores_count() > 0 &&
         cpuinfo_get_core(0)->vendor == cpuinfo_vendor_intel;
}

int64_t LargestCacheBytes() {
  constexpr int64_t kUnknown = 1 << 20;
  if (!cpuinfo_initialize()) return kUnknown;
  if (cpuinfo_get_l3_caches_count() > 0) return cpuinfo_get_l3_cache(0)->size;
  return cpuinfo_get_l2_caches_count() > 0 ? cpuinfo_get_l2_cache(0)->size : kUnknown;
}

std::string MachineName(Isa isa) {
  return fmt::format("{} ({}), {}, evoq {}", CpuName(), CoreKind(), IsaName(isa), EVOQ_VERSION);
}

std::string CpuName() {
  if (!cpuinfo_initialize() || cpuinfo_get_packages_count() == 0) return "unknown processor";
  return cpuinfo_get_package(0)->name;
}

}  // namespace evoq
