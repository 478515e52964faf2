#include "base/memory.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/aligned.h"

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

}  // namespace
}  // namespace evoq
