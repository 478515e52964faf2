#include "base/nearest.h"

#include <gtest/gtest.h>

namespace evoq {
namespace {

TEST(Nearest, CountsInsertionsDeletionsReplacementsAndSwaps) {
  constexpr std::string_view kNames[] = {"fold-bias", "fold-scale", "fuse-pad", "fuse-cast"};
  EXPECT_EQ(Nearest("fuse-cast", kNames), "fuse-cast");
  EXPECT_EQ(Nearest("fuse-csat", kNames), "fuse-cast");  // one swap
  EXPECT_EQ(Nearest("fusepad", kNames), "fuse-pad");
  EXPECT_EQ(Nearest("fold-sscale", kNames), "fold-scale");
  EXPECT_EQ(Nearest("fold-bits", kNames), "fold-bias");
  // A swap counts once: "ab" is nearer to "ba" than to "xyb", which replaces and inserts.
  constexpr std::string_view kSwap[] = {"xyb", "ba"};
  EXPECT_EQ(Nearest("ab", kSwap), "ba");
}

TEST(Nearest, TheFirstOfSeveralAndNothingOfNone) {
  constexpr std::string_view kNames[] = {"abd", "abe"};
  EXPECT_EQ(Nearest("abc", kNames), "abd");
  EXPECT_EQ(Nearest("", kNames), "abd");
  EXPECT_EQ(Nearest("abc", {}), "");
}

}  // namespace
}  // namespace evoq
