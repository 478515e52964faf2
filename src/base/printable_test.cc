#include "base/printable.h"

#include <gtest/gtest.h>

#include <vector>

namespace evoq {
namespace {

TEST(Printable, WhatHasAShapeStays) {
  for (const char* text :
       {"",       "conv1.weight", "a\\nb",      "tab\\\\",    "~ !\"#",    "Größe",
        "\u00a0", "入力:0",       "\U0001f600", "e\u0301",    "\u200a",    "\u2010",
        "\u202f", "\u205f",       "\u2070",     "\u061b",     "\u061d",    "\ufefe\ufff8\ufffc",
        "\ufffd", "\ue000",       "\ud7ff",     "\U000e0080", "\U0010ffff"}) {
    EXPECT_EQ(Printable(text), text);
    EXPECT_EQ(PrintableLines(text), text);
  }
}

// Every code point below 0xa0 and around the spans, against a second statement of the rule:
// Unicode's categories Cc and Cf of the ranges named in the header.
TEST(Printable, ControlsBecomeTheirNumber) {
  EXPECT_EQ(Printable("a\nb\rc\td"), "a\\nb\\rc\\td");
  EXPECT_EQ(Printable("\x1b[31mred\x1b[0m"), "\\u001b[31mred\\u001b[0m");
  EXPECT_EQ(Printable(std::string_view("\0", 1)), "\\u0000");
  EXPECT_EQ(Printable("\x1f \x7f"), "\\u001f \\u007f");
  EXPECT_EQ(Printable("\u0080\u009b\u009f"), "\\u0080\\u009b\\u009f");
  EXPECT_EQ(Printable("\u061c|\u200b\u200f|\u2028\u2029\u202a\u202e|\u2060\u2066\u2069\u206f"),
            "\\u061c|\\u200b\\u200f|\\u2028\\u2029\\u202a\\u202e|\\u2060\\u2066\\u2069\\u206f");
  EXPECT_EQ(Printable("\ufeff\ufff9\ufffb\U000e0000\U000e007f"),
            "\\ufeff\\ufff9\\ufffb\\ue0000\\ue007f");
}

TEST(Printable, BytesThatAreNoUtf8BecomeTheirValue) {
  EXPECT_EQ(Printable("a\x80z"), "a\\x80z");  // a continuation without a beginning
  EXPECT_EQ(Printable("\xc3"), "\\xc3");      // cut short
  EXPECT_EQ(Printable("\xe5\x85"), "\\xe5\\x85");
  EXPECT_EQ(Printable("\xc3z"), "\\xc3z");
  EXPECT_EQ(Printable("\xfe\xff"), "\\xfe\\xff");
  EXPECT_EQ(Printable("\xc0\x9b\xc1\xbf"),
            "\\xc0\\x9b\\xc1\\xbf");  // overlong: U+001B and U+007F in two bytes
  EXPECT_EQ(Printable("\xe0\x82\x9b"), "\\xe0\\x82\\x9b");  // U+009B in three
  EXPECT_EQ(Printable("\xf0\x80\x80\x9b"), "\\xf0\\x80\\x80\\x9b");
  EXPECT_EQ(Printable("\xe0\xa0\x80"), "\u0800");  // the first that needs three
  EXPECT_EQ(Printable("\xf0\x90\x80\x80"), "\U00010000");
  EXPECT_EQ(Printable("\xed\xa0\x80\xed\xbf\xbf"), "\\xed\\xa0\\x80\\xed\\xbf\\xbf");  // surrogates
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");                    // U+110000
  EXPECT_EQ(Printable("\xf8\x88\x80\x80\x80"), "\\xf8\\x88\\x80\\x80\\x80");
}

TEST(Printable, LinesKeepLineFeedsAndTabsOnly) {
  EXPECT_EQ(PrintableLines("a\n\tb\r\n\x1b[2J\xff\u202e"), "a\n\tb\\r\n\\u001b[2J\\xff\\u202e");
}

TEST(Printable, TwiceIsOnce) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(Printable(Printable(all)), Printable(all));
  EXPECT_EQ(PrintableLines(Printable(all)), Printable(all));
}

TEST(Printable, ArgumentsOfAFormatAreMadePrintable) {
  const std::string name = "a\x1b\nb";
  EXPECT_EQ(FormatPrintable("{}\n{:>14}|{:<3}|{}", name, name, "\xff", 7),
            "a\\u001b\\nb\n    a\\u001b\\nb|\\xff|7");
  EXPECT_EQ(FormatPrintable("{}", std::string_view("\r")), "\\r");
  EXPECT_EQ(FormatPrintable("{:.2f} {}", 1.5, Lines{"x\ny\x1b"}), "1.50 x\ny\\u001b");
  EXPECT_EQ(Joined(std::vector<std::string>{"a\n", "b", "\x1b"}, ", "), "a\\n, b, \\u001b");
  EXPECT_EQ(Joined(std::vector<std::string>{}, ", "), "");
}

}  // namespace
}  // namespace evoq
