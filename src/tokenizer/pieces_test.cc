// Tokenizers of pieces with scores: SentencePiece's .vocab and llama2.c's .bin.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tokenizer/tokenizer.h"

namespace evoq {
namespace {

using Pieces = std::vector<int64_t>;
const std::string kHead = "<unk>\t0\n<s>\t0\n";
const std::string kSpace = "\xE2\x96\x81";

class PiecesTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  Result<Tokenizer> Read(const std::string& name, const std::string& bytes) {
    path_ = (std::filesystem::temp_directory_path() / fmt::format("evoq_{}_{}", ::getpid(), name))
                .string();
    std::ofstream(path_, std::ios::binary) << bytes;
    return Tokenizer::Load(path_);
  }
  // Of pieces that SentencePiece would have as they are: without what it puts around a text, and
  // without the space before it.
  Pieces Encode(const std::string& vocab, const std::string& text) {
    const auto t = Read("t.vocab", vocab);
    EXPECT_TRUE(t) << t.error().message();
    return t ? *t->Encode(text, {.add_special = false}) : Pieces();
  }
  std::string Message(const std::string& name, const std::string& bytes) {
    const auto t = Read(name, bytes);
    return t ? "" : t.error().message().substr(path_.size() + 2);
  }
  std::string path_;
};

TEST_F(PiecesTest, JoinsTheLargestScoreFirst) {
  // ab (-1) comes before bc (-2); with the text's space first.
  const std::string vocab = kHead + kSpace + "\t-9\na\t-9\nb\t-9\nc\t-9\nbc\t-2\nab\t-1\n" +
                            kSpace + "ab\t-3\n<0x0A>\t0\n";
  EXPECT_EQ(Encode(vocab, "abc"), (Pieces{8, 5}));
  EXPECT_EQ(Encode(vocab, "bcab"), (Pieces{2, 6, 7}));
  EXPECT_EQ(Encode(vocab, "a\nb"), (Pieces{2, 3, 9, 4}));  // a byte's piece
  // Neither a piece nor bytes: unknown, once for neighbours.
  EXPECT_EQ(Encode(vocab, "a\xC3\xA4\xC3\xB6 b"), (Pieces{2, 3, 0, 2, 4}));
  EXPECT_TRUE(Encode(vocab, "").empty());
  const auto t = Read("t.vocab", vocab);
  EXPECT_EQ(*t->Encode("abc"), (Pieces{1, 8, 5}));  // with the begin piece
  EXPECT_EQ(*t->Decode(Pieces{1, 8, 5}), "abc");
  EXPECT_EQ(*t->Decode(Pieces{8, 9, 8}), "ab\n ab");
}

// Of joins with one score, the first place: ab of abc, the first two of aaa, whichever piece stands
// first in the file.
TEST_F(PiecesTest, TiesTakeTheFirstPlace) {
  for (const bool turned : {false, true}) {
    const std::string pairs = turned ? "bc\t-1\nab\t-1\naa\t-1\n" : "ab\t-1\nbc\t-1\naa\t-1\n";
    const std::string vocab = kHead + "a\t-9\nb\t-9\nc\t-9\n" + pairs + kSpace + "\t-9\n";
    const int64_t a = 2, b = 3, c = 4, ab = turned ? 6 : 5, bc = turned ? 5 : 6, aa = 7, s = 8;
    EXPECT_EQ(Encode(vocab, "abc"), (Pieces{s, ab, c}));
    EXPECT_EQ(Encode(vocab, "bcbc"), (Pieces{s, bc, bc}));
    EXPECT_EQ(Encode(vocab, "aaa"), (Pieces{s, aa, a}));
    EXPECT_EQ(Encode(vocab, "aab"), (Pieces{s, aa, b}));
    EXPECT_EQ(Encode(vocab, "cabc"), (Pieces{s, c, ab, c}));
  }
}

// A join that became stale: in abcd, bc (-1) joins first; then ab and cd cannot. With abc (-2) the
// join goes on to the left.
TEST_F(PiecesTest, JoinsOfJoins) {
  const std::string head =
      kHead + "a\t-9\nb\t-9\nc\t-9\nd\t-9\nab\t-2\nbc\t-1\ncd\t-2\n" + kSpace + "\t-9\n";
  EXPECT_EQ(Encode(head, "abcd"), (Pieces{9, 2, 7, 5}));
  EXPECT_EQ(Encode(head + "abc\t-5\n", "abcd"), (Pieces{9, 10, 5}));
  EXPECT_EQ(Encode(head + "abc\t-5\nbcd\t-4\n", "abcd"), (Pieces{9, 2, 11}));
  EXPECT_EQ(Encode(head + "abc\t-5\nabcd\t-4\n", "abcdabcd"), (Pieces{9, 11, 11}));
}

// Words are cut at spaces only where no piece goes over one.
TEST_F(PiecesTest, PiecesOverSpaces) {
  const std::string head = kHead + "a\t-9\nb\t-9\n" + kSpace + "\t-9\n" + kSpace + "b\t-8\n";
  EXPECT_EQ(Encode(head, "a b"), (Pieces{4, 2, 5}));
  EXPECT_EQ(Encode(head + "a" + kSpace + "b\t-1\n", "a b"), (Pieces{4, 6}));
  EXPECT_EQ(Encode(head + kSpace + kSpace + "\t-1\n", "a   b"), (Pieces{4, 2, 6, 5}));
}

// A character of a piece that is no piece itself still joins.
TEST_F(PiecesTest, CharactersThatAreNoPieces) {
  const std::string vocab = kHead + kSpace + "\t-9\nab\t-1\nabc\t-1\n";
  EXPECT_EQ(Encode(vocab, "abc"), (Pieces{2, 4}));
  EXPECT_EQ(Encode(vocab, "abd"), (Pieces{2, 3, 0}));
  EXPECT_EQ(Encode(vocab, "ba"), (Pieces{2, 0}));
}

TEST_F(PiecesTest, BinaryForm) {
  std::string bin("\2\0\0\0", 4);
  const auto piece = [&](float score, const std::string& text) {
    const auto size = static_cast<int32_t>(text.size());
    bin.append(reinterpret_cast<const char*>(&score), 4)
        .append(reinterpret_cast<const char*>(&size), 4)
        .append(text);
  };
  for (const char* text : {"<unk>", "\n<s>\n", "\n</s>\n", "a", "b"}) piece(-9, text);
  piece(-1, "ab");
  piece(-0.5f, "ba");
  piece(-3, "");
  piece(-3, " ");
  const auto t = Read("t.bin", bin);
  ASSERT_TRUE(t) << t.error().message();
  EXPECT_EQ(t->size(), 9);
  EXPECT_EQ(*t->Encode("aba"), (Pieces{1, 8, 3, 6}));
  EXPECT_EQ(*t->Encode("abb"), (Pieces{1, 8, 5, 4}));
  EXPECT_EQ(*t->Decode(Pieces{1, 8, 3, 8, 4, 2}), "a b");
  EXPECT_EQ(t->begin(), 1);
  EXPECT_EQ(t->ends(), (Pieces{2}));
  EXPECT_EQ(*t->Piece(8), kSpace);
  EXPECT_EQ(t->Find("ba"), 6);
}

TEST_F(PiecesTest, RefusesDamagedFiles) {
  const auto vocab = [&](const std::string& text) { return Message("v.vocab", text); };
  EXPECT_EQ(vocab(kHead), "");
  EXPECT_EQ(vocab("<unk>\t0\n"), "1 pieces, expected at least 2");
  EXPECT_EQ(vocab(kHead + std::string(4096, 'a') + "\t0\n"), "");
  EXPECT_EQ(vocab(kHead + std::string(4097, 'a') + "\t0\n"),
            "piece 2 has 4097 bytes, expected at most 4096");
  EXPECT_EQ(vocab(kHead + "a\tnan\n"), "piece 2 has the score nan, expected a number");
  EXPECT_EQ(vocab(kHead + "a b\n"), "line 3: expected a piece, a tab and a score");
  EXPECT_EQ(vocab(kHead + "a\tb\n"), "line 3: expected a piece, a tab and a score");
  EXPECT_EQ(vocab(kHead + "a\t1\nb\t2\na\t3\n"), "pieces 2 and 4 are the same text");
  const auto bin = [&](const std::string& bytes) { return Message("b.bin", bytes); };
  const std::string head("\1\0\0\0", 4), piece("\0\0\0\0\1\0\0\0a", 9);
  EXPECT_EQ(bin(head + piece + piece.substr(0, 8)),
            "piece 1 has 1 bytes, expected at most the 0 left in the file");
  EXPECT_EQ(bin(head + piece + piece.substr(0, 7)), "piece 1 is cut off");
  EXPECT_EQ(bin(head + piece + std::string("\0\0\0\0\xFF\xFF\xFF\xFF", 8)),
            "piece 1 has -1 bytes, expected at most 4096");
  EXPECT_EQ(bin(head + piece + piece), "pieces 0 and 1 are the same text");
  // 128 MiB and a byte; a file without blocks.
  EXPECT_NE(Message("large.bin", ""), "");
  ASSERT_EQ(::truncate(path_.c_str(), (128 << 20) + 1), 0);
  EXPECT_NE(
      Tokenizer::Load(path_).error().message().find("134217729 bytes, expected at most 134217728"),
      std::string::npos);
}

}  // namespace
}  // namespace evoq
