#include "compile/memory.h"

#include <gtest/gtest.h>

#include <random>

namespace evoq {
namespace {

TEST(PlanArena, ReusesMemoryOfTheDead) {
  std::vector<Lifetime> chain = {{100, 0, 1}, {100, 1, 2}, {100, 2, 3}, {100, 3, 4}};
  EXPECT_EQ(PlanArena(chain), 256) << "a chain needs two blocks";
}

TEST(PlanArena, ReachesTheLowerBoundOfAResidualNetwork) {
  // A wide value stays alive over two narrow ones, and again.
  std::vector<Lifetime> blocks = {{800, 0, 3}, {200, 1, 2}, {200, 2, 3}, {800, 3, 6}, {200, 4, 5}, {200, 5, 6}};
  EXPECT_EQ(LiveBytes(blocks), 832 + 256 + 832);
  EXPECT_EQ(PlanArena(blocks), LiveBytes(blocks));
}

TEST(PlanArena, NeverOverlapsTheLiving) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> blocks(random() % 40);
    int64_t sum = 0;
    for (Lifetime& b : blocks) {
      b = {static_cast<int64_t>(random() % 1000), static_cast<int>(random() % 20), 0};
      b.last = b.first + static_cast<int>(random() % 6);
      sum += (b.bytes + 63) / 64 * 64;
    }
    const int64_t arena = PlanArena(blocks);
    EXPECT_LE(arena, sum);
    EXPECT_GE(arena, LiveBytes(blocks));
    for (const Lifetime& a : blocks) {
      EXPECT_EQ(a.offset % 64, 0);
      EXPECT_LE(a.offset + a.bytes, arena);
      for (const Lifetime& b : blocks) {
        if (&a == &b || a.last < b.first || b.last < a.first || a.bytes == 0 || b.bytes == 0) continue;
        EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
      }
    }
  }
}

}  // namespace
}  // namespace evoq
