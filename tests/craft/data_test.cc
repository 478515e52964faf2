// Each condition of the readers of data, met by a crafted file whose checksums are right.
#include "tests/craft/data.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string_view>

#include "base/file.h"
#include "data/dataset.h"
#include "tests/craft/data_cases.h"
#include "tests/sanitized.h"

namespace evoq::craft {
namespace {

class CraftedData : public ::testing::Test {
 protected:
  CraftedData()
      : folder_(
            (std::filesystem::temp_directory_path() / ("evoq_craft_" + std::to_string(getpid())))
                .string()) {
    std::filesystem::create_directories(folder_);
  }
  ~CraftedData() override { std::filesystem::remove_all(folder_); }
  std::string Save(const std::string& name, const std::string& bytes) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string folder_;
};

TEST_F(CraftedData, EachConditionOfEachReader) {
  std::set<Reader> good, bad;
  for (const DataCase& c : DataCases()) {
    SCOPED_TRACE(std::string(ReaderName(c.reader)) + ": " + c.condition);
    const std::string path = Save(FileName(c.reader), c.bytes);
    const Status status = ReadAs(c.reader, path);
    if (*c.error == 0) {
      EXPECT_TRUE(status) << status.error().message();
      good.insert(c.reader);
      continue;
    }
    bad.insert(c.reader);
    ASSERT_FALSE(status) << "expected: " << c.error;
    const std::string& message = status.error().message();
    EXPECT_NE(message.find(c.error), std::string::npos) << message << "\nexpected: " << c.error;
    EXPECT_NE(message.find(FileName(c.reader)), std::string::npos) << message;
    EXPECT_LT(message.size(), 1000)
        << message;  // a sentence, however long the file's lines and names
  }
  EXPECT_EQ(good.size(), kReaders);
  EXPECT_EQ(bad.size(), kReaders);
}

#ifndef EVOQ_SANITIZED
// A file under 1 MB takes less than 256 MB, whatever it claims. Each in a process of its own, whose
// peak is known afterwards.
TEST_F(CraftedData, SmallFilesStayWithin256Megabytes) {
  int refused = 0;
  for (const DataCase& c : DataCases()) {
    if (std::string_view(c.error).find(", expected at most") == std::string_view::npos &&
        std::string_view(c.condition).find("no rows") == std::string_view::npos)
      continue;
    SCOPED_TRACE(std::string(ReaderName(c.reader)) + ": " + c.condition);
    ASSERT_LT(c.bytes.size(), 1000000);
    const std::string path = Save(FileName(c.reader), c.bytes);
    const pid_t child = fork();
    if (child == 0) _exit(ReadAs(c.reader, path) ? 1 : 0);
    int status = 0;
    rusage usage{};
    ASSERT_EQ(wait4(child, &status, 0, &usage), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_LT(usage.ru_maxrss, 256000);  // kilobytes
    ++refused;
  }
  EXPECT_GE(refused, 5);
}

// A file under 1 MB that has 2,900 end records takes about the processor time of one with the last
// of them alone, the least of three readings each; following each takes ten times that.
TEST_F(CraftedData, ManyEndRecordsCostWhatOneDoes) {
  const auto& cases = DataCases();
  const auto row = std::find_if(cases.begin(), cases.end(), [](const DataCase& c) {
    return std::string_view(c.condition) == "many end records";
  });
  ASSERT_NE(row, cases.end());
  ASSERT_LT(row->bytes.size(), 1000000);
  const auto least_clocks = [&](const std::string& bytes) {
    const std::string path = Save("a.npz", bytes);
    std::clock_t least = std::numeric_limits<std::clock_t>::max();
    for (int i = 0; i < 3; ++i) {
      const std::clock_t before = std::clock();
      const auto arrays = ReadNpz(path);
      least = std::min(least, std::clock() - before);
      EXPECT_TRUE(arrays && arrays->size() == 17000);
    }
    return least;
  };
  const size_t first = row->bytes.find("PK\5\6"), bytes = 22;
  std::string one = row->bytes.substr(0, first + bytes);
  one[first + 20] = one[first + 21] = '\0';  // no comment
  EXPECT_LT(least_clocks(row->bytes), 4 * least_clocks(one));
}
#endif

// The writers' own bytes, by hand: a GGUF of one key and two tensors, the second aligned to 32.
TEST(Craft, GgufBytes) {
  Gguf file;
  file.keys = {{"a.b", 4, Little(7, 4)}};
  file.tensors = {{"w", {3}, 0, {}, "0123456789ab"}, {"v", {1}, 0, {}, "cdef"}};
  const std::string bytes = Write(file);
  const std::string header =
      std::string("GGUF\3\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 24) +
      std::string("\3\0\0\0\0\0\0\0a.b\4\0\0\0\7\0\0\0", 19) +
      std::string("\1\0\0\0\0\0\0\0w\1\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 33) +
      std::string("\1\0\0\0\0\0\0\0v\1\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0", 33);
  ASSERT_EQ(header.size(), 109);
  EXPECT_EQ(bytes.substr(0, 109), header);
  EXPECT_EQ(bytes.substr(109, 19), std::string(19, '\0'));  // to 128
  EXPECT_EQ(bytes.substr(128), "0123456789ab" + std::string(20, '\0') + "cdef");
}

// Checksums that were put right after a change: each file is read again, where it was refused
// before.
TEST_F(CraftedData, ChecksumsPutRight) {
  const auto outcome = [&](Reader reader, const std::string& bytes) {
    const Status status = ReadAs(reader, Save(FileName(reader), bytes));
    return status ? "" : status.error().message();
  };
  Zip zip;
  zip.members[0].method = 0;
  zip.members.push_back({.name = "y.npy"});
  std::string bytes = Write(zip);
  bytes[bytes.find("NUMPY") + 130] = 'x';  // in the stored member's data
  EXPECT_NE(outcome(Reader::kNpz, bytes).find("CRC-32"), std::string::npos);
  FixZip(bytes);
  EXPECT_EQ(outcome(Reader::kNpz, bytes), "");
  bytes = Write(Gzip{.data = Write(Idx{}), .crc = 1, .bytes = 2});
  EXPECT_NE(outcome(Reader::kIdx, bytes).find("incorrect data check"), std::string::npos);
  FixGzip(bytes);
  EXPECT_EQ(outcome(Reader::kIdx, bytes), "");
  bytes = Write(Png{});
  bytes[16 + 3] = 1;  // one pixel wide
  EXPECT_NE(outcome(Reader::kImage, bytes).find("CRC"), std::string::npos);
  FixPng(bytes);
  EXPECT_EQ(outcome(Reader::kImage, bytes).find("CRC"), std::string::npos);
  for (std::string text : {std::string(), std::string("PK\5\6"), std::string("\x1f\x8b"),
                           std::string(7, '\xff'), std::string(30, '\xff')}) {
    FixZip(text), FixGzip(text), FixPng(text);
  }
}

// RGB pixels; of several scans also 64 coefficients of 2 bytes for each of the 3 x 2 blocks.
TEST(Craft, AJpegDrawsWhatItsDecoderKeeps) {
  const auto drawn = [](const std::string& file) {
    Budget budget = Budget::ForFile(0);
    const auto image = DecodeImage(std::as_bytes(std::span(file)), budget);
    EXPECT_TRUE(image) << image.error().message();
    return budget.memory_limit() - budget.memory_left();
  };
  EXPECT_EQ(drawn(ProgressiveJpeg(20, 10, 1)), 3 * 20 * 10 + 3 * 2 * 64 * 2);
  const auto baseline = ReadTextFile(std::string(EVOQ_SOURCE_DIR) + "/tests/golden/images/rgb.jpg");
  ASSERT_TRUE(baseline);
  const auto image = DecodeImage(std::as_bytes(std::span(*baseline)));
  ASSERT_TRUE(image);
  EXPECT_EQ(drawn(*baseline), 3 * image->width * image->height);
}

TEST_F(CraftedData, ConditionsHaveNamesOfTheirOwn) {
  std::set<std::pair<Reader, std::string>> names;
  for (const DataCase& c : DataCases())
    EXPECT_TRUE(names.emplace(c.reader, c.condition).second)
        << ReaderName(c.reader) << ": " << c.condition;
}

}  // namespace
}  // namespace evoq::craft
