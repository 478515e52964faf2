// Where the blobs of a container lie, and which are compressed.
#include "program/container.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "base/early_parts.h"
#include "base/file.h"

namespace evoq {
namespace {

std::vector<std::byte> Noise(size_t count) {
  std::mt19937 random(7);
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random() & 0xff);
  return bytes;
}

class ContainerTest : public ::testing::Test {
 protected:
  ~ContainerTest() override { std::filesystem::remove(path_); }

  // Written, checked to be as large as told, and read back.
  Container Written(const std::vector<BlobSource>& sources) {
    const Status written = WriteContainer(path_, sources);
    EXPECT_TRUE(written) << written.error().message();
    EXPECT_EQ(static_cast<int64_t>(std::filesystem::file_size(path_)), ContainerBytes(sources));
    auto container = Container::Open(path_);
    EXPECT_TRUE(container) << container.error().message();
    for (const BlobSource& source : sources) {
      std::vector<std::byte> wanted;
      for (const auto& piece : source.pieces)
        wanted.insert(wanted.end(), piece.begin(), piece.end());
      Budget budget = Budget::ForFile(0);
      const auto bytes = container->Read(*container->Find(source.name), budget);
      EXPECT_TRUE(bytes) << bytes.error().message();
      EXPECT_TRUE(std::ranges::equal(bytes->data, wanted)) << source.name;
    }
    return std::move(*container);
  }

  const std::string path_ =
      (std::filesystem::temp_directory_path() / ("evoq_container_" + std::to_string(::getpid())))
          .string();
};

// Raw blobs begin at multiples of their alignment; compressed ones, which are decoded elsewhere,
// right behind what is before them.
TEST_F(ContainerTest, RawBlobsAreAlignedAndCompressedOnesAreNot) {
  const std::vector<std::byte> noise = Noise(1001), zeros(5000);
  const Container container = Written({{"odd", {noise}, 1},
                                       {"page", {noise}, 4096},
                                       {"small", {zeros}, 4096, true},
                                       {"next", {zeros}, 64, true},
                                       {"empty", {}, 1, true},
                                       {"raw", {zeros}, 64, false}});
  const auto& blobs = container.blobs();
  ASSERT_EQ(blobs.size(), 6u);
  EXPECT_EQ(blobs[0].offset, kEtmHeaderBytes + 6 * kEtmEntryBytes);
  EXPECT_EQ(blobs[1].offset, 4096);
  EXPECT_EQ(blobs[2].offset, 4096 + 1001);
  EXPECT_EQ(blobs[3].offset, blobs[2].offset + blobs[2].stored_bytes);
  EXPECT_EQ(blobs[4].offset, blobs[3].offset + blobs[3].stored_bytes);
  EXPECT_EQ(blobs[5].offset % 64, 0);
  EXPECT_LT(blobs[5].offset, blobs[4].offset + 64);
  EXPECT_EQ(container.file_bytes(), blobs[5].offset + 5000);
  for (const int i : {2, 3}) {
    EXPECT_EQ(blobs[i].codec, Codec::kZstd) << i;
    EXPECT_LT(blobs[i].stored_bytes, 200) << i;
    EXPECT_EQ(blobs[i].raw_bytes, 5000) << i;
  }
  for (const int i : {0, 1, 4, 5}) {
    EXPECT_EQ(blobs[i].codec, Codec::kRaw) << i;
    EXPECT_EQ(blobs[i].stored_bytes, blobs[i].raw_bytes) << i;
  }
}

// Noise with zeros behind it: the more zeros, the more is saved; a sixteenth is the least. zstd
// stores the noise as it is, with some bytes of its own, at most 50: 1060 zeros are less than a
// sixteenth of 17060, which are 1066, and 1130 less 50 more than one of 17130, which are 1070.
TEST_F(ContainerTest, CompressedWhereASixteenthIsSaved) {
  const std::vector<std::byte> noise = Noise(16000);
  for (const size_t zeros : {size_t{0}, size_t{1060}, size_t{1130}, size_t{2000}}) {
    std::vector<std::byte> bytes = noise;
    bytes.resize(noise.size() + zeros);
    const Container container = Written({{"b", {bytes}, 8, true}});
    EXPECT_EQ(container.blobs()[0].codec == Codec::kZstd, zeros > 1100) << zeros;
  }
}

// What would expand more than readers allow (256 times and 64 KiB) is stored as it is: zeros take
// some 20 bytes, or some 60.
TEST_F(ContainerTest, NothingExpandsTooMuch) {
  for (const size_t count : {size_t{69000}, size_t{1} << 20}) {
    const std::vector<std::byte> zeros(count);
    const Container container = Written({{"zeros", {zeros}, 8, true}});
    EXPECT_EQ(container.blobs()[0].codec == Codec::kZstd, count == 69000) << count;
  }
}

// The same file, whether the first pieces were in it early or not.
TEST_F(ContainerTest, EarlyPartsAreNotCopied) {
  const std::vector<std::byte> part = Noise(3 << 20), rest = Noise(1000), graph(5000);
  const auto sources = [&](std::span<const std::byte> first) {
    return std::vector<BlobSource>{
        {.name = "weights", .pieces = {first, rest}, .alignment = EarlyParts::kBegin},
        {.name = "graph", .pieces = {graph}, .compress = true},
        {.name = "more", .pieces = {rest}, .alignment = 64}};
  };
  Written(sources(part));
  const std::string plain = ReadTextFile(path_).value();
  for (const bool same : {true, false}) {
    EarlyParts early(path_);
    const auto there = early.Append(part);
    ASSERT_TRUE(early.Flush());
    const auto kept = early.Map(there);
    ASSERT_TRUE(kept);
    Written(sources(same ? kept->bytes : part));
    EXPECT_EQ(early.Takes(), !same);
    EXPECT_TRUE(ReadTextFile(path_).value() == plain);
  }
}

}  // namespace
}  // namespace evoq
