#include "base/core_kind.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace evoq {
namespace {

// Of processors that are for sale, by the signatures that their makers publish.
TEST(CoreKind, ReadsLeafOne) {
  EXPECT_EQ(X86CoreKind("AMD", 0x00a10f11), "AMD family 25 model 17");      // Genoa
  EXPECT_EQ(X86CoreKind("AMD", 0x00b00f21), "AMD family 26 model 2");       // Turin
  EXPECT_EQ(X86CoreKind("AMD", 0x00830f10), "AMD family 23 model 49");      // Rome
  EXPECT_EQ(X86CoreKind("Intel", 0x000c06f2), "Intel family 6 model 207");  // Emerald Rapids
  EXPECT_EQ(X86CoreKind("Intel", 0x000806f8), "Intel family 6 model 143");  // Sapphire Rapids
  EXPECT_EQ(X86CoreKind("x86", 0x00000543), "x86 family 5 model 4");
}

// As the system lists it.
TEST(CoreKind, IsThisMachines) {
  std::ifstream list("/proc/cpuinfo");
  std::string maker, family, model;
  for (std::string line; std::getline(list, line) && model.empty();) {
    const std::string value = line.substr(std::min(line.find(": ") + 2, line.size()));
    if (line.starts_with("vendor_id")) maker = value;
    if (line.starts_with("cpu family")) family = value;
    if (line.starts_with("model\t")) model = value;
  }
  if (model.empty()) GTEST_SKIP() << "the system lists no family and model";
  const std::string kind = CoreKind();
  const size_t end = kind.find(' ');
  EXPECT_EQ(kind.substr(end), " family " + family + " model " + model);
  if (kind.substr(0, end) != "x86") EXPECT_NE(maker.find(kind.substr(0, end)), std::string::npos);
}

TEST(CoreKind, BeginsWithWholeWords) {
  EXPECT_TRUE(BeginsWithWords("AMD family 26 model 2", "AMD family 26"));
  EXPECT_TRUE(BeginsWithWords("AMD family 26", "AMD family 26"));
  EXPECT_FALSE(BeginsWithWords("AMD family 261 model 2", "AMD family 26"));
  EXPECT_FALSE(BeginsWithWords("AMD family 2", "AMD family 26"));
  EXPECT_FALSE(BeginsWithWords("an AMD family 26", "AMD family 26"));
}

TEST(CoreKind, SharedWordsAreCountedFromTheFirst) {
  const char* const zen4 = "AMD family 25 model 17";
  EXPECT_EQ(SharedWords(zen4, zen4), 5);
  EXPECT_EQ(SharedWords(zen4, "AMD family 25 model 1"), 4);
  EXPECT_EQ(SharedWords(zen4, "AMD family 26 model 17"), 2);
  EXPECT_EQ(SharedWords("AMD EPYC", zen4), 1);
  EXPECT_EQ(SharedWords("Intel family 25 model 17", zen4), 0);
  EXPECT_EQ(SharedWords("", zen4), 0);
  EXPECT_EQ(SharedWords("", ""), 0);
}

}  // namespace
}  // namespace evoq
