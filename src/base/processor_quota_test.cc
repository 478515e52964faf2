// What control groups allow a process, of both versions and as containers see them.
#include "base/processor_quota.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace evoq {
namespace {

class Quota : public ::testing::Test {
 protected:
  ~Quota() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + "/" + path).parent_path());
    std::ofstream(root_ + "/" + path) << text;
  }
  std::optional<int> Of(const std::string& groups) {
    Write("groups", groups);
    return ProcessorQuota(root_ + "/groups", root_);
  }
  const std::string root_ =
      (std::filesystem::temp_directory_path() / ("evoq_quota_" + std::to_string(::getpid())))
          .string();
};

TEST_F(Quota, OfVersion2) {
  EXPECT_EQ(Of("0::/\n"), std::nullopt);
  Write("pod/cpu.max", "max 100000\n");
  EXPECT_EQ(Of("0::/pod\n"), std::nullopt);
  Write("pod/cpu.max", "350000 100000\n");
  EXPECT_EQ(Of("0::/pod\n"), 3);
  Write("pod/one/cpu.max", "800000 100000\n");
  EXPECT_EQ(Of("0::/pod/one\n"), 3) << "the least of all";
  Write("pod/one/cpu.max", "20000 100000\n");
  EXPECT_EQ(Of("0::/pod/one\n"), 1) << "less than one";
  Write("cpu.max", "200000 100000\n");
  EXPECT_EQ(Of("0::/\n"), 2) << "a container's own group";
  EXPECT_EQ(Of("0::/not/seen/here\n"), 2);
}

TEST_F(Quota, OfVersion1) {
  Write("cpu/docker/a/cpu.cfs_quota_us", "-1\n");
  Write("cpu/docker/a/cpu.cfs_period_us", "100000\n");
  const std::string groups = "7:memory:/docker/a\n4:cpu,cpuacct:/docker/a\n";
  EXPECT_EQ(Of(groups), std::nullopt);
  Write("cpu/docker/a/cpu.cfs_quota_us", "400000\n");
  EXPECT_EQ(Of(groups), 4);
  EXPECT_EQ(Of("5:cpuset:/docker/a\n"), std::nullopt);
}

TEST_F(Quota, OfWhatIsNotThere) {
  EXPECT_EQ(ProcessorQuota(root_ + "/none", root_), std::nullopt);
  for (const char* odd : {"", "\n", "0", "0:", "0::", "x:y:z\n", "0::no-slash\n"})
    EXPECT_EQ(Of(odd), std::nullopt) << odd;
  Write("cpu.max", "100000");
  EXPECT_EQ(Of("0::/\n"), std::nullopt);
  Write("cpu.max", "1 0\n");
  EXPECT_EQ(Of("0::/\n"), std::nullopt);
}

}  // namespace
}  // namespace evoq
