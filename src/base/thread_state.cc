#include "base/thread_state.h"

#include <langinfo.h>

#include <string_view>

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

// Changes the thread's locale where its numbers have another point, and returns it; else null.
locale_t UsePlainNumbers() {
  if (std::string_view(::nl_langinfo(RADIXCHAR)) == ".") return nullptr;
  static const locale_t plain = ::newlocale(LC_ALL_MASK, "C", nullptr);
  return ::uselocale(plain);  // null, where memory is short, changes nothing
}

}  // namespace

ThreadState::ThreadState() noexcept : floats_(Control()), locale_(UsePlainNumbers()) {
  SetControl(kDefault);
}

ThreadState::~ThreadState() {
  if (locale_ != nullptr) ::uselocale(locale_);
  SetControl(floats_);
}

}  // namespace evoq
