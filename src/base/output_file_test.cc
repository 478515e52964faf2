// Result files: what stands in the folder before, meanwhile and afterwards, whatever happens.
#include "base/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/pages.h"
#include "base/test_child.h"

namespace evoq {
namespace {

namespace fs = std::filesystem;

class OutputFile : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() / fmt::format("evoq_output_{}", ::getpid());
    fs::create_directories(dir_);
    path_ = (dir_ / "result").string();
  }
  void TearDown() override { fs::remove_all(dir_); }

  // Names in the folder, sorted.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir_)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string Text(const std::string& name) const {
    return ReadTextFile((dir_ / name).string()).value_or("(none)");
  }
  static Status Put(NewFile& file, std::string_view text) {
    return file.Write(std::as_bytes(std::span(text.data(), text.size())));
  }
  fs::path dir_;
  std::string path_;
};

TEST_F(OutputFile, OnlyACommittedFileHasItsName) {
  for (const auto naming : {NewFile::Naming::kLate, NewFile::Naming::kAtOnce}) {
    {
      auto file = NewFile::Create(path_, naming);
      ASSERT_TRUE(file) << file.error().message();
      ASSERT_TRUE(Put(*file, "not committed"));
      EXPECT_FALSE(fs::exists(path_));
    }
    EXPECT_EQ(Names(), (std::vector<std::string>{})) << "what was not committed is gone";
    for (const char* text : {"first", "second, longer", "3rd"}) {
      auto file = NewFile::Create(path_, naming);
      ASSERT_TRUE(file);
      ASSERT_TRUE(Put(*file, text));
      const Status done = file->Commit();
      ASSERT_TRUE(done) << done.error().message();
      EXPECT_EQ(Text("result"), text);
      EXPECT_EQ(Names(), (std::vector<std::string>{"result"}));
    }
    fs::remove(path_);
  }
}

// Pieces of all sizes around a huge page, and what is read of them.
TEST_F(OutputFile, PiecesAreOneFile) {
  for (const auto naming : {NewFile::Naming::kLate, NewFile::Naming::kAtOnce}) {
    std::string all;
    auto file = NewFile::Create(path_, naming);
    ASSERT_TRUE(file);
    for (const size_t size : {size_t{0}, size_t{1}, kHugePage - 1, kHugePage, size_t{7},
                              2 * kHugePage + 5, kHugePage - 12, 9 * kHugePage + 3, size_t{100}}) {
      std::string piece(size, 'x');
      for (size_t i = 0; i < size; i += 61)
        piece[i] = static_cast<char>('a' + (all.size() + i) % 26);
      ASSERT_TRUE(Put(*file, piece));
      all += piece;
    }
    NewFile moved = std::move(*file);
    ASSERT_TRUE(moved.Commit());
    EXPECT_TRUE(Text("result") == all);
  }
}

// Here the file system must be able to: /tmp is ext4, tmpfs, xfs or btrfs nearly everywhere.
TEST_F(OutputFile, NothingOfAFileUnderWayHasAName) {
  auto file = NewFile::Create(path_);
  ASSERT_TRUE(file);
  ASSERT_TRUE(Put(*file, "text"));
  if (!Names().empty()) GTEST_SKIP() << "no unnamed files in " << dir_;
  // Another process, killed in the middle of its write.
  const int status = StatusOfChild([&] {
    auto other = NewFile::Create(path_);
    (void)Put(*other, "half");
    ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_TRUE(Names().empty());
}

TEST_F(OutputFile, WhatADeadProcessLeftIsSweptAndWhatALivingOneWritesIsNot) {
  auto living = NewFile::Create((dir_ / "living").string(), NewFile::Naming::kAtOnce);
  ASSERT_TRUE(living);
  for (int i = 0; i < 3; ++i) {
    StatusOfChild([&] {
      auto other = NewFile::Create((dir_ / "dead").string(), NewFile::Naming::kAtOnce);
      (void)Put(*other, "half");
      ::kill(::getpid(), SIGKILL);
    });
  }
  EXPECT_GE(Names().size(), 2u);
  // Not ours by its name, or no file.
  ASSERT_TRUE(WriteFileAtomic((dir_ / ".evoq-other").string(), "mine"));
  ASSERT_TRUE(WriteFileAtomic((dir_ / ".evoq-tmp.mine").string(), "mine"));
  ASSERT_EQ(::mkfifo((dir_ / ".evoq-tmp-pipe").c_str(), 0600), 0);
  fs::create_symlink(".evoq-other", dir_ / ".evoq-tmp-link");
  ASSERT_TRUE(WriteFileAtomic(path_, "whole"));
  for (const char* name : {".evoq-tmp.mine", ".evoq-tmp-pipe", ".evoq-tmp-link"})
    EXPECT_TRUE(fs::remove(dir_ / name)) << name;
  const auto names = Names();
  ASSERT_EQ(names.size(), 3u) << "the living one's, .evoq-other, result";
  EXPECT_EQ(names[0], ".evoq-other");
  EXPECT_TRUE(names[1].starts_with(".evoq-tmp-"));
  EXPECT_EQ(names[2], "result");
  ASSERT_TRUE(Put(*living, "whole too"));
  ASSERT_TRUE(living->Commit());
  EXPECT_EQ(Text("living"), "whole too");
  EXPECT_EQ(Names(), (std::vector<std::string>{".evoq-other", "living", "result"}));
}

TEST_F(OutputFile, SignalsRemoveTemporaryFiles) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const int status = StatusOfChild([&] {
      ::signal(signal, SIG_DFL);  // a shell's background jobs ignore SIGINT
      EndCleanlyOnSignals();
      auto file = NewFile::Create(path_, NewFile::Naming::kAtOnce);
      auto other = NewFile::Create(path_, NewFile::Naming::kAtOnce);
      (void)Put(*file, "half");
      ::raise(signal);
    });
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), signal) << "the process ends as without the handler";
    EXPECT_TRUE(Names().empty()) << signal;
  }
  // What is ignored or handled by others stays so.
  const int status = StatusOfChild([&] {
    ::signal(SIGHUP, SIG_IGN);
    ::signal(SIGTERM, [](int) { ::_exit(7); });
    EndCleanlyOnSignals();
    ::raise(SIGHUP);
    ::raise(SIGTERM);
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

// 16 names at once, of any length; places that were given back serve again, and a file that has
// ended gives back no place of another.
TEST_F(OutputFile, SignalsRemoveSixteenNames) {
  const fs::path deep = dir_ / std::string(200, 'd');
  fs::create_directories(deep);
  std::string too_long = "/tmp/";
  while (too_long.size() < 5000) too_long += "./";
  for (const size_t count : {16, 17}) {
    const int status = StatusOfChild([&] {
      constexpr auto kAtOnce = NewFile::Naming::kAtOnce;
      ::signal(SIGTERM, SIG_DFL);
      EndCleanlyOnSignals();
      if (NewFile::Create(too_long + "x", kAtOnce)) ::_exit(1);
      (void)NewFile::Create((deep / "x").string(), kAtOnce);
      auto ended =
          std::make_unique<Result<NewFile>>(NewFile::Create((dir_ / "ended").string(), kAtOnce));
      if (!(*ended)->Commit()) ::_exit(2);
      std::vector<Result<NewFile>> files;
      for (size_t i = 0; i < count; ++i) files.push_back(NewFile::Create(path_, kAtOnce));
      ended.reset();
      ::raise(SIGTERM);
    });
    EXPECT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
    EXPECT_EQ(Names().size(), 2 + count - 16) << "the folder, `ended` and what was too many";
    RemoveStale(dir_.string());
    EXPECT_EQ(Names().size(), 2u);
  }
}

TEST_F(OutputFile, AFullDiskLeavesTheOldFile) {
  ASSERT_TRUE(WriteFileAtomic(path_, "old"));
  for (const auto naming : {NewFile::Naming::kLate, NewFile::Naming::kAtOnce}) {
    const int status = StatusOfChild([&] {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{100, 100};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      const auto fails = [&](const Status& done) {
        return !done && done.error().message().find(path_ + ": cannot write: ") == 0;
      };
      auto file = NewFile::Create(path_, naming);
      // Of many bytes Write says so, of few Commit.
      const bool many = fails(Put(*file, std::string(3 << 20, 'x')));
      file->~NewFile();
      auto next = NewFile::Create(path_, naming);
      const bool few = Put(*next, std::string(1000, 'x')) && fails(next->Commit());
      next->~NewFile();
      ::_exit(many && few ? 9 : 1);
    });
    EXPECT_EQ(WEXITSTATUS(status), 9);
    EXPECT_EQ(Text("result"), "old");
    EXPECT_EQ(Names(), (std::vector<std::string>{"result"}));
  }
}

// What happens to the folder meanwhile: it goes, or a folder takes the file's place.
TEST_F(OutputFile, PlacesThatAreGoneAtTheEnd) {
  for (const auto naming : {NewFile::Naming::kLate, NewFile::Naming::kAtOnce}) {
    const fs::path folder = dir_ / "going";
    fs::create_directories(folder);
    auto lost = NewFile::Create((folder / "x").string(), naming);
    ASSERT_TRUE(lost);
    fs::remove_all(folder);
    const Status gone = lost->Commit();
    ASSERT_FALSE(gone);
    EXPECT_EQ(gone.error().code(), ErrorCode::kNotFound);
    EXPECT_EQ(gone.error().message().find((folder / "x").string() + ": cannot "), 0u);
    auto late = NewFile::Create(path_, naming);
    ASSERT_TRUE(late);
    fs::create_directories(path_);
    const Status taken = late->Commit();
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().message(),
              path_ + ": cannot rename a temporary file to: Is a directory");
    {
      const NewFile ended = std::move(*late);
    }
    EXPECT_EQ(Names(), (std::vector<std::string>{"result"})) << "no temporary name stays";
    fs::remove(path_);
  }
}

TEST_F(OutputFile, DescriptorsEndWithTheirOwner) {
  const auto open = [&] { return Descriptor(::open(dir_.c_str(), O_RDONLY | O_CLOEXEC)); };
  const auto is_open = [](int fd) { return ::fcntl(fd, F_GETFD) >= 0; };
  Descriptor a = open(), b = open();
  const int first = a.get(), second = b.get();
  a = std::move(b);
  EXPECT_FALSE(is_open(first));
  EXPECT_EQ(a.get(), second);
  Descriptor& same = a;
  a = std::move(same);
  EXPECT_EQ(a.get(), second);
  EXPECT_TRUE(is_open(second));
  EXPECT_TRUE(a.Close());
  EXPECT_FALSE(is_open(second));
  EXPECT_TRUE(a.Close()) << "there is nothing to close";
  EXPECT_FALSE(Descriptor(second).Close()) << "it is closed already";
  EXPECT_TRUE(InChild([&] {  // 0 is a number like all others
    ::close(0);
    Descriptor zero = open();
    return zero.get() == 0 && zero.Close() && !is_open(0);
  }));
}

// A pipe that another process has made non-blocking, and whose reader is slower.
TEST_F(OutputFile, AllIsWrittenToAFullPipe) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
  std::string text, read;
  for (int i = 0; i < 100000; ++i) text += fmt::format("{},", i);
  std::thread reader([&] {
    ::fcntl(ends[0], F_SETFL, 0);
    char part[1000];
    for (ssize_t n; (n = ::read(ends[0], part, sizeof(part))) > 0;) read.append(part, n);
  });
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  EXPECT_TRUE(WriteAll(ends[1], bytes));
  ::close(ends[1]);
  reader.join();
  ::close(ends[0]);
  EXPECT_EQ(read, text);
  EXPECT_FALSE(WriteAll(-1, bytes));
}

TEST_F(OutputFile, BytesThatWereWritten) {
  ASSERT_TRUE(WriteFileAtomic(path_, "12345"));
  fs::create_symlink("result", dir_ / "link");
  ASSERT_EQ(::mkfifo((dir_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(WrittenBytes(path_), 5);
  EXPECT_EQ(WrittenBytes((dir_ / "link").string()), 5);
  for (const char* name : {"pipe", "none", "."}) EXPECT_EQ(WrittenBytes((dir_ / name).string()), 0);
}

TEST_F(OutputFile, ModesAreTheOldFilesOrTheUmasks) {
  const auto mode = [&] {
    struct stat info;
    EXPECT_EQ(::stat(path_.c_str(), &info), 0);
    return static_cast<int>(info.st_mode & 07777);
  };
  for (const auto naming : {NewFile::Naming::kLate, NewFile::Naming::kAtOnce}) {
    const mode_t before = ::umask(027);
    auto file = NewFile::Create(path_, naming);
    ::umask(before);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->Commit());
    EXPECT_EQ(mode(), 0640);
    ::chmod(path_.c_str(), 0604);
    auto next = NewFile::Create(path_, naming);
    ASSERT_TRUE(next);
    ASSERT_TRUE(next->Commit());
    EXPECT_EQ(mode(), 0604);
    fs::remove(path_);
  }
}

TEST_F(OutputFile, LinksAreFollowed) {
  fs::create_directories(dir_ / "deep");
  const fs::path target = dir_ / "deep" / "target";
  fs::create_symlink("deep/target", path_);  // relative, and to nothing yet
  fs::create_symlink(path_, dir_ / "second");
  for (const char* text : {"made", "replaced"}) {
    ASSERT_TRUE(CheckOutputPath((dir_ / "second").string()));
    const Status written = WriteFileAtomic((dir_ / "second").string(), text);
    ASSERT_TRUE(written) << written.error().message();
    EXPECT_TRUE(fs::is_symlink(path_));
    EXPECT_TRUE(fs::is_symlink(dir_ / "second"));
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(target)));
    EXPECT_EQ(Text("deep/target"), text);
  }
  EXPECT_EQ(Names(), (std::vector<std::string>{"deep", "result", "second"}));
  fs::create_symlink("loop", dir_ / "loop");
  for (const char* bad : {"loop", "deep"}) {
    EXPECT_FALSE(CheckOutputPath((dir_ / bad).string())) << bad;
    EXPECT_FALSE(WriteFileAtomic((dir_ / bad).string(), "x")) << bad;
  }
  // A chain of 40 links, as long as the kernel follows, and one of 41.
  for (int i = 1; i <= 41; ++i)
    fs::create_symlink(fmt::format("chain{}", i - 1), dir_ / fmt::format("chain{}", i));
  EXPECT_EQ(Resolve((dir_ / "chain40").string())->path, (dir_ / "chain0").string());
  const auto longer = Resolve((dir_ / "chain41").string());
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().message(),
            (dir_ / "chain41").string() + ": cannot write: more than 40 symbolic links");
  // A link that may not be read, where process 1 is another user's.
  EXPECT_TRUE(InChild([] {
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return false;
    char target[16];
    if (::readlink("/proc/1/exe", target, sizeof(target)) >= 0) return true;
    const auto hidden = Resolve("/proc/1/exe");
    return !hidden && hidden.error().code() == ErrorCode::kIo;
  }));
  fs::create_symlink("deep", dir_ / "folder");
  EXPECT_FALSE(WriteFileAtomic((dir_ / "folder").string(), "x"));
  EXPECT_TRUE(fs::is_symlink(dir_ / "folder"));
}

// Root gets devices of its own: a fault here must not cost the machine its /dev/null.
TEST_F(OutputFile, DevicesAndPipesAreWrittenTo) {
  std::string null = "/dev/null", full = "/dev/full";
  if (::geteuid() == 0) {
    null = (dir_ / "null").string();
    full = (dir_ / "full").string();
    ASSERT_EQ(::mknod(null.c_str(), S_IFCHR | 0666, ::makedev(1, 3)), 0);
    ASSERT_EQ(::mknod(full.c_str(), S_IFCHR | 0666, ::makedev(1, 7)), 0);
  }
  if (Descriptor(::open(full.c_str(), O_WRONLY)).get() < 0) GTEST_SKIP() << "no devices here";
  ASSERT_TRUE(CheckOutputPath(null));
  ASSERT_TRUE(WriteFileAtomic(null, "text"));
  EXPECT_TRUE(fs::is_character_file(null));
  const Status written = WriteFileAtomic(full, "text");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message(), full + ": cannot write: No space left on device");
  // A FIFO, and a link to it.
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  fs::create_symlink("result", dir_ / "link");
  for (const char* name : {"result", "link"}) {
    ASSERT_TRUE(CheckOutputPath((dir_ / name).string())) << "without waiting for a reader";
    std::string read;
    std::thread reader([&] {
      const Descriptor fd(::open(path_.c_str(), O_RDONLY));
      char part[16];
      for (ssize_t n; (n = ::read(fd.get(), part, sizeof(part))) > 0;) read.append(part, n);
    });
    EXPECT_TRUE(WriteFileAtomic((dir_ / name).string(), "through the pipe, in pieces"));
    reader.join();
    EXPECT_EQ(read, "through the pipe, in pieces");
    EXPECT_TRUE(fs::is_fifo(path_));
  }
  // One that may not be written to; root may.
  EXPECT_TRUE(InChild([&] {
    ::chmod(path_.c_str(), 0);
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return false;
    const Status checked = CheckOutputPath(path_), refused = WriteFileAtomic(path_, "x");
    return !checked && !refused && checked.error().code() == ErrorCode::kIo &&
           refused.error().message() == path_ + ": cannot open: Permission denied";
  }));
}

// /dev/fd/N continues where this process writes, and is no new opening of the file.
TEST_F(OutputFile, DescriptorsByNumber) {
  {
    const Descriptor fd(::open(path_.c_str(), O_CREAT | O_WRONLY, 0600));
    ASSERT_EQ(::write(fd.get(), "before ", 7), 7);
    for (const char* folder : {"/dev/fd/", "/proc/self/fd/"}) {
      const std::string name = fmt::format("{}{}", folder, fd.get());
      ASSERT_TRUE(CheckOutputPath(name));
      ASSERT_TRUE(WriteFileAtomic(name, "then "));
    }
    ASSERT_EQ(::write(fd.get(), "after", 5), 5);
  }
  EXPECT_EQ(Text("result"), "before then then after");
  const Descriptor read_only(::open(path_.c_str(), O_RDONLY));
  EXPECT_FALSE(CheckOutputPath(fmt::format("/dev/fd/{}", read_only.get())));
  EXPECT_FALSE(WriteFileAtomic(fmt::format("/dev/fd/{}", read_only.get()), "x"));
  EXPECT_FALSE(CheckOutputPath("/dev/fd/987"));
  EXPECT_FALSE(WriteFileAtomic("/dev/fd/987", "x"));
  EXPECT_FALSE(WriteFileAtomic("/dev/fd/1x", "x"));
  EXPECT_TRUE(Resolve("/dev/stdout")->descriptor == 1 && Resolve("/dev/stderr")->descriptor == 2);
  EXPECT_EQ(Resolve("/dev/fd/0")->descriptor, 0);
  for (const char* none : {"/dev/fd/99999999999", "/dev/fd/-3", "/dev/fdx"})
    EXPECT_LT(Resolve(none)->descriptor, 0) << none;
  EXPECT_FALSE(Resolve("/dev/fd/")) << "a folder";
  fs::create_symlink("/dev/stdout", dir_ / "out");
  EXPECT_EQ(Resolve((dir_ / "out").string())->descriptor, 1);
}

TEST_F(OutputFile, PathsThatCannotBeWritten) {
  EXPECT_EQ(CheckOutputPath("").error().code(), ErrorCode::kUsage);
  const std::string nowhere = (dir_ / "none" / "x").string();
  EXPECT_EQ(CheckOutputPath(nowhere).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(WriteFileAtomic(nowhere, "x").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(CheckOutputPath(dir_.string()).error().code(), ErrorCode::kIo);
  EXPECT_TRUE(CheckOutputPath("in_this_folder"));
  ASSERT_TRUE(WriteFileAtomic(path_, "a file"));
  EXPECT_FALSE(CheckOutputPath(path_ + "/below"));
  EXPECT_FALSE(WriteFileAtomic(path_ + "/below", "x"));
  // A folder that may not be written to; root may.
  const int status = StatusOfChild([&] {
    ::chmod(dir_.c_str(), 0555);
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
    const bool refused = !CheckOutputPath(path_) && !WriteFileAtomic(path_, "x");
    ::_exit(refused ? 9 : 1);
  });
  EXPECT_EQ(WEXITSTATUS(status), 9);
  ::chmod(dir_.c_str(), 0755);
  EXPECT_EQ(Text("result"), "a file");
}

TEST_F(OutputFile, ManyWritersOfOneFile) {
  std::vector<std::thread> writers;
  for (int w = 0; w < 4; ++w) {
    writers.emplace_back([&, w] {
      const std::string text(1000 + w, static_cast<char>('a' + w));
      for (int i = 0; i < 25; ++i) EXPECT_TRUE(WriteFileAtomic(path_, text));
    });
  }
  for (int i = 0; i < 100; ++i) {
    const auto text = ReadTextFile(path_);
    if (!text) continue;  // none yet
    ASSERT_GE(text->size(), 1000u);
    EXPECT_EQ(*text, std::string(1000 + (*text)[0] - 'a', (*text)[0])) << "one writer's, whole";
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(Names(), (std::vector<std::string>{"result"}));
}

}  // namespace
}  // namespace evoq
