#include "graph/unique_name.h"

#include <gtest/gtest.h>

#include <set>

#include "graph/graph.h"

namespace evoq {
namespace {

TEST(UniqueName, IsTheFirstFreeNumber) {
  Graph g;
  const auto add = [&](const char* name) { return g.value(g.AddValue(name)).name; };
  EXPECT_EQ(add("a"), "a");
  EXPECT_EQ(add("a_2"), "a_2");
  EXPECT_EQ(add("a"), "a_1");
  EXPECT_EQ(add("a"), "a_3");
  g.Rename(g.FindValue("a_1"), "b");
  EXPECT_FALSE(g.FindValue("a_1").valid());
  EXPECT_EQ(add("a"), "a_1");
  EXPECT_EQ(add("a_2"), "a_2_1");
  EXPECT_EQ(add(""), "value");
  EXPECT_EQ(add(""), "value_1");
  EXPECT_EQ(g.node(g.AddNode({.op = "Relu"})).name, "Relu");
  EXPECT_EQ(g.node(g.AddNode({.op = "Relu"})).name, "Relu_1");
  g.RemoveNode(g.FindNode("Relu"));
  EXPECT_EQ(g.node(g.AddNode({.op = "Relu"})).name, "Relu");
}

// 10,000 nodes of one name are numbered without a gap. Each asks at most 1 + 64 times in order, 8
// times to double 64 to 16,384 and 13 times to halve 8,192; one question for each number would make
// 50 million.
TEST(UniqueName, ManyOfOneNameAreCheap) {
  std::set<std::string> names;
  int64_t questions = 0;
  const auto taken = [&](const std::string& name) {
    ++questions;
    return names.count(name) > 0;
  };
  constexpr int kCount = 10000;
  for (int i = 0; i < kCount; ++i) {
    const std::string expected = i == 0 ? "n" : fmt::format("n_{}", i);
    const std::string name = UniqueName("n", taken);
    ASSERT_EQ(name, expected);
    names.insert(name);
  }
  EXPECT_LE(questions, kCount * (1 + 64 + 8 + 13));
}

// Gaps beyond 64 may stay, but no name is given twice.
TEST(UniqueName, NeverOneThatIsTaken) {
  std::set<std::string> names = {"n"};
  for (int i = 1; i < 1000; ++i) {
    if (i % 7 != 0 || i < 100) names.insert(fmt::format("n_{}", i));
  }
  for (int i = 0; i < 1000; ++i)
    ASSERT_TRUE(
        names
            .insert(UniqueName("n", [&](const std::string& name) { return names.count(name) > 0; }))
            .second);
}

}  // namespace
}  // namespace evoq
