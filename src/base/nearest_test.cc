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

TEST(Nearest, HintsNameNothingThatIsFar) {
  constexpr std::string_view kNames[] = {"int8", "int4-weights", "auto"};
  EXPECT_EQ(NearestHint("int9", kNames), "; the nearest is int8");
  constexpr std::string_view kOptions[] = {"-h", "--help", "--temp"};
  EXPECT_EQ(NearestHint("-n", kOptions), "");
  EXPECT_EQ(NearestHint("--tmep", kOptions), "; the nearest is --temp");
  EXPECT_EQ(NearestHint("int4", kNames), "; the nearest is int4-weights");
  constexpr std::string_view kTwo[] = {"int4", "int4x", "int4-weights", "int4-dynamic"};
  EXPECT_EQ(NearestHint("int4", kTwo), "; the nearest are int4-weights, int4-dynamic");
  EXPECT_EQ(NearestHint("int4-wieghts", kNames), "; the nearest is int4-weights");
  EXPECT_EQ(NearestHint("in", kNames), "; the nearest is int8");  // two edits of four characters
  EXPECT_EQ(NearestHint("i", kNames), "");
  EXPECT_EQ(NearestHint("w8a8", kNames), "");
  constexpr std::string_view kBeginnings[] = {"--calib", "--calib-limit", "--out", "--output"};
  EXPECT_EQ(NearestHint("--calibration_data", kBeginnings), "; the nearest is --calib");
  EXPECT_EQ(NearestHint("--output_path", kBeginnings), "; the nearest is --output");
  EXPECT_EQ(NearestHint("--outside_of_it", kBeginnings), "");
  EXPECT_EQ(NearestHint("", kNames), "");
  EXPECT_EQ(NearestHint("int8", std::span<const std::string_view>()), "");
}

}  // namespace
}  // namespace evoq
