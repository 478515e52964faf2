#include "base/reason.h"

#include <gtest/gtest.h>

namespace evoq {
namespace {

TEST(Reason, IsTextAndBack) {
  const Reason reason{"no-range", "values: not calibrated"};
  EXPECT_EQ(reason.ToString(), "no-range: values: not calibrated");
  EXPECT_EQ(Reason::Parse(reason.ToString()), reason) << "the code ends at the first separator";
  EXPECT_EQ(Reason::Parse("excluded"), (Reason{"excluded", ""}));
  EXPECT_EQ((Reason{"excluded", ""}).ToString(), "excluded");
  EXPECT_EQ(Reason::Parse("a:b"), (Reason{"a:b", ""})) << "a colon within a word";
}

TEST(Reason, MayBeNone) {
  EXPECT_TRUE(Reason().empty());
  EXPECT_EQ(Reason().ToString(), "");
  EXPECT_TRUE(Reason::Parse("").empty());
  EXPECT_FALSE(Reason::Parse("x").empty());
}

}  // namespace
}  // namespace evoq
