// What the small functions promise, at their limits.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <thread>

#include "base/amx.h"
#include "base/brief.h"
#include "base/core_kind.h"
#include "base/file.h"
#include "base/isa.h"
#include "base/math.h"
#include "base/memory.h"
#include "base/result.h"
#include "base/runnable_isa.h"
#include "base/test_child.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "tests/sanitized.h"

namespace evoq {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(Math, ChecksAtTheLimits) {
  EXPECT_EQ(CheckedMul(kMax, 1), kMax);
  EXPECT_EQ(CheckedMul(int64_t{1} << 31, int64_t{1} << 31), int64_t{1} << 62);
  EXPECT_EQ(CheckedMul(int64_t{1} << 32, int64_t{1} << 31), std::nullopt);
  EXPECT_EQ(CheckedMul(kMax, 2), std::nullopt);
  EXPECT_EQ(CheckedAdd(kMax, 0), kMax);
  EXPECT_EQ(CheckedAdd(kMax - 1, 1), kMax);
  EXPECT_EQ(CheckedAdd(kMax, 1), std::nullopt);
  EXPECT_EQ(CheckedProduct(std::vector<int64_t>{kMax, 1}), kMax);
  EXPECT_EQ(CheckedProduct(std::vector<int64_t>{5, 0}), 0);
  EXPECT_EQ(CheckedProduct(std::vector<int64_t>{0, -1}), std::nullopt);
  for (std::vector<int64_t> dims = {0, 2, kMax}; const int turn : {0, 1, 2}) {
    EXPECT_EQ(CheckedProduct(dims), std::nullopt) << "turned by " << turn;
    std::rotate(dims.begin(), dims.begin() + 1, dims.end());
  }
  EXPECT_EQ(CeilDiv(0, 4), 0);
  EXPECT_EQ(CeilDiv(1, 4), 1);
  EXPECT_EQ(CeilDiv(4, 4), 1);
  EXPECT_EQ(CeilDiv(5, 4), 2);
  EXPECT_EQ(CeilDiv(kMax, 2), (kMax - 1) / 2 + 1);
  EXPECT_EQ(RoundUp(0, 64), 0);
  EXPECT_EQ(RoundUp(64, 64), 64);
  EXPECT_EQ(RoundUp(65, 64), 128);
}

TEST(Text, BytesForPeople) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(999), "999 B");
  EXPECT_EQ(HumanBytes(1000), "1.0 kB");
  EXPECT_EQ(HumanBytes(999'900), "999.9 kB");
  EXPECT_EQ(HumanBytes(1'000'000), "1.00 MB");
  EXPECT_EQ(HumanBytes(13'964'179), "13.96 MB");
  EXPECT_EQ(HumanBytes(999'990'000), "999.99 MB");
  EXPECT_EQ(HumanBytes(1'000'000'000), "1.00 GB");
}

TEST(Text, GlobsAtTheEnds) {
  EXPECT_TRUE(GlobMatch("", ""));
  EXPECT_TRUE(GlobMatch("*", ""));
  EXPECT_TRUE(GlobMatch("**", "anything"));
  EXPECT_FALSE(GlobMatch("", "a"));
  EXPECT_FALSE(GlobMatch("?", ""));
  EXPECT_FALSE(GlobMatch("a?", "a"));
  EXPECT_TRUE(GlobMatch("a*", "a"));
  EXPECT_TRUE(GlobMatch("?*", "a*"));
  EXPECT_FALSE(GlobMatch("*b", "ba"));
  EXPECT_TRUE(GlobMatch("a*b*c", "aXbXbXc"));
  EXPECT_EQ(Bracketed(std::span<const int64_t>(std::vector<int64_t>{1, 3, 224})), "[1, 3, 224]");
  EXPECT_EQ(Bracketed(std::span<const int64_t>()), "[]");
  std::vector<int64_t> sizes(16, 7);
  EXPECT_EQ(BracketedBriefly<int64_t>(sizes), Bracketed<int64_t>(sizes));
  sizes.push_back(8);
  EXPECT_EQ(BracketedBriefly<int64_t>(sizes),
            "[7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, ... 17 in all]");
}

TEST(Text, WhatIsLongIsCutBetweenCharacters) {
  const std::string most(100, 'a');
  EXPECT_EQ(Shorten(most), most);
  EXPECT_EQ(Shorten(most + "b"), most + "...");
  EXPECT_EQ(CharacterStart("abc", 0), 0u);
  EXPECT_EQ(CharacterStart("abc", 2), 2u);
  EXPECT_EQ(CharacterStart("\xc3\xa4", 1), 0u);
  EXPECT_EQ(CharacterStart("\x80\x80", 1), 0u) << "the text begins there";
  EXPECT_EQ(CharacterStart("\x80\x80\x80\x80\x80\x80", 5), 2u) << "3 bytes at most";
  EXPECT_EQ(CharacterStart(std::string_view("ab\x80", 2), 2), 2u) << "nothing behind the end";
}

TEST(Error, MessagesAreAsLongAsAPage) {
  const std::string page(4000, 'a');
  EXPECT_EQ(PrintableMessage(page), page);
  EXPECT_EQ(PrintableMessage(page + "b"),
            page.substr(0, 3000) + " ... 501 bytes ... " + page.substr(0, 499) + "b");
  // Two bytes a letter: the one at 2999 stays whole.
  std::string letters = "a";
  while (letters.size() < 4801) letters += "\u00e4";
  EXPECT_EQ(PrintableMessage(letters),
            letters.substr(0, 2999) + " ... 1302 bytes ... " + letters.substr(4301));
  // No character begins anywhere: 2997 of \x80, and 503.
  const std::string bytes = PrintableMessage(std::string(1000000, '\x80'));
  EXPECT_EQ(bytes.find(" ... 996500 bytes ... "), 4 * 2997);
  EXPECT_EQ(bytes.size(), 4 * 2997 + 22 + 4 * 503);
  EXPECT_TRUE(PrintableMessage("\n" + page).starts_with("\\naaa"));
}

TEST(Error, ContextsStandBefore) {
  Error error(ErrorCode::kNotFound, "no such file");
  EXPECT_EQ(Error(error).WithContext("inner").message(), "inner: no such file");
  const auto result =
      WithContext(WithContext(Result<int>(tl::unexpected(error)), "inner"), "outer");
  EXPECT_EQ(result.error().message(), "outer: inner: no such file");
  EXPECT_EQ(result.error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(WithContext(Result<int>(3), "x").value(), 3);
  EXPECT_EQ(Unsupported("{} of {}", 1, 2).value().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(InvalidInput("a").value().code(), ErrorCode::kInvalidInput);
  const std::pair<ErrorCode, const char*> names[] = {
      {ErrorCode::kInvalidInput, "invalid input"},
      {ErrorCode::kUnsupported, "unsupported"},
      {ErrorCode::kNotFound, "not found"},
      {ErrorCode::kIo, "input/output error"},
      {ErrorCode::kTooLarge, "too large"},
      {ErrorCode::kUsage, "usage"},
      {ErrorCode::kConditionFailed, "condition failed"},
      {ErrorCode::kInternal, "internal error"}};
  for (const auto& [code, name] : names) EXPECT_STREQ(ErrorCodeName(code), name);
}

TEST(File, NamesAndFolders) {
  EXPECT_EQ(BaseName("a/b/c.txt"), "c.txt");
  EXPECT_EQ(BaseName("c"), "c");
  EXPECT_EQ(LowerExtension("a/b.d/c.TXT"), ".txt");
  EXPECT_EQ(LowerExtension("a/b.d/c"), "");
  EXPECT_EQ(LowerExtension("a.tar.Gz"), ".gz");
  const auto dir =
      std::filesystem::temp_directory_path() / fmt::format("evoq_files_{}", ::getpid());
  ASSERT_TRUE(MakeDirectories((dir / "b" / "below").string()));
  ASSERT_TRUE(MakeDirectories((dir / "b").string())) << "it is there";
  for (const char* name : {"z", "a", "m.txt", "b/inside"})
    ASSERT_TRUE(WriteFileAtomic((dir / name).string(), ""));
  EXPECT_EQ(ListFiles(dir.string()).value(),
            (std::vector<std::string>{(dir / "a").string(), (dir / "m.txt").string(),
                                      (dir / "z").string()}));
  EXPECT_EQ(ListFiles((dir / "none").string()).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(ListFolders(dir.string()).value(), (std::vector<std::string>{"b"}));
  EXPECT_EQ(ListFilesBelow(dir.string()).value(),
            (std::vector<std::string>{"a", "b/inside", "m.txt", "z"}));
  EXPECT_EQ(ListFolders((dir / "a").string()).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(ListFilesBelow((dir / "none").string()).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(MakeDirectories((dir / "a" / "x").string()).error().code(), ErrorCode::kIo);
  ASSERT_TRUE(MakeParentOf((dir / "p" / "q" / "file").string()));
  EXPECT_TRUE(std::filesystem::is_directory(dir / "p" / "q"));
  EXPECT_FALSE(std::filesystem::exists(dir / "p" / "q" / "file"));
  EXPECT_EQ(MakeParentOf((dir / "a" / "x" / "file").string()).error().code(), ErrorCode::kIo);
  // A bare name needs no folder, also where the working directory is gone.
  const auto before = std::filesystem::current_path();
  std::filesystem::create_directories(dir / "gone");
  std::filesystem::current_path(dir / "gone");
  std::filesystem::remove(dir / "gone");
  EXPECT_TRUE(MakeParentOf("bare"));
  std::filesystem::current_path(before);
  std::filesystem::remove_all(dir);
}

// The variable first, "" being nowhere; then XDG_CACHE_HOME, then HOME, of which an empty one is
// none.
TEST(File, WhereCachesLive) {
  const char* const names[] = {"EVOQ_TEST_CACHE", "XDG_CACHE_HOME", "HOME"};
  std::vector<std::optional<std::string>> before;
  for (const char* name : names)
    before.push_back(std::getenv(name) ? std::optional<std::string>(std::getenv(name))
                                       : std::nullopt);
  const auto path = [&](const char* own, const char* xdg, const char* home) {
    const char* const values[] = {own, xdg, home};
    for (int i = 0; i < 3; ++i)
      values[i] != nullptr ? ::setenv(names[i], values[i], 1) : ::unsetenv(names[i]);
    return CachePath(names[0], "t.json");
  };
  EXPECT_EQ(path("/own/file", "/xdg", "/home/me"), "/own/file");
  EXPECT_EQ(path("", "/xdg", "/home/me"), "");
  EXPECT_EQ(path(nullptr, "/xdg", "/home/me"), "/xdg/evoq/t.json");
  EXPECT_EQ(path(nullptr, "", "/home/me"), "/home/me/.cache/evoq/t.json");
  EXPECT_EQ(path(nullptr, nullptr, "/home/me"), "/home/me/.cache/evoq/t.json");
  EXPECT_EQ(path(nullptr, nullptr, ""), "");
  EXPECT_EQ(path(nullptr, nullptr, nullptr), "");
  for (int i = 0; i < 3; ++i)
    before[i] ? ::setenv(names[i], before[i]->c_str(), 1) : ::unsetenv(names[i]);
}

TEST(Isa, SetsOfFeatures) {
  EXPECT_TRUE(Isa::kAvx512Bf16.Has(Isa::kAvx512));
  EXPECT_TRUE(Isa::kAvx512.Has(Isa::kAvx2));
  EXPECT_TRUE(Isa::kAvx2.Has(Isa::kScalar));
  EXPECT_TRUE(Isa::kAvx2.Has(Isa::kAvx2));
  EXPECT_FALSE(Isa::kAvx2.Has(Isa::kAvx512));
  EXPECT_FALSE(Isa::kScalar.Has(Isa::kAvx2));
  EXPECT_FALSE(Isa::kAvx512.Has(Isa::kAvx512Bf16));
  EXPECT_TRUE(Isa::kAvx2Vnni.Has(Isa::kAvx2));
  EXPECT_FALSE(Isa::kAvx512Bf16.Has(Isa::kAvx2Vnni)) << "another encoding of the same products";
  EXPECT_FALSE(Isa::kAvx2Vnni.Has(Isa::kAvx2VnniEvex));
  EXPECT_FALSE(Isa::kAvx512.Has(Isa::kAvx2VnniEvex)) << "machines with AVX-512 use all of it";
  EXPECT_TRUE(Isa::kAmx.Has(Isa::kAvx512Bf16) && Isa::kAmxSoftware.Has(Isa::kAvx512));
  EXPECT_FALSE(Isa::kAmx.Has(Isa::kAmxSoftware) || Isa::kAmxSoftware.Has(Isa::kAmx));
  EXPECT_TRUE(Isa::kNeonBf16.Has(Isa::kNeonI8mm) && Isa::kNeonI8mm.Has(Isa::kNeonDot) &&
              Isa::kNeonDot.Has(Isa::kNeon));
  // Better ones come first: none is part of one behind it, and plain C++ is part of all.
  const auto all = AllIsas();
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = i + 1; j < all.size(); ++j) EXPECT_FALSE(all[j].Has(all[i])) << i << " " << j;
    EXPECT_EQ(IsaFromName(IsaName(all[i])), all[i]);
  }
  EXPECT_EQ(all.back(), Isa::kScalar);
  for (const Isa isa : all) {
    EXPECT_TRUE(isa.Has(RunnableHere(isa)));
    EXPECT_TRUE(IsaSupported(RunnableHere(isa))) << IsaName(isa);
    if (IsaSupported(isa)) EXPECT_EQ(RunnableHere(isa), isa);
  }
  EXPECT_FALSE(IsaFromName("scalar"));
  EXPECT_FALSE(IsaFromName(""));
  // A set without a name of its own has that of the best one in it.
#if defined(__aarch64__)
  EXPECT_STREQ(IsaName(Isa{Isa::kFeatureNeon | Isa::kFeatureNeonBf16}), "NEON");
#else
  EXPECT_STREQ(IsaName(Isa{Isa::kFeatureAvx2 | Isa::kFeatureAvx512Bf16}), "AVX2");
#endif
  EXPECT_STREQ(IsaName(Isa{1u << 31}), "SCALAR");
}

TEST(Isa, TargetsByName) {
  const char* const before = std::getenv("EVOQ_TARGET");
  const std::optional<std::string> kept =
      before ? std::optional<std::string>(before) : std::nullopt;
  ::setenv("EVOQ_TARGET", "SCALAR", 1);
  EXPECT_EQ(SelectIsa().value(), Isa::kScalar);
#if defined(__aarch64__)
  constexpr char kNames[] = "SCALAR, NEON, NEON_DOT, NEON_I8MM or NEON_BF16";
#else
  constexpr char kNames[] =
      "SCALAR, AVX2, AVX2_VNNI_EVEX, AVX2_VNNI, AVX512, AMX_SOFTWARE, AVX512_BF16 or AMX";
#endif
  for (const char* wrong : {"avx2", "AVX", "SSE", "AVX512_", "neon"}) {
    ::setenv("EVOQ_TARGET", wrong, 1);
    ASSERT_FALSE(SelectIsa()) << wrong;
    EXPECT_EQ(SelectIsa().error().code(), ErrorCode::kUsage);
    EXPECT_EQ(SelectIsa().error().message(),
              fmt::format("EVOQ_TARGET={}: expected {}", wrong, kNames));
  }
  // As the system lists it, under the name of the instructions.
  std::ifstream flags("/proc/cpuinfo");
  std::set<std::string> listed;
  for (std::string word; flags >> word;) listed.insert(word);
  EXPECT_TRUE(listed.contains("processor"));
  EXPECT_EQ(IntelCores(), listed.contains("GenuineIntel"));
  const bool slow_bf16 = listed.contains("GenuineIntel") && listed.contains("avx512_fp16");
  bool found_best = false;
  for (const Isa isa : AllIsas()) {
    ::setenv("EVOQ_TARGET", IsaName(isa), 1);
    EXPECT_EQ(SelectIsa().has_value(), IsaSupported(isa)) << IsaName(isa);
    if (!IsaSupported(isa)) {
      const std::string message = SelectIsa().error().message();  // perhaps with the reason
      EXPECT_TRUE(
          message.starts_with(fmt::format("EVOQ_TARGET={}: this machine ({}) does not have "
                                          "it",
                                          IsaName(isa), CpuName())))
          << message;
      continue;
    }
    EXPECT_EQ(SelectIsa().value(), isa);
    // The best one where none is named, of the processor's own.
    if (found_best || isa.Has(Isa::kAmxSoftware) || (isa == Isa::kAvx512Bf16 && slow_bf16))
      continue;
    found_best = true;
    ::setenv("EVOQ_TARGET", "", 1);
    EXPECT_EQ(SelectIsa().value(), isa);
    ::unsetenv("EVOQ_TARGET");
    EXPECT_EQ(SelectIsa().value(), isa);
  }
  EXPECT_TRUE(found_best) << "every machine runs SCALAR";
  ::unsetenv("EVOQ_TARGET");
  if (kept) ::setenv("EVOQ_TARGET", kept->c_str(), 1);
#if defined(__x86_64__)
  // As the compiler's own library reads the processor.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("f16c");
  EXPECT_EQ(IsaSupported(Isa::kAvx2), avx2);
  EXPECT_EQ(IsaSupported(Isa::kAvx512),
            avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512vnni"));
  EXPECT_EQ(IsaSupported(Isa::kAvx512Bf16),
            IsaSupported(Isa::kAvx512) && __builtin_cpu_supports("avx512bf16"));
  EXPECT_EQ(IsaSupported(Isa::kAvx2VnniEvex),
            avx2 && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni"));
  EXPECT_EQ(IsaSupported(Isa::kAvx2Vnni), avx2 && listed.contains("avx_vnni"));
  const bool amx = listed.contains("amx_tile") && listed.contains("amx_int8") &&
                   listed.contains("amx_bf16") && IsaSupported(Isa::kAvx512Bf16);
  if (!amx) EXPECT_FALSE(IsaSupported(Isa::kAmx));
  if (amx && !IsaSupported(Isa::kAmx)) EXPECT_NE(AmxHere().hindrance, "");
  EXPECT_EQ(IsaSupported(Isa::kAmxSoftware), IsaSupported(Isa::kAvx512));
#endif
  EXPECT_NE(MachineName(AllIsas()[0]), MachineName(Isa::kScalar));
  EXPECT_TRUE(
      MachineName(Isa::kScalar).starts_with(CpuName() + " (" + CoreKind() + "), SCALAR, evoq "))
      << MachineName(Isa::kScalar);
  EXPECT_GE(LargestCacheBytes(), 1 << 15);
  // One of the third level, where the system tells one, is larger than that of the second.
  const auto cache = [](int index) {
    const auto text =
        ReadTextFile(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index));
    return text ? 1024 * std::atoll(text->c_str()) : 0;  // "32768K"
  };
  if (cache(3) > 0) EXPECT_GT(LargestCacheBytes(), cache(2));
}

TEST(Memory, TheSmallerOfMachineAndLimit) {
  const int64_t machine = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  if (limit.rlim_cur == RLIM_INFINITY) EXPECT_EQ(MemoryLimitBytes(), machine);
  EXPECT_TRUE(InChild([&] {
    const rlimit half{static_cast<rlim_t>(machine / 2), RLIM_INFINITY},
        twice{static_cast<rlim_t>(2 * machine), RLIM_INFINITY};
    if (setrlimit(RLIMIT_AS, &half) != 0 || MemoryLimitBytes() != machine / 2) return false;
    if (setrlimit(RLIMIT_AS, &twice) != 0 || MemoryLimitBytes() != machine) return false;
    // No limit, though a number; and less than is used already.
    [[maybe_unused]] const rlimit page{4096, RLIM_INFINITY};
    const rlimit beyond{rlim_t{1} << 63, RLIM_INFINITY};
    if (setrlimit(RLIMIT_AS, &beyond) != 0 || MemoryLimitBytes() != machine) return false;
#ifndef EVOQ_SANITIZED        // whose own memory needs addresses
    (void)FreeMemoryBytes();  // leaves room for reading the same file again
    if (setrlimit(RLIMIT_AS, &page) != 0 || MemoryLimitBytes() != 4096 || FreeMemoryBytes() != 0)
      return false;
#endif
    return true;
  }));
}

TEST(ThreadPool, CoresThatTheProcessMayUse) {
  EXPECT_GE(PhysicalCores(), 1);
  EXPECT_TRUE(InChild([] {
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof(all), &all) != 0 || PhysicalCores() > CPU_COUNT(&all))
      return false;
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (!CPU_ISSET(i, &all)) continue;
      CPU_SET(i, &one);
      break;
    }
    if (sched_setaffinity(0, sizeof(one), &one) != 0) return false;
    return PhysicalCores() == 1 && ThreadPool(0).threads() == 1;
  }));
  EXPECT_EQ(ThreadPool(0).threads(), PhysicalCores());
  EXPECT_EQ(ThreadPool().threads(), PhysicalCores());
  EXPECT_EQ(ThreadPool(-3).threads(), PhysicalCores());
  EXPECT_EQ(ThreadPool(3).threads(), 3);
}

// Every thread begins with its own share of neighbouring pieces, the first threads with one more:
// 10 pieces of 3 for 4 threads are 3, 3, 2 and 2. No thread takes a second piece before all have
// their first.
TEST(ThreadPool, SharesOfNeighbours) {
  ThreadPool pool(4);
  for (const auto& [count, grain, begins] :
       {std::tuple{int64_t{30}, int64_t{3}, std::vector<int64_t>{0, 9, 18, 24}},
        {28, 3, {0, 9, 18, 24}},
        {4, 1, {0, 1, 2, 3}},
        {12, 3, {0, 3, 6, 9}},
        {10, 1, {0, 3, 6, 8}}}) {
    std::vector<std::atomic<int64_t>> first(4);
    for (auto& f : first) f = -1;
    std::atomic<int> inside{0};
    pool.ParallelFor(count, grain, [&](int64_t begin, int64_t end, int thread) {
      EXPECT_LE(end - begin, grain);
      if (first[thread] >= 0) return;
      first[thread] = begin;
      ++inside;
      while (inside < 4) std::this_thread::yield();
    });
    for (size_t t = 0; t < 4; ++t)
      EXPECT_EQ(first[t], begins[t]) << count << " by " << grain << ", thread " << t;
  }
}

// Loops of very many items, of none, and with no grain.
TEST(ThreadPool, LoopsAtTheLimits) {
  constexpr int64_t kMany = int64_t{1} << 61;
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (const auto& [count, grain] :
         {std::pair{kMany, kMany / 2}, {kMany, kMany}, {kMany - 1, kMany / 4}}) {
      std::atomic<uint64_t> items{0};
      std::atomic<int> parts{0};
      pool.ParallelFor(count, grain, [&, count = count](int64_t begin, int64_t end) {
        EXPECT_TRUE(0 <= begin && begin < end && end <= count);
        items += static_cast<uint64_t>(end - begin);
        ++parts;
      });
      EXPECT_EQ(items, static_cast<uint64_t>(count));
    }
    std::atomic<int> calls{0};
    pool.ParallelFor(0, 1, [&](int64_t, int64_t) { ++calls; });
    pool.ParallelFor(-5, 1, [&](int64_t, int64_t) { ++calls; });
    EXPECT_EQ(calls, 0);
    std::atomic<int64_t> items{0};
    pool.ParallelFor(10, 0, [&](int64_t begin, int64_t end) { items += end - begin; });
    EXPECT_EQ(items, 10);
  }
}

}  // namespace
}  // namespace evoq
