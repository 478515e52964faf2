#include "data/tokenizer.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "base/file.h"

namespace evoq {
namespace {

class TokenizerTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  Result<Tokenizer> Read(const std::string& name, const std::string& bytes) {
    path_ = (std::filesystem::temp_directory_path() / fmt::format("evoq_{}_{}", ::getpid(), name))
                .string();
    EXPECT_TRUE(WriteFileAtomic(path_, bytes));
    return Tokenizer::Load(path_);
  }
  std::string path_;
};

TEST_F(TokenizerTest, JoinsTheLargestScoreFirst) {
  // "abc": ab (-1) comes before bc (-2), though abc needs bc's kind of join too.
  const auto t =
      Read("a.vocab",
           "<unk>\t0\n<s>\t0\n\xE2\x96\x81\t-9\na\t-9\nb\t-9\nc\t-9\nbc\t-2\nab\t-1\n\xE2\x96\x81"
           "ab\t-3\n<0x0A>\t0\n");
  ASSERT_TRUE(t) << t.error().message();
  EXPECT_EQ(t->Encode("abc"), (std::vector<int64_t>{7, 5}));
  EXPECT_EQ(t->Encode("bcab"), (std::vector<int64_t>{6, 7}));
  EXPECT_EQ(t->Encode(" ab"), (std::vector<int64_t>{8}));
  EXPECT_EQ(t->Encode("a\nb"), (std::vector<int64_t>{3, 9, 4}));  // a byte's piece
  EXPECT_EQ(t->Encode("a\xC3\xA4"
                      "b"),
            (std::vector<int64_t>{3, 0, 4}));  // neither a piece nor bytes: unknown, once
  EXPECT_TRUE(t->Encode("").empty());
}

TEST_F(TokenizerTest, RefusesDamagedFiles) {
  EXPECT_NE(Read("b.vocab", "<unk>\t0\nx\n").error().message().find("line 2"), std::string::npos);
  EXPECT_NE(Read("b.bin", std::string("\x05\0\0\0\0\0\0\0\xFF\0\0\0xy", 14))
                .error()
                .message()
                .find("piece 0 has 255 bytes"),
            std::string::npos);
  EXPECT_NE(
      Read("c.bin", std::string("\x05\0\0\0\0\0", 6)).error().message().find("piece 0 is cut off"),
      std::string::npos);
}

}  // namespace
}  // namespace evoq
