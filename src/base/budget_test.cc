#include "base/budget.h"

#include <gtest/gtest.h>

namespace evoq {
namespace {

TEST(Budget, DrawsUntilNothingIsLeft) {
  Budget budget(100, 10);
  EXPECT_TRUE(budget.TakeMemory(60, "a"));
  EXPECT_TRUE(budget.TakeMemory(40, "b"));  // exactly what is left
  const Status over = budget.TakeMemory(1, "c");
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code(), ErrorCode::kTooLarge);
  EXPECT_EQ(over.error().message(), "c: 1 bytes of memory, expected at most the 0 left of 100");
  budget.GiveMemory(60);
  EXPECT_EQ(budget.memory_left(), 60);
  EXPECT_FALSE(budget.TakeMemory(61, "d"));
  EXPECT_EQ(budget.memory_left(), 60);  // a refused draw takes nothing
  EXPECT_TRUE(budget.TakeMemory(0, "e"));
  EXPECT_EQ(budget.work_left(), 10);  // an account of its own
  const Status work = budget.TakeWork(11, "rows");
  ASSERT_FALSE(work);
  EXPECT_EQ(work.error().message(), "rows: 11 units of work, expected at most the 10 left of 10");
  EXPECT_TRUE(budget.TakeWork(10, "rows"));
}

TEST(Budget, AnOverflowedAmountIsTooLarge) {
  Budget budget(100, 10);
  const Status over = budget.TakeMemory(-8, "x");
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().message(),
            "x: more than 2^63 bytes of memory, expected at most the 100 left of 100");
  EXPECT_EQ(budget.memory_left(), 100);
}

// 128 MiB + 64 n, 2^30 + 1024 n; without overflow at the largest sizes.
TEST(Budget, GrowsWithTheFile) {
  EXPECT_EQ(Budget::ForFile(0).memory_left(), 134217728);
  EXPECT_EQ(Budget::ForFile(1000000).memory_left(), 134217728 + 64000000);
  EXPECT_EQ(Budget::ForFile(1000000).work_left(), 1073741824 + 1024000000);
  EXPECT_EQ(Budget::ForFile(INT64_MAX).memory_left(), INT64_MAX);
  EXPECT_EQ(Budget::ForFile(INT64_MAX).work_left(), INT64_MAX);
  EXPECT_EQ(Budget::ForFile(-1).memory_left(), 134217728);
}

}  // namespace
}  // namespace evoq
