#include "tensor/precision.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace evoq {
namespace {

// Files hold these names: they stay as they are.
TEST(Precision, HasNamesThatAreReadBack) {
  std::set<std::string> names;
  for (Precision precision : kPrecisions) {
    names.insert(PrecisionName(precision));
    EXPECT_EQ(ParsePrecision(PrecisionName(precision)), precision) << PrecisionName(precision);
  }
  EXPECT_EQ(names, (std::set<std::string>{"any", "float32", "bf16", "int8"}));
  for (const char* other : {"", "int", "int8 ", "INT8", "fp32"})
    EXPECT_EQ(ParsePrecision(other), std::nullopt) << other;
}

TEST(Precision, IsCounted) {
  PrecisionCounts counts;
  EXPECT_EQ(counts.Total(), 0);
  for (Precision p : {Precision::kInt8, Precision::kAny, Precision::kInt8}) counts.Add(p);
  EXPECT_EQ(counts[Precision::kInt8], 2);
  EXPECT_EQ(counts[Precision::kAny], 1);
  EXPECT_EQ(counts[Precision::kFloat32], 0);
  EXPECT_EQ(counts.Total(), 3);
}

}  // namespace
}  // namespace evoq
