#include "base/budget_scope.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <limits>
#include <thread>

#include "base/memory.h"
#include "base/test_child.h"
#include "tests/sanitized.h"

namespace evoq {
namespace {

// What is drawn inside is drawn on every scope around it; an inner one may be the narrower or the
// wider one.
TEST(BudgetScope, DrawsOnAllAround) {
  const BudgetScope outer(Budget(100, 10));
  EXPECT_TRUE(SpendMemory(30, "a"));
  {
    const BudgetScope wide(Budget(1000, 1000));
    EXPECT_FALSE(SpendMemory(71, "b"));
    EXPECT_TRUE(SpendMemory(20, "b"));
    const BudgetScope narrow(Budget(5, 5));
    EXPECT_FALSE(SpendMemory(6, "c"));
    EXPECT_TRUE(SpendWork(5, "c"));
    EXPECT_FALSE(SpendWork(1, "c"));
  }
  EXPECT_FALSE(SpendMemory(51, "d"));
  EXPECT_TRUE(SpendMemory(50, "d"));
  const Status over = SpendWork(6, "node c (Conv)");
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().message(),
            "node c (Conv): 6 units of work, expected at most the 5 left of 10");
}

// Another thread is doing something else; outside of a scope work is free and a request is held
// against the machine's memory.
TEST(BudgetScope, IsOfOneThread) {
  const BudgetScope scope(Budget(0, 0));
  std::thread([] {
    EXPECT_TRUE(SpendWork(int64_t{1} << 62, "a run"));
    EXPECT_TRUE(SpendMemory(1 << 20, "a tensor"));
    EXPECT_FALSE(SpendMemory(MemoryLimitBytes() / 8 * 7, "a tensor"));  // the process uses some
    EXPECT_TRUE(SpendMemory(FreeMemoryBytes() / 100 * 85, "a tensor")) << "7/8 are 87.5 %";
    EXPECT_FALSE(SpendMemory(-1, "what overflowed"));
    EXPECT_FALSE(BudgetScope::Active());
    EXPECT_EQ(BudgetScope::Part(4).work_left(), std::numeric_limits<int64_t>::max());
  }).join();
  EXPECT_FALSE(SpendWork(1, "here"));
  EXPECT_TRUE(BudgetScope::Active());
}

// Inside of a scope its limit holds, whatever the machine has.
TEST(BudgetScope, MayAllowMoreThanTheMachineHas) {
  const BudgetScope scope(Budget(std::numeric_limits<int64_t>::max(), 0));
  EXPECT_TRUE(SpendMemory(2 * MemoryLimitBytes(), "a tensor"));
}

// A mebibyte is asked of nobody: here all but a page of the addresses is used.
TEST(BudgetScope, SmallRequestsAreNotHeldAgainstTheMachine) {
#ifdef EVOQ_SANITIZED
  GTEST_SKIP() << "whose own memory needs addresses";
#endif
  EXPECT_TRUE(InChild([] {
    (void)SpendMemory(-1, "a");  // leaves room for the sentence of the last one
    const rlimit limit{4096, RLIM_INFINITY};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) return false;
    return SpendMemory(0, "a") && SpendMemory(1 << 20, "a") && !SpendMemory((1 << 20) + 1, "a");
  }));
}

TEST(BudgetScope, EndsWithItsBlock) {
  {
    const BudgetScope scope(Budget(0, 0));
  }
  EXPECT_TRUE(SpendWork(1, "after"));
}

TEST(BudgetScope, PartsAndHalves) {
  const BudgetScope outer(Budget(1000, 80));
  const BudgetScope inner(Budget(400, 800));
  EXPECT_EQ(BudgetScope::Part(4).memory_left(), 100);  // min(1000, 400) / 4
  EXPECT_EQ(BudgetScope::Part(4).work_left(), 20);     // min(80, 800) / 4
  EXPECT_TRUE(BudgetScope::HasHalfBeyond(200));
  EXPECT_FALSE(BudgetScope::HasHalfBeyond(201));
  ASSERT_TRUE(SpendMemory(150, "a"));
  EXPECT_TRUE(BudgetScope::HasHalfBeyond(50));
  EXPECT_FALSE(BudgetScope::HasHalfBeyond(51));
}

TEST(BudgetScope, ProductsOfWork) {
  const BudgetScope scope(Budget(0, 24));
  EXPECT_FALSE(SpendWork({5, 5}, "a"));
  EXPECT_FALSE(SpendWork({int64_t{1} << 40, int64_t{1} << 40}, "what overflows"));
  EXPECT_TRUE(SpendWork({int64_t{1} << 40, int64_t{1} << 40, 0}, "nothing"));
  EXPECT_TRUE(SpendWork({2, 3, 4}, "a"));
  EXPECT_FALSE(SpendWork({1, 1}, "a"));
}

TEST(BudgetScope, MemoryComesBack) {
  const BudgetScope outer(Budget(10, 0));
  const BudgetScope inner(Budget(10, 0));
  EXPECT_TRUE(SpendMemory(10, "a"));
  BudgetScope::GiveMemory(4);
  EXPECT_FALSE(SpendMemory(5, "b"));
  EXPECT_TRUE(SpendMemory(4, "b"));
  EXPECT_EQ(inner.budget().memory_left(), 0);
}

TEST(BudgetScope, FilesAddToAll) {
  const BudgetScope outer(Budget(0, 0));
  const BudgetScope inner(Budget(10, 10));
  BudgetScope::AddFile(3);
  EXPECT_EQ(BudgetScope::Part(1).memory_left(), 3 * Budget::kMemoryPerByte);
  EXPECT_EQ(BudgetScope::Part(1).work_left(), 3 * Budget::kWorkPerByte);
  EXPECT_EQ(inner.budget().memory_left(), 10 + 3 * 64);
  EXPECT_EQ(inner.budget().memory_limit(), 10 + 3 * 64);
  EXPECT_EQ(inner.budget().work_left(), 10 + 3 * 1024);
  const Status over = SpendWork(4000, "a");
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().message(),
            "a: 4000 units of work, expected at most the 3082 left of 3082");
}

}  // namespace
}  // namespace evoq
