#include "base/json_file.h"

#include <gtest/gtest.h>

namespace evoq {
namespace {

std::string Message(std::string_view text) {
  const auto value = ParseJson(text);
  return value ? "" : value.error().message();
}

std::string Nested(int levels, const std::string& inner) {
  return std::string(levels, '[') + inner + std::string(levels, ']');
}

TEST(ParseJson, SixtyFourLevelsAreTheMost) {
  EXPECT_EQ(Message(Nested(64, "1")), "");
  EXPECT_EQ(Message(Nested(65, "")), "nested deeper than 64 levels");
  EXPECT_EQ(Message(std::string(1000000, '[')), "nested deeper than 64 levels");
  std::string objects;
  for (int i = 0; i < 65; ++i) objects += R"({"a":)";
  EXPECT_EQ(Message(objects), "nested deeper than 64 levels");
}

// Brackets that nest nothing: in strings, after an escaped quote, after an escaped backslash that
// ends a string, one beside another.
TEST(ParseJson, OnlyOpenBracketsCount) {
  const std::string brackets(100, '[');
  EXPECT_EQ(Message("[\"" + brackets + "\"]"), "");
  EXPECT_EQ(Message("[\"\\\"" + brackets + "\"]"), "");
  EXPECT_EQ(Message("[\"\\\\\"," + Nested(63, "") + "]"), "");
  EXPECT_EQ(Message("[\"\\\\\"," + Nested(64, "") + "]"), "nested deeper than 64 levels");
  std::string siblings = "[[]";
  for (int i = 0; i < 100; ++i) siblings += ",{},[]";
  EXPECT_EQ(Message(siblings + "]"), "");
}

TEST(ParseJson, ErrorsOfText) {
  EXPECT_EQ(Message(""), "not JSON (0 bytes)");
  EXPECT_EQ(Message("{{{"), "not JSON (3 bytes)");
  EXPECT_EQ(Message("[1] 2"), "not JSON (5 bytes)");
  EXPECT_EQ(Message("[1e999]"), "not JSON (7 bytes)");
  EXPECT_EQ(Message("\"\xff\""), "not JSON (3 bytes)");
}

// A megabyte of siblings takes milliseconds; it took minutes when each looked at all others.
TEST(ParseJson, ManySiblings) {
  std::string text = "[{}";
  for (int i = 0; i < 300000; ++i) text += ",{}";
  const auto value = ParseJson(text + "]");
  ASSERT_TRUE(value);
  EXPECT_EQ(value->size(), 300001);
}

TEST(Json, MembersOfTheTypeAskedFor) {
  const auto v = ParseJson(R"({"n": 2.5, "t": "word", "a": [1, 2]})");
  ASSERT_TRUE(v);
  EXPECT_EQ(JsonNumber(*v, "n"), 2.5);
  EXPECT_EQ(JsonNumber(*v, "t", 7), 7);
  EXPECT_EQ(JsonNumber(*v, "none", 8), 8);
  EXPECT_EQ(JsonText(*v, "t"), "word");
  EXPECT_EQ(JsonText(*v, "n"), "");
  EXPECT_EQ(JsonArray(*v, "a").size(), 2);
  EXPECT_EQ(JsonArray(*v, "t").size(), 0);
  const nlohmann::json list = nlohmann::json::array();
  EXPECT_EQ(JsonNumber(list, "n", 3), 3);
  EXPECT_EQ(JsonText(list, "t"), "");
  EXPECT_EQ(JsonArray(list, "a").size(), 0);
}

}  // namespace
}  // namespace evoq
