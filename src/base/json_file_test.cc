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
  EXPECT_TRUE(ParseJson("\xef\xbb\xbf {}")) << "a byte order mark";
  EXPECT_EQ(Message("\x08\x0a" + std::string(100, '[')), "not JSON (102 bytes): line 1, column 1");
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
  EXPECT_EQ(Message(""), "not JSON (0 bytes): line 1, column 1");
  EXPECT_EQ(Message("{{{"), "not JSON (3 bytes): line 1, column 2");
  EXPECT_EQ(Message("[1] 2"), "not JSON (5 bytes): line 1, column 5");
  EXPECT_EQ(Message("[1e999]"), "not JSON (7 bytes): line 1, column 6");
  EXPECT_EQ(Message("\"\xff\""), "not JSON (3 bytes): line 1, column 2");
  EXPECT_EQ(Message("{\"a\": 1,\n\n  \"b\": [1 2]}"), "not JSON (23 bytes): line 3, column 11");
}

// A megabyte of siblings takes milliseconds; it took minutes when each looked at all others.
TEST(ParseJson, ManySiblings) {
  std::string text = "[{}";
  for (int i = 0; i < 300000; ++i) text += ",{}";
  const auto value = ParseJson(text + "]");
  ASSERT_TRUE(value);
  EXPECT_EQ(value->size(), 300001);
}

TEST(Json, ValuesInMessages) {
  EXPECT_EQ(JsonBriefly(nlohmann::json::parse(R"({"a": [1, "b"]})")), R"({"a":[1,"b"]})");
  EXPECT_EQ(JsonBriefly(std::string(200, 'x')), '"' + std::string(99, 'x') + "...");
  EXPECT_EQ(JsonBriefly("\xff"), "\"\xef\xbf\xbd\"");
}

TEST(Json, MembersOfTheTypeAskedFor) {
  const auto json =
      ParseJson(R"({"n": 2.5, "i": 7, "t": "text", "a": [1, 2], "null": null})").value();
  EXPECT_EQ(JsonNumber(json, "n"), 2.5);
  EXPECT_EQ(JsonNumber(json, "i", 1), 7);
  EXPECT_EQ(JsonNumber(json, "t", 3), 3);
  EXPECT_EQ(JsonNumber(json, "null", 4), 4);
  EXPECT_EQ(JsonNumber(json, "none", 5), 5);
  EXPECT_EQ(JsonNumber(json, "none"), 0);
  EXPECT_EQ(JsonText(json, "t"), "text");
  EXPECT_EQ(JsonText(json, "n"), "");
  EXPECT_EQ(JsonArray(json, "a").size(), 2u);
  EXPECT_TRUE(JsonArray(json, "t").is_array());
  EXPECT_TRUE(JsonArray(json, "t").empty());
  // The only member, which is the first and the last one.
  EXPECT_EQ(JsonNumber(ParseJson(R"({"n": 2})").value(), "n"), 2);
  EXPECT_EQ(JsonText(ParseJson(R"({"t": "x"})").value(), "t"), "x");
  const auto list = ParseJson(R"({"a": [1]})").value();
  EXPECT_EQ(JsonArray(list, "a").size(), 1u);
  // Of what is no object.
  EXPECT_EQ(JsonNumber(json["a"], "n", 6), 6);
  EXPECT_EQ(JsonText(json["a"], "t"), "");
  EXPECT_TRUE(JsonArray(json["a"], "a").empty());
}

}  // namespace
}  // namespace evoq
