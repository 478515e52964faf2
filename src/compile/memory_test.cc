#include "compile/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/budget_scope.h"

namespace evoq {
namespace {

TEST(PlanArena, ReusesMemoryOfTheDead) {
  std::vector<Lifetime> chain = {{100, 0, 1}, {100, 1, 2}, {100, 2, 3}, {100, 3, 4}};
  EXPECT_EQ(*PlanArena(chain), 256) << "a chain needs two blocks";
}

TEST(PlanArena, ReachesTheLowerBoundOfAResidualNetwork) {
  // A wide value stays alive over two narrow ones, and again.
  std::vector<Lifetime> blocks = {{800, 0, 3}, {200, 1, 2}, {200, 2, 3},
                                  {800, 3, 6}, {200, 4, 5}, {200, 5, 6}};
  EXPECT_EQ(LiveBytes(blocks), 832 + 256 + 832);
  EXPECT_EQ(*PlanArena(blocks), LiveBytes(blocks));
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
    const int64_t arena = *PlanArena(blocks);
    EXPECT_LE(arena, sum);
    EXPECT_GE(arena, LiveBytes(blocks));
    for (const Lifetime& a : blocks) {
      EXPECT_EQ(a.offset % 64, 0);
      EXPECT_LE(a.offset + a.bytes, arena);
      for (const Lifetime& b : blocks) {
        if (&a == &b || a.last < b.first || b.last < a.first || a.bytes == 0 || b.bytes == 0)
          continue;
        EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
      }
    }
  }
}

// The plan is that of the definition: each block, the largest first, at the lowest offset where no
// block stands that shares a step.
TEST(PlanArena, IsTheGreedyOne) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> blocks(random() % 60);
    for (Lifetime& b : blocks) {
      b = {static_cast<int64_t>(random() % 8 * 64), static_cast<int>(random() % 33), 0};
      b.last = b.first + static_cast<int>(random() % (random() % 3 == 0 ? 30 : 4));
    }
    ASSERT_TRUE(PlanArena(blocks));
    std::vector<size_t> order(blocks.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::pair(-blocks[a].bytes, a) < std::pair(-blocks[b].bytes, b);
    });
    for (size_t k = 0; k < order.size(); ++k) {
      const Lifetime& block = blocks[order[k]];
      const auto free = [&](int64_t offset) {
        for (size_t i = 0; i < k; ++i) {
          const Lifetime& o = blocks[order[i]];
          const bool together = o.first <= block.last && block.first <= o.last;
          if (together && offset < o.offset + o.bytes && o.offset < offset + block.bytes)
            return false;
        }
        return true;
      };
      if (block.bytes == 0) continue;
      EXPECT_TRUE(free(block.offset));
      for (int64_t lower = 0; lower < block.offset; lower += 64)
        EXPECT_FALSE(free(lower)) << "round " << round;
    }
  }
}

// 40,000 blocks that are all alive at once would be 800 million pairs, at 16 units each; one after
// the other they are 80,000.
TEST(PlanArena, DrawsOnTheBudget) {
  std::vector<Lifetime> together(40000, {64, 0, 1});
  const BudgetScope scope(Budget(0, 10'000'000));
  const auto refused = PlanArena(together);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kTooLarge);
}

TEST(PlanArena, AChainIsCheap) {
  std::vector<Lifetime> chain(40000, {64, 0, 0});
  for (size_t i = 0; i < chain.size(); ++i)
    chain[i].first = static_cast<int>(i), chain[i].last = static_cast<int>(i) + 1;
  const BudgetScope scope(Budget(0, 10'000'000));
  EXPECT_EQ(PlanArena(chain).value_or(-1), 128);
}

}  // namespace
}  // namespace evoq
