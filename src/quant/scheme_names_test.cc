#include "quant/scheme_names.h"

#include <gtest/gtest.h>

#include "quant/quant.h"

namespace evoq {
namespace {

TEST(SchemeNames, OfOtherTools) {
  EXPECT_EQ(SchemeHint("W4A16"), "; here it is int4-weights");
  EXPECT_EQ(SchemeHint("q8_0"), "; here it is int8-weights");
  EXPECT_EQ(SchemeHint("int9"), "; the nearest is int8");
  EXPECT_EQ(SchemeHint("sharper"), "");
}

// No name is a scheme of evoq, and what it is here is one.
TEST(SchemeNames, AreThoseOfSchemes) {
  for (const char* name : {"w8a8", "w8a16", "fp8", "fp4", "dynamic", "int4_asym", "half", "nf4"}) {
    EXPECT_EQ(FindScheme(name), nullptr);
    std::string here(SchemeNamedElsewhere(name));
    EXPECT_NE(here, "") << name;
    while (!here.empty()) {
      const size_t comma = std::min(here.find(", "), here.size());
      EXPECT_NE(FindScheme(here.substr(0, comma)), nullptr) << here;
      here.erase(0, comma + 2);
    }
  }
}

}  // namespace
}  // namespace evoq
