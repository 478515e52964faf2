// Whatever a host has set for its threads: evoq computes and reads numbers the same way, and leaves
// the host's settings as they were.
#include "base/thread_state.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <clocale>
#include <cstdlib>
#include <limits>
#include <string>

#include "base/guarded.h"
#include "base/threads.h"
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace evoq {
namespace {

volatile float tiny = std::numeric_limits<float>::min(), three = 3, zero = 0;

// A denormal number, a quotient that is rounded, and a division by zero.
bool ComputesPlainly() {
  const float half = tiny / 2, third = 1 / three, infinite = 1 / zero;
  return half > 0 && third == 0.333333343267f && infinite > 1;
}

bool ComputesPlainlyInside() {
  bool beside = false;
  const Status done = Guarded([&]() -> Status {
    RunOnThreads(2, [&](int i) {
      if (i == 1) beside = ComputesPlainly();
    });
    return ComputesPlainly() ? Status() : InvalidInput("not plain");
  });
  return done.has_value() && beside;
}

TEST(ThreadState, Rounding) {
  ASSERT_EQ(std::fesetround(FE_DOWNWARD), 0);
  EXPECT_FALSE(ComputesPlainly());
  EXPECT_TRUE(ComputesPlainlyInside());
  EXPECT_EQ(std::fegetround(), FE_DOWNWARD);
  std::fesetround(FE_TONEAREST);
}

#if defined(__x86_64__)
TEST(ThreadState, NumbersFlushedToZero) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // FTZ and DAZ
  const bool inside = ComputesPlainlyInside(), outside = ComputesPlainly();
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_TRUE(inside);
  EXPECT_FALSE(outside);
  EXPECT_EQ(after & 0x8040, 0x8040u);
}
#endif

#if defined(__GLIBC__) && defined(__x86_64__)
TEST(ThreadState, Traps) {
  const int before = ::feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
  const bool inside = ComputesPlainlyInside();
  const int after = ::fegetexcept();
  ::fedisableexcept(FE_ALL_EXCEPT);
  ::feenableexcept(before);
  EXPECT_TRUE(inside);
  EXPECT_EQ(after, FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
}
#endif

// In the host's locale where its numbers have a point. tests/python/test_host.py makes one where
// they have a comma.
TEST(ThreadState, Locale) {
  for (const char* name : {"C.UTF-8", "de_DE.UTF-8", "fr_FR.UTF-8"}) {
    const locale_t host = ::newlocale(LC_ALL_MASK, name, nullptr);
    if (host == nullptr) continue;  // not every system has it
    ::uselocale(host);
    const Status done = Guarded([&]() -> Status {
      EXPECT_EQ(::uselocale(nullptr) == host, std::string(name) == "C.UTF-8");
      EXPECT_EQ(std::strtod("1.5", nullptr), 1.5) << name;
      return {};
    });
    EXPECT_TRUE(done);
    EXPECT_EQ(::uselocale(LC_GLOBAL_LOCALE), host);
    ::freelocale(host);
  }
}

}  // namespace
}  // namespace evoq
