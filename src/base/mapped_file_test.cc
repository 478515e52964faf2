// A file that is cut short while it is mapped: the process goes on, and the damage is told.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <numeric>
#include <thread>

#include "base/file.h"
#include "base/json_file.h"
#include "base/test_child.h"
#include "tests/sanitized.h"

namespace evoq {
namespace {

namespace fs = std::filesystem;

// Reads of memory that another process has cut away are no reads of freed memory: each test is a
// process of its own, so that damage of one is not seen by the next.
class MappedFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = (fs::temp_directory_path() / fmt::format("evoq_mapped_{}", ::getpid())).string();
    ASSERT_TRUE(WriteFileAtomic(path_, std::string(kBytes, '\1')));
  }
  void TearDown() override { fs::remove(path_); }

  static int64_t Sum(const MappedFile& file) {
    int64_t sum = 0;
    for (const std::byte b : file.bytes()) sum += static_cast<int64_t>(b);
    return sum;
  }
  static constexpr int64_t kBytes = 50000;
  std::string path_;
};

TEST_F(MappedFileTest, IsMappedOnceWhileItDoesNotChange) {
  EXPECT_EQ(StatusOfChild([&] {
              const auto first = MappedFile::Open(path_).value();
              const std::string link = path_ + ".link";
              fs::create_symlink(path_, link);
              auto second = MappedFile::Open(link).value();
              fs::remove(link);
              if (second->bytes().data() != first->bytes().data()) return false;
              if (second->path() != link) return false;  // errors name what was asked for
              second.reset();
              if (Sum(*first) != kBytes) return false;
              // Written to in place.
              const int fd = ::open(path_.c_str(), O_WRONLY);
              const struct timespec later[2] = {{0, UTIME_OMIT}, {2000000000, 5}};
              if (::pwrite(fd, "\2", 1, 0) != 1 || ::futimens(fd, later) != 0) return false;
              ::close(fd);
              const auto written = MappedFile::Open(path_).value();
              if (written->bytes().data() == first->bytes().data()) return false;
              if (Sum(*written) != kBytes + 1) return false;
              // Another in its place.
              if (!WriteFileAtomic(path_, std::string(kBytes, '\3'))) return false;
              const auto replaced = MappedFile::Open(path_).value();
              return Sum(*replaced) == 3 * kBytes && Sum(*written) == kBytes + 1;
            }),
            0);
}

TEST_F(MappedFileTest, IsMappedByManyAtOnce) {
  EXPECT_EQ(StatusOfChild([&] {
              std::vector<std::thread> threads;
              std::atomic<int> wrong{0};
              for (int t = 0; t < 4; ++t) {
                threads.emplace_back([&] {
                  for (int i = 0; i < 200; ++i)
                    wrong += Sum(*MappedFile::Open(path_).value()) != kBytes;
                });
              }
              for (std::thread& thread : threads) thread.join();
              return wrong == 0;
            }),
            0);
}

TEST_F(MappedFileTest, WhatIsCutAwayReadsAsZerosAndIsDamage) {
  EXPECT_EQ(StatusOfChild([&] {
              const auto file = MappedFile::Open(path_).value();
              const auto other = MappedFile::Open(path_).value();
              if (Sum(*file) != kBytes || DamagesSoFar() != 0 || !NoDamageSince(0)) return false;
              if (::truncate(path_.c_str(), 4096) != 0) return false;
              if (LiesInDamagedFile(file->bytes().data())) return false;  // nobody has read it yet
              if (Sum(*file) != 4096) return false;
              const int64_t damages = DamagesSoFar();
              if (damages < 1 || damages > 2) return false;  // not one for each page
              const Status told = NoDamageSince(0);
              if (told || told.error().code() != ErrorCode::kIo) return false;
              if (told.error().message() != path_ + ": the file was cut short while evoq read it")
                return false;
              if (!NoDamageSince(damages)) return false;
              const std::byte* data = file->bytes().data();
              if (!LiesInDamagedFile(data) || !LiesInDamagedFile(data + kBytes - 1)) return false;
              if (LiesInDamagedFile(data - 1) || LiesInDamagedFile(data + kBytes)) return false;
              if (!LiesInDamagedFile(other->bytes().data())) return false;  // the same bytes
              // What is opened from now on is the file as it is.
              const auto cut = MappedFile::Open(path_).value();
              if (cut->bytes().size() != 4096 || LiesInDamagedFile(cut->bytes().data()))
                return false;
              return Sum(*file) == 4096 && DamagesSoFar() == damages;
            }),
            0);
}

// What was read since a moment names its file, not one that was cut short before it.
TEST_F(MappedFileTest, DamageNamesItsFile) {
  for (const bool swap : {false, true}) {
    EXPECT_EQ(
        StatusOfChild([&] {
          const std::string paths[] = {path_ + (swap ? ".b" : ".a"), path_ + (swap ? ".a" : ".b")};
          std::shared_ptr<const MappedFile> a, b;
          for (const char* name : {".a", ".b"}) {
            if (!WriteFileAtomic(path_ + name, std::string(kBytes, '\1'))) return false;
            (name[1] == 'a' ? a : b) = MappedFile::Open(path_ + name).value();
          }
          bool good = true;
          for (const std::string& path : paths) {
            const int64_t before = DamagesSoFar();
            good &= ::truncate(path.c_str(), 0) == 0 && Sum(path.ends_with('a') ? *a : *b) == 0;
            const Status told = NoDamageSince(before);
            good &= !told && told.error().message().starts_with(path + ": ");
            fs::remove(path);
          }
          return good;
        }),
        0);
  }
}

TEST_F(MappedFileTest, NothingIsWrittenWhileADamagedFileIsOpen) {
  EXPECT_EQ(StatusOfChild([&] {
              const std::string result = path_ + ".result";
              auto file = MappedFile::Open(path_).value();
              if (::truncate(path_.c_str(), 0) != 0 || Sum(*file) != 0) return false;
              const bool refused = !WriteFileAtomic(result, "from zeros") && !fs::exists(result);
              file.reset();
              const bool written = WriteFileAtomic(result, "from something else").has_value();
              fs::remove(result);
              // The next file that is mapped is whole, wherever it lies.
              ::truncate(path_.c_str(), 100);
              const auto next = MappedFile::Open(path_).value();
              return refused && written && !LiesInDamagedFile(next->bytes().data()) &&
                     NoDamagedFileOpen();
            }),
            0);
}

// Several threads in the missing part at once.
TEST_F(MappedFileTest, FromSeveralThreads) {
  EXPECT_EQ(StatusOfChild([&] {
              const auto file = MappedFile::Open(path_).value();
              if (::truncate(path_.c_str(), 8192) != 0) return false;
              std::vector<int64_t> sums(4);
              {
                std::vector<std::jthread> threads;
                for (int64_t& sum : sums) threads.emplace_back([&] { sum = Sum(*file); });
              }
              return std::accumulate(sums.begin(), sums.end(), int64_t{0}) == 4 * 8192 &&
                     DamagesSoFar() > 0;
            }),
            0);
}

// A SIGBUS that is not about our files goes where it went before: to the process's own handler, or
// to its end.
TEST_F(MappedFileTest, OtherBusErrorsAreNotOurs) {
  const auto touch = [&] {
    const int fd = ::open(path_.c_str(), O_RDWR);
    void* own = ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0);
    if (::ftruncate(fd, 0) != 0) ::_exit(3);
    ::_exit(*static_cast<volatile char*>(own));
  };
  const int handled = StatusOfChild([&] {
    ::signal(SIGBUS, [](int) { ::_exit(42); });
    const auto file = MappedFile::Open(path_).value();
    touch();
    return true;
  });
  ASSERT_TRUE(WIFEXITED(handled));
  EXPECT_EQ(WEXITSTATUS(handled), 42);
  ASSERT_TRUE(WriteFileAtomic(path_, std::string(kBytes, '\1')));
  const int informed = StatusOfChild([&] {
    struct sigaction action = {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = [](int, siginfo_t* info, void*) {
      ::_exit(info->si_addr != nullptr ? 43 : 44);
    };
    ::sigaction(SIGBUS, &action, nullptr);
    const auto file = MappedFile::Open(path_).value();
    touch();
    return true;
  });
  EXPECT_EQ(WEXITSTATUS(informed), 43);
  ASSERT_TRUE(WriteFileAtomic(path_, std::string(kBytes, '\1')));
  const int ended = StatusOfChild([&] {
    ::signal(SIGBUS, SIG_DFL);  // sanitizers have one of their own
    const auto file = MappedFile::Open(path_).value();
    touch();
    return true;
  });
  ASSERT_TRUE(WIFSIGNALED(ended));
  EXPECT_EQ(WTERMSIG(ended), SIGBUS);
  // Nor is one in the place of a file that is closed again, one that the process ignores, which
  // would be repeated forever, or one whose default action came with the flag of a handler.
  for (const auto& [handler, flags] :
       {std::pair{SIG_DFL, 0}, {SIG_IGN, 0}, {SIG_DFL, SA_SIGINFO}, {SIG_IGN, SA_SIGINFO}}) {
    ASSERT_TRUE(WriteFileAtomic(path_, std::string(kBytes, '\1')));
    const int closed = StatusOfChild([&, handler = handler, flags = flags] {
      struct sigaction action = {};
      action.sa_handler = handler;
      action.sa_flags = flags;
      ::sigaction(SIGBUS, &action, nullptr);
      MappedFile::Open(path_).value().reset();
      touch();
      return true;
    });
    ASSERT_TRUE(WIFSIGNALED(closed)) << (handler == SIG_IGN) << flags;
    EXPECT_EQ(WTERMSIG(closed), SIGBUS) << (handler == SIG_IGN) << flags;
  }
}

TEST_F(MappedFileTest, WhatIsClosedIsNotMappedAnyMore) {
  EXPECT_EQ(StatusOfChild([&] {
              auto file = MappedFile::Open(path_).value();
              auto* const page = const_cast<std::byte*>(file->bytes().data());
              unsigned char there = 0;
              if (::mincore(page, 4096, &there) != 0) return false;
              file.reset();
              return ::mincore(page, 4096, &there) == -1 && errno == ENOMEM;
            }),
            0);
}

// The entry of a file that is closed serves the next one: the name of what was damaged is gone
// then, the damage is not. The handler leaves errno as it was.
TEST_F(MappedFileTest, DamageOutlivesItsName) {
  EXPECT_EQ(StatusOfChild([&] {
              auto file = MappedFile::Open(path_).value();
              if (::truncate(path_.c_str(), 0) != 0) return false;
              errno = 77;
              if (Sum(*file) != 0 || errno != 77) return false;
              file.reset();
              ::truncate(path_.c_str(), 100);
              file = MappedFile::Open(path_).value();
              const Status told = NoDamageSince(0);
              return !told && told.error().code() == ErrorCode::kIo &&
                     told.error().message() == "a file was cut short while evoq read it";
            }),
            0);
}

TEST_F(MappedFileTest, NoAddressesLeft) {
#ifdef EVOQ_SANITIZED
  GTEST_SKIP() << "whose own memory needs addresses";
#endif
  EXPECT_EQ(StatusOfChild([&] {
              (void)MappedFile::Open(path_ + ".none");  // leaves room for the next error
              const rlimit limit{4096, RLIM_INFINITY};
              if (::setrlimit(RLIMIT_AS, &limit) != 0) return false;
              const auto file = MappedFile::Open(path_);
              return !file && file.error().code() == ErrorCode::kIo &&
                     file.error().message() == path_ + ": cannot map: Cannot allocate memory";
            }),
            0);
}

// One that a process sends is about no access: it ends the process, unless that ignores it.
TEST_F(MappedFileTest, BusErrorsThatAreSent) {
  const int ended = StatusOfChild([&] {
    ::signal(SIGBUS, SIG_DFL);
    const auto file = MappedFile::Open(path_).value();
    ::kill(::getpid(), SIGBUS);
    return true;
  });
  ASSERT_TRUE(WIFSIGNALED(ended));
  EXPECT_EQ(WTERMSIG(ended), SIGBUS);
  EXPECT_EQ(StatusOfChild([&] {
              ::signal(SIGBUS, SIG_IGN);
              const auto file = MappedFile::Open(path_).value();
              ::kill(::getpid(), SIGBUS);
              // Files are watched on.
              return ::truncate(path_.c_str(), 0) == 0 && Sum(*file) == 0 && DamagesSoFar() == 1;
            }),
            0);
}

TEST_F(MappedFileTest, ReplacedByRenamingItStaysWhatItWas) {
  const auto file = MappedFile::Open(path_).value();
  ASSERT_TRUE(WriteFileAtomic(path_, "short"));
  EXPECT_EQ(Sum(*file), kBytes);
  EXPECT_EQ(file->bytes().size(), static_cast<size_t>(kBytes));
  EXPECT_EQ(MappedFile::Open(path_).value()->bytes().size(), 5u);
}

TEST_F(MappedFileTest, EmptyFilesAndOnesThatAreNone) {
  ASSERT_TRUE(WriteFileAtomic(path_, ""));
  const auto empty = MappedFile::Open(path_);
  ASSERT_TRUE(empty);
  EXPECT_TRUE((*empty)->bytes().empty());
  (*empty)->ReadsAll();
  EXPECT_EQ(ReadTextFile(path_).value(), "");
  EXPECT_EQ(MappedFile::Open(path_ + ".none").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(ReadTextFile(path_ + ".none").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(MappedFile::Open("/tmp").error().code(), ErrorCode::kInvalidInput);
  EXPECT_EQ(ReadTextFile("/tmp").error().code(), ErrorCode::kInvalidInput);
  EXPECT_EQ(MappedFile::Open("/dev/zero").error().code(), ErrorCode::kInvalidInput);
}

// As of `--config <(command)`.
TEST_F(MappedFileTest, TextOfAPipe) {
  const std::string text(100000, 'x');  // more than a pipe holds
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::thread writer([&] {
    for (size_t sent = 0; sent < text.size();) {
      const ssize_t n = ::write(ends[1], text.data() + sent, text.size() - sent);
      ASSERT_GT(n, 0);
      sent += static_cast<size_t>(n);
    }
    ::close(ends[1]);
  });
  const std::string path = fmt::format("/dev/fd/{}", ends[0]);
  EXPECT_EQ(ReadTextFile(path), text);
  writer.join();
  EXPECT_EQ(ReadTextFile(path), "");
  EXPECT_FALSE(MappedFile::Open(path));
  ::close(ends[0]);

  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "12345", 5), 5);
  ::close(ends[1]);
  const auto cut = ReadTextFile(fmt::format("/dev/fd/{}", ends[0]), 4);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code(), ErrorCode::kTooLarge);
  EXPECT_EQ(cut.error().message(), fmt::format("/dev/fd/{}: more than 4 bytes", ends[0]));
  ::close(ends[0]);
}

// Nobody is waited for.
TEST_F(MappedFileTest, TextOfAFifoWithoutAWriter) {
  const std::string fifo = path_ + ".fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(ReadTextFile(fifo), "");
  fs::remove(fifo);
}

TEST_F(MappedFileTest, TextUpToALimit) {
  ASSERT_TRUE(WriteFileAtomic(path_, std::string_view("a\0b\n", 4)));
  EXPECT_EQ(ReadTextFile(path_).value(), std::string("a\0b\n", 4));
  EXPECT_EQ(ReadTextFile(path_, 4).value().size(), 4u);
  const auto over = ReadTextFile(path_, 3);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code(), ErrorCode::kTooLarge);
  EXPECT_EQ(over.error().message(), path_ + ": 4 bytes, expected at most 3");
  // 2^30 bytes unless the caller says another limit; a file that has no blocks yet.
  ASSERT_EQ(::truncate(path_.c_str(), (off_t{1} << 30) + 1), 0);
  EXPECT_EQ(ReadTextFile(path_).error().message(),
            path_ + ": 1073741825 bytes, expected at most 1073741824");
  EXPECT_EQ(ReadJsonFile(path_).error().message(),
            path_ + ": 1073741825 bytes, expected at most 1073741824");
  // Files of sysfs say a page and hold less.
  if (const auto cpus = ReadTextFile("/sys/devices/system/cpu/online")) {
    EXPECT_GT(cpus->size(), 1u);
    EXPECT_LT(cpus->size(), 4096u);
    EXPECT_EQ(cpus->back(), '\n');
  }
}

}  // namespace
}  // namespace evoq
