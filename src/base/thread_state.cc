#include "base/thread_state.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace evoq {
namespace {

#if defined(__x86_64__)
constexpr uint64_t kDefault = 0x1F80;  // Intel's manual, volume 1, 10.2.3: MXCSR after a reset
uint64_t Control() { return _mm_getcsr(); }
void SetControl(uint64_t bits) { _mm_setcsr(static_cast<unsigned>(bits)); }
#elif defined(__aarch64__)
constexpr uint64_t kDefault = 0;  // FPCR
uint64_t Control() {
  uint64_t bits;
  __asm__ volatile("mrs %0, fpcr" : "=r"(bits));
  return bits;
}
void SetControl(uint64_t bits) { __asm__ volatile("msr fpcr, %0" : : "r"(bits)); }
#else
constexpr uint64_t kDefault = 0;
uint64_t Control() { return 0; }
void SetControl(uint64_t) {}
#endif

// Null where memory is short.
locale_t PlainLocale() {
  static const locale_t locale = ::newlocale(LC_ALL_MASK, "C", nullptr);
  return locale;
}

}  // namespace

ThreadState::ThreadState() noexcept : floats_(Control()), locale_(::uselocale(PlainLocale())) {
  SetControl(kDefault);
}

ThreadState::~ThreadState() {
  ::uselocale(locale_);
  SetControl(floats_);
}

}  // namespace evoq
