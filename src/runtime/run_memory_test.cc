#include "runtime/run_memory.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace evoq {
namespace {

TEST(RunMemory, GivesTheLargestAgain) {
  RunMemory memory;
  const auto get = [&](size_t bytes, size_t lane = 0, RunMemory::Use use = RunMemory::Use::kArena) {
    return memory.Get(kHostMemory, lane, use, bytes).value();
  };
  auto small = get(100);
  EXPECT_TRUE(
      std::all_of(small.get(), small.get() + 100, [](std::byte b) { return b == std::byte(); }));
  auto large = get(1000);
  EXPECT_NE(small, large);
  EXPECT_EQ(get(100), large);
  EXPECT_EQ(get(1000), large);
  EXPECT_EQ(memory.bytes(), 1100);
  small.reset();
  EXPECT_EQ(memory.bytes(), 1000);
  EXPECT_NE(get(10, 1), large);
  EXPECT_NE(get(10, 0, RunMemory::Use::kScratch), large);
  EXPECT_EQ(memory.bytes(), 1020);
}

}  // namespace
}  // namespace evoq
