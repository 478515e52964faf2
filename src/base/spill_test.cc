#include "base/spill.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/pages.h"
#include "base/test_child.h"

namespace evoq {
namespace {

std::vector<std::byte> Bytes(size_t count, int first) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(first + i % 251);
  return bytes;
}

// Resident bytes of a mapping, by the system's own account.
int64_t Resident(const void* data) {
  std::FILE* const file = std::fopen("/proc/self/smaps", "r");
  if (file == nullptr) return -1;
  char line[512];
  int64_t kilobytes = -1;
  bool here = false;
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line, "%lx-%lx ", &begin, &end) == 2) {
      const auto address = reinterpret_cast<unsigned long>(data);
      here = begin <= address && address < end;
    } else if (long rss = 0; here && std::sscanf(line, "Rss: %ld kB", &rss) == 1) {
      kilobytes = rss;
    }
  }
  std::fclose(file);
  return kilobytes * 1024;
}

std::string Folder() {
  const std::string folder = testing::TempDir() + "/evoq_spill_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

SpillScope* Active() { return ThreadScope<SpillScope>::Active(); }

TEST(Spill, KeepsWhatItIsGivenAndLeavesNothing) {
  const std::string folder = Folder();
  const std::vector<std::byte> a = Bytes(100'000, 1), b = Bytes(5, 7);
  std::optional<KeptBytes> kept_a, kept_b;
  EXPECT_EQ(Active(), nullptr);
  {
    SpillScope scope(folder);
    EXPECT_EQ(Active(), &scope);
    kept_a = scope.Keep(a);
    kept_b = scope.Keep(b);
    EXPECT_FALSE(scope.Keep({}));
    ASSERT_TRUE(kept_a && kept_b);
    EXPECT_TRUE(LiesInMappedPart(kept_a->bytes.data() + 99'999));
    EXPECT_FALSE(LiesInMappedPart(kept_a->bytes.data() + 100'000));
    EXPECT_FALSE(LiesInMappedPart(a.data()));
    EXPECT_TRUE(std::filesystem::is_empty(folder));
    {
      const SpillScope inner("/proc/self/no folder");
      EXPECT_EQ(Active(), &inner);
    }
    EXPECT_EQ(Active(), &scope);
  }
  EXPECT_EQ(Active(), nullptr);
  // It outlives the scope.
  EXPECT_TRUE(std::ranges::equal(kept_a->bytes, a));
  EXPECT_TRUE(std::ranges::equal(kept_b->bytes, b));
  const std::byte* const gone = kept_a->bytes.data();
  kept_a.reset();
  EXPECT_FALSE(LiesInMappedPart(gone));
  EXPECT_TRUE(std::ranges::equal(kept_b->bytes, b));
}

TEST(Spill, AFolderThatTakesNoFileKeepsNothing) {
  SpillScope scope("/proc/self/no folder");
  EXPECT_FALSE(scope.Keep(Bytes(100, 1)));
}

// Threads keep at once; each finds the scope when it enters it.
TEST(Spill, ThreadsKeepSideBySide) {
  SpillScope scope(Folder());
  std::vector<std::vector<KeptBytes>> kept(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      EXPECT_EQ(Active(), nullptr);
      const ThreadScope<SpillScope> same(&scope);
      for (int i = 0; i < 20; ++i) {
        auto bytes = Active()->Keep(Bytes(10'000, 20 * t + i));
        if (bytes) kept[static_cast<size_t>(t)].push_back(std::move(*bytes));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < 4; ++t) {
    ASSERT_EQ(kept[static_cast<size_t>(t)].size(), 20u);
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(std::ranges::equal(kept[static_cast<size_t>(t)][static_cast<size_t>(i)].bytes,
                                     Bytes(10'000, 20 * t + i)));
    }
  }
}

// A file that cannot grow keeps what fits and nothing of what does not.
TEST(Spill, WithoutRoomNothingIsKept) {
  const std::string folder = Folder();
  EXPECT_TRUE(InChild([&] {
    const rlimit limit{1 << 16, 1 << 16};
    if (std::signal(SIGXFSZ, SIG_IGN) == SIG_ERR || ::setrlimit(RLIMIT_FSIZE, &limit) != 0)
      return false;
    SpillScope scope(folder);
    const std::vector<std::byte> bytes = Bytes(5000, 1);
    const auto kept = scope.Keep(bytes);
    return kept && !scope.Keep(Bytes(1 << 16, 2)) && std::ranges::equal(kept->bytes, bytes);
  }));
}

// Whether the system maps pages without a touch (Linux 5.14).
bool MapsAtOnce() {
#ifdef MADV_POPULATE_READ
  void* const page = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return ::madvise(page, 4096, MADV_POPULATE_READ) == 0;
#else
  return false;
#endif
}

// Pages of a kept result and of a mapped file go, and come back as they were; other memory, which
// would come back as zeros, is left alone.
TEST(Pages, OfFilesGoAndComeBack) {
  const std::string folder = Folder(), path = folder + "/file";
  const std::vector<std::byte> bytes = Bytes(1 << 20, 3);
  const std::span<const std::byte> piece = bytes;
  ASSERT_TRUE(WriteFileAtomic(path, std::span(&piece, 1)));
  const auto file = MappedFile::Open(path).value();
  SpillScope scope(folder);
  const auto kept = scope.Keep(bytes);
  ASSERT_TRUE(kept);
  for (const std::span<const std::byte> mapped : {file->bytes(), kept->bytes}) {
    MapPages(mapped);
    if (!MapsAtOnce()) EXPECT_TRUE(std::ranges::equal(mapped, bytes));
    const int64_t before = Resident(mapped.data());
    if (before < 0) GTEST_SKIP() << "no /proc/self/smaps";
    EXPECT_EQ(before, 1 << 20);
    // Only pages that lie inside.
    ReleasePages(mapped.subspan(1, (1 << 19)));
    EXPECT_EQ(Resident(mapped.data()), (1 << 19) + 4096);
    ReleasePages(mapped);
    EXPECT_EQ(Resident(mapped.data()), 0);
    EXPECT_TRUE(std::ranges::equal(mapped, bytes));
  }
  std::vector<std::byte> own = bytes;
  ReleasePages(own);
  EXPECT_EQ(own, bytes);
  ReleasePages({});
}

}  // namespace
}  // namespace evoq
