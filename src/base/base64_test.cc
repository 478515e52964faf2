#include "base/base64.h"

#include <gtest/gtest.h>

namespace evoq {
namespace {

// RFC 4648, section 10, and all values of a digit.
TEST(Base64, IsItsDefinition) {
  const std::pair<const char*, const char*> rows[] = {
      {"", ""},
      {"f", "Zg=="},
      {"fo", "Zm8="},
      {"foo", "Zm9v"},
      {"foob", "Zm9vYg=="},
      {"fooba", "Zm9vYmE="},
      {"foobar", "Zm9vYmFy"},
      {"\xFB\xFF\xBF", "+/+/"},
  };
  for (const auto& [bytes, text] : rows) {
    EXPECT_EQ(ToBase64(bytes), text);
    EXPECT_EQ(*FromBase64(text), bytes);
  }
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes += static_cast<char>(i * 37);
  EXPECT_EQ(*FromBase64(ToBase64(bytes)), bytes);
}

TEST(Base64, RefusesOtherTexts) {
  EXPECT_EQ(FromBase64("abc").error().message(), "base64 of 3 characters");
  EXPECT_EQ(FromBase64("ab=c").error().message(), "no base64 at character 3");
  EXPECT_EQ(FromBase64("ab==abcd").error().message(), "no base64 at character 2");
  EXPECT_EQ(FromBase64("a===").error().message(), "no base64 at character 1");
  EXPECT_EQ(FromBase64("ab\ncdef=").error().message(), "no base64 at character 2");
  EXPECT_EQ(FromBase64("ab-_").error().message(), "no base64 at character 2");
}

}  // namespace
}  // namespace evoq
