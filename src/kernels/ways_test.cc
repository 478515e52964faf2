#include "kernels/ways.h"

#include <gtest/gtest.h>

namespace evoq {
namespace {

TEST(Ways, AreReadAsTheyAreWritten) {
  for (const char* text : {"", "direct", "64 rows", "direct 64 rows", "768 rows"})
    EXPECT_EQ(ParseWay(text).ToString(), text);
  EXPECT_TRUE(ParseWay("direct").direct);
  EXPECT_EQ(ParseWay("direct 64 rows").block_rows, 64);
  EXPECT_FALSE(ParseWay("64 rows").direct);
  EXPECT_EQ(ParseWay("100000 rows").block_rows, kMostBlockRows);
}

// Variants of kernels, and what damaged files hold.
TEST(Ways, OtherTextsAreNone) {
  for (const char* text : {"winograd 4x4", "32 wide rows", "direct64 columns", "directly", "64",
                           "0 rows", "-3 rows", "64 rows ", "99999999999999999999 rows"})
    EXPECT_EQ(ParseWay(text).ToString(), "") << text;
}

}  // namespace
}  // namespace evoq
