#include "base/early_parts.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/test_child.h"

namespace evoq {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

Bytes Made(size_t count, int first) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(first + i % 251);
  return bytes;
}

class EarlyPartsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() / fmt::format("evoq_early_{}", ::getpid());
    fs::create_directories(dir_);
    path_ = (dir_ / "result").string();
  }
  void TearDown() override { fs::remove_all(dir_); }

  Bytes Written() const {
    const std::string text = ReadTextFile(path_).value_or("(none)");
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }
  fs::path dir_;
  std::string path_;
};

// Both parts of a scope, mapped.
struct Two {
  std::optional<KeptBytes> a, b;
};
Two PutTwo(EarlyParts& early, const Bytes& a, const Bytes& b) {
  const auto part_a = early.Append(a), part_b = early.Append(b);
  EXPECT_TRUE(early.Flush());
  return {early.Map(part_a), early.Map(part_b)};
}

constexpr std::byte kZeros[64] = {};
std::span<const std::byte> Zeros(size_t count) { return std::span(kZeros).first(count); }

TEST_F(EarlyPartsTest, AreInTheFileThatIsTaken) {
  const Bytes a = Made(5 << 20, 1), b = Made(100'003, 7), rest = Made(70'000, 3),
              front = Made(300, 9);
  std::optional<KeptBytes> kept_a, kept_b;
  {
    EarlyParts early(path_);
    EXPECT_EQ(ThreadScope<EarlyParts>::Active(), &early);
    EXPECT_TRUE(early.Takes());
    const auto part_a = early.Append(a);
    ASSERT_NE(part_a, nullptr);
    EXPECT_FALSE(early.Map(part_a)) << "its end waits for a whole huge page";
    const auto part_b = early.Append(b);
    EXPECT_TRUE(fs::is_empty(dir_)) << "the file has no name yet";
    ASSERT_TRUE(early.Flush());
    kept_a = early.Map(part_a);
    kept_b = early.Map(part_b);
    ASSERT_TRUE(kept_a && kept_b);
    EXPECT_TRUE(std::ranges::equal(kept_a->bytes, a));
    EXPECT_TRUE(std::ranges::equal(kept_b->bytes, b));
    EXPECT_TRUE(LiesInMappedPart(kept_b->bytes.data()));

    const std::vector<std::span<const std::byte>> pieces = {kept_a->bytes, kept_b->bytes, rest};
    auto begun = early.Take(path_, EarlyParts::kBegin, pieces);
    ASSERT_TRUE(begun);
    EXPECT_EQ(begun->pieces, 2u);
    Bytes parts = a;
    parts.insert(parts.end(), b.begin(), b.end());
    EXPECT_EQ(begun->sum.value(), Crc32c(parts));
    EXPECT_FALSE(early.Takes());
    EXPECT_EQ(early.Append(b), nullptr);
    EXPECT_FALSE(early.Take(path_, EarlyParts::kBegin, pieces)) << "once";
    ASSERT_TRUE(begun->file.Write(rest));
    ASSERT_TRUE(begun->file.WriteAt(0, front));
    ASSERT_TRUE(begun->file.Commit());
    Bytes all = front;
    all.resize(EarlyParts::kBegin);
    all.insert(all.end(), parts.begin(), parts.end());
    all.insert(all.end(), rest.begin(), rest.end());
    EXPECT_TRUE(Written() == all);
  }
  EXPECT_EQ(ThreadScope<EarlyParts>::Active(), nullptr);
  EXPECT_TRUE(std::ranges::equal(kept_a->bytes, a)) << "a part outlives the scope";
}

TEST_F(EarlyPartsTest, ZerosStandBetweenThem) {
  const Bytes a = Made(100, 1), b = Made(64, 7);
  EarlyParts early(path_);
  const Two two = PutTwo(early, a, b);
  ASSERT_TRUE(two.a && two.b);
  const std::vector<std::span<const std::byte>> pieces = {two.a->bytes, Zeros(28), two.b->bytes};
  auto begun = early.Take(path_, EarlyParts::kBegin, pieces);
  ASSERT_TRUE(begun);
  EXPECT_EQ(begun->pieces, 3u);
  Bytes all = a;
  all.resize(128);
  all.insert(all.end(), b.begin(), b.end());
  EXPECT_EQ(begun->sum.value(), Crc32c(all));
}

// Whatever is not exactly what the file holds is written anew by who asks.
TEST_F(EarlyPartsTest, OtherPiecesAreNotTaken) {
  const Bytes a = Made(128, 1), b = Made(256, 7), c = Made(64, 3);
  EarlyParts early(path_);
  Two two = PutTwo(early, a, b);
  ASSERT_TRUE(two.a && two.b);
  using Pieces = std::vector<std::span<const std::byte>>;
  const auto first = two.a->bytes, second = two.b->bytes;
  const auto taken = [&](const std::string& path, int64_t begin, const Pieces& pieces) {
    return early.Take(path, begin, pieces).has_value();
  };
  const int64_t begin = EarlyParts::kBegin;
  EXPECT_FALSE(taken(path_ + "2", begin, {first, second}));
  EXPECT_FALSE(taken(path_, begin + 64, {first, second}));
  EXPECT_FALSE(taken(path_, begin, {first}));
  EXPECT_FALSE(taken(path_, begin, {second, first}));
  EXPECT_FALSE(taken(path_, begin, {a, second})) << "the same bytes elsewhere may change";
  EXPECT_FALSE(taken(path_, begin, {first, c, second}));
  EXPECT_FALSE(taken(path_, begin, {first, second.first(255)}));
  EXPECT_FALSE(taken(path_, begin, {}));
  {
    const Bytes unmapped = Made(64, 5);
    EXPECT_NE(early.Append(unmapped), nullptr);
    EXPECT_FALSE(taken(path_, begin, {first, second, unmapped})) << "it may still be waiting";
  }
}

TEST_F(EarlyPartsTest, APartThatIsGoneIsNotTaken) {
  EarlyParts early(path_);
  Two two = PutTwo(early, Made(128, 1), Made(256, 7));
  ASSERT_TRUE(two.a && two.b);
  const std::vector<std::span<const std::byte>> pieces = {two.a->bytes, two.b->bytes};
  two.b.reset();
  EXPECT_FALSE(early.Take(path_, EarlyParts::kBegin, pieces));
}

// A program that was given up leaves nothing in the file of the next one.
TEST_F(EarlyPartsTest, BeginAnewWhenAllAreGone) {
  const Bytes a = Made(3 << 20, 1), b = Made(256, 7);
  EarlyParts early(path_);
  PutTwo(early, a, b);
  const Two two = PutTwo(early, b, a);
  ASSERT_TRUE(two.a && two.b);
  const std::vector<std::span<const std::byte>> pieces = {two.a->bytes, two.b->bytes};
  auto begun = early.Take(path_, EarlyParts::kBegin, pieces);
  ASSERT_TRUE(begun);
  ASSERT_TRUE(begun->file.Commit());
  EXPECT_EQ(Written().size(), EarlyParts::kBegin + b.size() + a.size());
  EXPECT_TRUE(std::ranges::equal(two.b->bytes, a));
}

TEST_F(EarlyPartsTest, DevicesAndFoldersTakeNone) {
  for (const std::string& path : {std::string("/dev/null"), dir_.string(), std::string("/dev/fd/1"),
                                  (dir_ / "no folder" / "file").string()}) {
    EarlyParts early(path);
    EXPECT_EQ(early.Append(Made(100, 1)), nullptr) << path;
    EXPECT_FALSE(early.Takes()) << path;
  }
  EarlyParts early(path_);
  EXPECT_EQ(early.Append({}), nullptr);
  EXPECT_TRUE(early.Takes());
}

// What came before stays readable, where it was mapped; nothing more is taken.
TEST_F(EarlyPartsTest, WithoutRoomTheFileIsGivenUp) {
  EXPECT_TRUE(InChild([&] {
    const rlimit limit{1 << 20, 1 << 20};
    if (std::signal(SIGXFSZ, SIG_IGN) == SIG_ERR || ::setrlimit(RLIMIT_FSIZE, &limit) != 0)
      return false;
    EarlyParts early(path_);
    const Bytes a = Made(5000, 1);
    const auto part = early.Append(a);
    if (!early.Flush()) return false;
    const auto kept = early.Map(part);
    if (!kept || early.Append(Made(4 << 20, 2)) != nullptr || early.Takes() || early.Map(part))
      return false;
    return std::ranges::equal(kept->bytes, a) && !early.Flush();
  }));
  EXPECT_TRUE(fs::is_empty(dir_));
}

}  // namespace
}  // namespace evoq
