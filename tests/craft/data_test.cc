// Each condition of the readers of data, met by a crafted file whose checksums are right.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "data/dataset.h"
#include "tests/craft/data.h"
#include "tests/craft/data_cases.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define EVOQ_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define EVOQ_SANITIZED 1
#endif
#endif

namespace evoq::craft {
namespace {

class CraftedData : public ::testing::Test {
 protected:
  CraftedData() : folder_((std::filesystem::temp_directory_path() / ("evoq_craft_" + std::to_string(getpid()))).string()) {
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
    EXPECT_LT(message.size(), 1000) << message;  // a sentence, however long the file's lines and names
  }
  EXPECT_EQ(good.size(), kReaders);
  EXPECT_EQ(bad.size(), kReaders);
}

#ifndef EVOQ_SANITIZED
// A file under 1 MB takes less than 256 MB, whatever it claims. Each in a process of its own, whose peak is known afterwards.
TEST_F(CraftedData, SmallFilesStayWithin256Megabytes) {
  int refused = 0;
  for (const DataCase& c : DataCases()) {
    if (std::string_view(c.error).find(", expected at most") == std::string_view::npos && std::string_view(c.condition).find("no rows") == std::string_view::npos) continue;
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
#endif

TEST_F(CraftedData, ConditionsHaveNamesOfTheirOwn) {
  std::set<std::pair<Reader, std::string>> names;
  for (const DataCase& c : DataCases()) EXPECT_TRUE(names.emplace(c.reader, c.condition).second) << ReaderName(c.reader) << ": " << c.condition;
}

}  // namespace
}  // namespace evoq::craft
