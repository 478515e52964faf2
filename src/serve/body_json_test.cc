#include "serve/body_json.h"

#include <gtest/gtest.h>

#include <random>

#include "base/json_file.h"

namespace evoq::serve {
namespace {

using nlohmann::json;

// Numbers' kinds, which == does not tell apart.
std::string Kinds(const json& value) {
  std::string kinds = value.type_name();
  if (value.is_number())
    kinds += value.is_number_float() ? "f" : value.is_number_unsigned() ? "u" : "i";
  for (const json& item : value) {
    if (value.is_structured()) kinds += Kinds(item);
  }
  return kinds;
}

void ExpectSame(const std::string& text) {
  SCOPED_TRACE(text.substr(0, 100));
  const auto want = ParseJson(text), found = ParseBody(text);
  ASSERT_EQ(found.has_value(), want.has_value());
  if (!want) {
    EXPECT_EQ(found.error().message(), want.error().message());
    return;
  }
  EXPECT_EQ(found->dump(), want->dump());
  EXPECT_EQ(Kinds(*found), Kinds(*want));
}

TEST(BodyJson, GivesWhatTheOtherParserDoes) {
  for (const char* text : {
           "null",
           "true",
           "[]",
           "{}",
           " [1, 2] \n",
           R"({"a":{"b":[1,[2.5,"x"]],"c":null}})",
           R"({"a":1,"b":2,"a":3})",
           R"(["\u00e9\ud83d\ude00\n\"", "é"])",
           "0",
           "-1",
           "1.0",
           "1e3",
           "18446744073709551615",
           "18446744073709551616",
           "-9223372036854775808",
           "-9223372036854775809",
           "9223372036854775808",
           "1e308",
           "1e309",
           "1e-400",
           "5e-324",
           "2.2250738585072011e-308",
           "0.1",
           "-0.0",
           "9007199254740993",
           "3.4028235677973366e38",
           "123456789012345678901234567890.5",
           // errors
           "",
           " ",
           "[1,]",
           "[1 2]",
           "{\"a\":}",
           "{a:1}",
           "01",
           "+1",
           "1.",
           ".5",
           "NaN",
           "Infinity",
           "[1]]",
           "\"\x80\"",
           "\"\n\"",
           "\"\\x\"",
           "\"\\ud800\"",
           "tru",
           "[1,2",
           "// no\n1",
       })
    ExpectSame(text);
}

TEST(BodyJson, DepthEndsWhereTheOtherParsersDoes) {
  for (size_t depth : {62, 63, 64, 65, 66, 2000, 1000000}) {
    ExpectSame(std::string(depth, '[') + std::string(depth, ']'));
    std::string objects;
    for (size_t i = 0; i < depth; ++i) objects += "{\"a\":";
    ExpectSame(objects + "1" + std::string(depth, '}'));
  }
}

TEST(BodyJson, NumbersHaveTheSameBits) {
  std::mt19937_64 random(7);
  json numbers = json::array();
  for (int i = 0; i < 20000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (std::isfinite(value)) numbers.push_back(value);
    numbers.push_back(static_cast<float>(random()) * 0x1p-64F);
    numbers.push_back(random());
    numbers.push_back(static_cast<int64_t>(random()));
  }
  const auto found = ParseBody(numbers.dump());
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    const json &value = (*found)[i], &want = numbers[i];
    ASSERT_EQ(value.is_number_float(), want.is_number_float());
    if (want.is_number_float())
      ASSERT_EQ(std::bit_cast<uint64_t>(value.get<double>()),
                std::bit_cast<uint64_t>(want.get<double>()));
    else
      ASSERT_EQ(value, want);
  }
}

}  // namespace
}  // namespace evoq::serve
