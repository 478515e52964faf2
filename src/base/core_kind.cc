#include "base/core_kind.h"

#include <cpuinfo.h>

#include <algorithm>

#include "base/text.h"

namespace evoq {

// Intel SDM, volume 2, CPUID: the extended family counts where the family is 15, and the extended
// model there and in family 6.
std::string X86CoreKind(std::string_view maker, uint32_t leaf_1_eax) {
  const uint32_t base = leaf_1_eax >> 8 & 15;
  const uint32_t family = base + (base == 15 ? leaf_1_eax >> 20 & 255 : 0);
  const uint32_t high = base == 15 || base == 6 ? leaf_1_eax >> 16 & 15 : 0;
  return fmt::format("{} family {} model {}", maker, family, high << 4 | (leaf_1_eax >> 4 & 15));
}

std::string CoreKind() {
  if (!cpuinfo_initialize() || cpuinfo_get_cores_count() == 0) return "unknown";
  const cpuinfo_core& core = *cpuinfo_get_core(0);
#if defined(__x86_64__)
  const char* const maker = core.vendor == cpuinfo_vendor_intel ? "Intel"
                            : core.vendor == cpuinfo_vendor_amd ? "AMD"
                                                                : "x86";
  return X86CoreKind(maker, core.cpuid);
#elif defined(__aarch64__)
  return fmt::format("Arm {:#04x} {:#05x}", core.midr >> 24, core.midr >> 4 & 0xfff);
#else
  return "unknown";
#endif
}

bool BeginsWithWords(std::string_view kind, std::string_view words) {
  return kind.starts_with(words) && (kind.size() == words.size() || kind[words.size()] == ' ');
}

int SharedWords(std::string_view a, std::string_view b) {
  int shared = 0;
  while (!a.empty() && !b.empty()) {
    const size_t end = std::min(a.find(' '), a.size());
    if (a.substr(0, end) != b.substr(0, std::min(b.find(' '), b.size()))) break;
    ++shared;
    a.remove_prefix(std::min(end + 1, a.size()));
    b.remove_prefix(std::min(end + 1, b.size()));
  }
  return shared;
}

}  // namespace evoq
