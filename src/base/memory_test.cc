#include "base/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstring>

#include "base/aligned.h"
#include "base/test_child.h"

namespace evoq {
namespace {

TEST(Memory, FreeIsWhatIsNotUsed) {
  EXPECT_GT(FreeMemoryBytes(), 0);
  EXPECT_LT(FreeMemoryBytes(), MemoryLimitBytes());
  const int64_t before = FreeMemoryBytes();
  constexpr size_t kBytes = 64 << 20;
  AlignedBuffer used(kBytes);
  std::memset(used.data(), 1, kBytes);
  const volatile std::byte* kept = used.data();
  const std::byte last = kept[kBytes - 1];
  EXPECT_EQ(static_cast<int>(last), 1);
  EXPECT_LE(FreeMemoryBytes(), before - static_cast<int64_t>(kBytes) / 2);
}

// Addresses without pages count where address space is what is limited, and only there.
TEST(Memory, FreeIsOfWhatIsLimited) {
  constexpr int64_t kBytes = int64_t{256} << 20;
  // What mapping as much, without touching it, takes from the free memory.
  const auto taken = [&]() -> int64_t {
    const int64_t before = FreeMemoryBytes();
    void* const map = ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return map == MAP_FAILED ? -1 : before - FreeMemoryBytes();
  };
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &limit), 0);
  if (limit.rlim_cur == RLIM_INFINITY) EXPECT_TRUE(InChild([&] { return taken() < kBytes / 2; }));
  EXPECT_TRUE(InChild([&] {
    const rlimit half{static_cast<rlim_t>(MemoryLimitBytes() / 2), RLIM_INFINITY};
    if (::setrlimit(RLIMIT_AS, &half) != 0) return false;
    if (FreeMemoryBytes() < 2 * kBytes) return true;  // sanitizers take terabytes of addresses
    return taken() >= kBytes;
  }));
}

// Memory of its own counts where that is what is limited; pages of files do not.
TEST(Memory, FreeIsOfDataWhereThatIsLimited) {
  constexpr int64_t kBytes = int64_t{64} << 20, kLimit = int64_t{512} << 20;
  EXPECT_TRUE(InChild([&] {
    const rlimit limit{kLimit, RLIM_INFINITY};
    if (::setrlimit(RLIMIT_DATA, &limit) != 0) return false;
    if (FreeMemoryBytes() < 2 * kBytes) return true;  // sanitizers take terabytes
    const int64_t before = FreeMemoryBytes();
    void* const own =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return own != MAP_FAILED && MemoryLimitBytes() == kLimit && before <= kLimit &&
           before - FreeMemoryBytes() >= kBytes;
  }));
}

}  // namespace
}  // namespace evoq
