#include "base/amx.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cerrno>
#include <system_error>

#include "base/text.h"

namespace evoq {
namespace {

// Bits of leaf 7's EDX, and of XCR0.
constexpr uint32_t kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;
constexpr uint64_t kTileConfig = 1u << 17, kTileData = 1u << 18;

#if defined(__x86_64__) && defined(__linux__)
constexpr uint32_t kSystemKeepsRegisters = 1u << 27;  // OSXSAVE: leaf 1, ECX

// The registers that the system keeps; the instruction is there where OSXSAVE says so.
uint64_t KeptRegisters() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

AmxWords Words() {
  AmxWords words;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kSystemKeepsRegisters) == 0) return words;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return words;
  words.features = d;
  words.registers = KeptRegisters();
  if (__get_cpuid_count(0x1d, 0, &a, &b, &c, &d) == 0) return words;
  words.palettes = a;
  if (a == 0 || __get_cpuid_count(0x1d, 1, &a, &b, &c, &d) == 0) return words;
  words.row_bytes = b & 0xffff;
  words.tiles = b >> 16;
  words.rows = c & 0xffff;
  return words;
}

// Linux, Documentation/arch/x86/xstate.rst: permission holds for the process's threads, those that
// run already too.
int Request() {
  constexpr int kGetPermission = 0x1022, kRequestPermission = 0x1023, kTileDataNumber = 18;
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileDataNumber) != 0) return errno;
  uint64_t permitted = 0;
  if (syscall(SYS_arch_prctl, kGetPermission, &permitted) != 0) return errno;
  return (permitted & kTileData) != 0 ? 0 : EPERM;
}
#else
AmxWords Words() { return {}; }
int Request() { return ENOSYS; }
#endif

}  // namespace

AmxAnswer JudgeAmx(const AmxWords& words, int (*request)()) {
  constexpr uint32_t kNeeded = kBf16 | kTile | kInt8;
  if ((words.features & kNeeded) != kNeeded) return {};
  constexpr uint64_t kKept = kTileConfig | kTileData;
  if ((words.registers & kKept) != kKept)
    return {.hindrance = "the system does not keep the registers of its tiles"};
  if (words.palettes < 1 || words.row_bytes < 64 || words.tiles < 8 || words.rows < 16)
    return {.hindrance = fmt::format("the processor announces it with {} tiles of {} rows of {} "
                                     "bytes, expected 8 of 16 of 64",
                                     words.tiles, words.rows, words.row_bytes)};
  if (const int error = request(); error != 0)
    return {.hindrance = fmt::format("the system refused to let the process use it: {}",
                                     std::generic_category().message(error))};
  return {.usable = true};
}

const AmxAnswer& AmxHere() {
  static const AmxAnswer answer = JudgeAmx(Words(), Request);
  return answer;
}

}  // namespace evoq
