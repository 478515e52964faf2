#include "base/output_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/pages.h"

namespace evoq {
namespace {

constexpr char kPrefix[] = ".evoq-tmp-";
constexpr int kMaxLinks = 40;  // as in the kernel's own walk

std::string FolderOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// The descriptor that a path names by its number, a negative one for other paths.
int DescriptorOf(std::string_view path) {
  if (path == "-" || path == "/dev/stdout") return 1;
  if (path == "/dev/stderr") return 2;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    int number = -1;
    const char* const end = path.data() + path.size();
    if (std::from_chars(path.data() + folder.size(), end, number).ptr == end) return number;
  }
  return -1;
}

// Names that a signal's handler removes. A name is written before its slot is in use, and read only
// by the handler.
struct Slot {
  std::atomic<int> state{0};  // 0: free, 1: being filled, 2: in use
  char path[PATH_MAX];
};
std::array<Slot, 16> slots;

std::atomic<bool> stdout_takes_result{false};

int TakeSlot(const std::string& path) {
  if (path.size() >= PATH_MAX) return -1;
  for (size_t i = 0; i < slots.size(); ++i) {
    int free = 0;
    if (!slots[i].state.compare_exchange_strong(free, 1)) continue;
    std::memcpy(slots[i].path, path.c_str(), path.size() + 1);
    slots[i].state.store(2);
    return static_cast<int>(i);
  }
  return -1;  // so many at once: a later write removes what may stay
}

void FreeSlot(int& slot) {
  if (slot >= 0) slots[static_cast<size_t>(slot)].state.store(0);
  slot = -1;
}

// Only functions that are safe in a signal handler. The default action is back when it runs
// (SA_RESETHAND) and follows.
extern "C" void RemoveAndEnd(int signal) {
  for (Slot& slot : slots) {
    if (slot.state.load() == 2) ::unlink(slot.path);
  }
  ::raise(signal);
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  const int fd = std::exchange(other.fd_, -1);
  Close();
  fd_ = fd;
  return *this;
}

bool Descriptor::Close() {
  if (fd_ < 0) return true;
  return ::close(std::exchange(fd_, -1)) == 0;
}

tl::unexpected<Error> SystemError(const std::string& path, const char* what) {
  const int code = errno;
  return Fail(code == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "{}: cannot {}: {}", path,
              what, std::strerror(code));
}

Result<Destination> Resolve(const std::string& path) {
  Destination to{path};
  for (int links = 0; links <= kMaxLinks; ++links) {
    to.descriptor = DescriptorOf(to.path);
    if (to.descriptor >= 0) return to;
    struct stat info;
    if (::lstat(to.path.c_str(), &info) != 0)
      return to;  // nothing there yet, or what creating it will say
    if (S_ISDIR(info.st_mode))
      return Fail(ErrorCode::kIo, "{}: cannot write: it is a folder", path);
    if (!S_ISLNK(info.st_mode)) {
      to.device = !S_ISREG(info.st_mode);
      return to;
    }
    std::error_code code;
    const std::filesystem::path target = std::filesystem::read_symlink(to.path, code);
    if (code)
      return Fail(ErrorCode::kIo, "{}: cannot follow the link {}: {}", path, to.path,
                  code.message());
    to.path = target.is_absolute()
                  ? target.string()
                  : (std::filesystem::path(to.path).parent_path() / target).string();
  }
  return Fail(ErrorCode::kIo, "{}: cannot write: more than {} symbolic links", path, kMaxLinks);
}

bool StdoutTakesResult() { return stdout_takes_result; }

bool WriteAll(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(n));
      continue;
    }
    if (errno == EAGAIN) {  // another process has made our pipe non-blocking
      pollfd wait{fd, POLLOUT, 0};
      ::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool WriteAllAt(int fd, int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += n;
  }
  return true;
}

int64_t WrittenBytes(const std::string& path) {
  struct stat info;
  const bool file = ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
  return file ? static_cast<int64_t>(info.st_size) : 0;
}

std::string TemporaryName(const std::string& folder) {
  static std::atomic<uint32_t> count{0};
  const auto now =
      static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  return fmt::format("{}/{}{:x}-{:x}-{:x}", folder, kPrefix, now, ::getpid(), count++);
}

void RemoveStale(const std::string& folder) {
  DIR* const entries = ::opendir(folder.c_str());
  if (entries == nullptr) return;
  while (const dirent* entry = ::readdir(entries)) {
    if (std::strncmp(entry->d_name, kPrefix, sizeof(kPrefix) - 1) != 0) continue;
    const Descriptor fd(
        ::openat(::dirfd(entries), entry->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat info;  // fstat refuses what could not be opened
    if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) ::unlinkat(::dirfd(entries), entry->d_name, 0);
  }
  ::closedir(entries);
}

void EndCleanlyOnSignals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction present = {};
    if (::sigaction(signal, nullptr, &present) != 0 || present.sa_handler != SIG_DFL) continue;
    struct sigaction ours = {};
    ours.sa_handler = RemoveAndEnd;
    ours.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(signal, &ours, nullptr);
  }
}

Result<NewFile> NewFile::Create(const std::string& path, Naming naming) {
  NewFile file(path);
  const std::string folder = FolderOf(path);
  RemoveStale(folder);
#ifdef O_TMPFILE
  if (naming == Naming::kLate) {
    file.fd_ = Descriptor(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
    // It gets its name through /proc; without that it has one from the beginning.
    const std::string link = fmt::format("/proc/self/fd/{}", file.fd_.get());
    if (::access(link.c_str(), F_OK) != 0) file.fd_.Close();
  }
#endif
  if (file.fd_.get() < 0) EVOQ_TRY(file.CreateNamed());
  // For the moment that it has a temporary name. Where there are no locks, nobody takes a file for
  // a stale one either.
  (void)::flock(file.fd_.get(), LOCK_EX | LOCK_NB);
  struct stat old;
  if (::stat(path.c_str(), &old) == 0 && ::fchmod(file.fd_.get(), old.st_mode & 0777) != 0)
    return SystemError(path, "set the mode of");
  return file;
}

// A file with a name and, where there are locks, locked before anyone could take it for a stale
// one.
Status NewFile::CreateNamed() {
  for (int attempt = 0; attempt < 100; ++attempt) {
    temporary_ = TemporaryName(FolderOf(path_));
    slot_ = TakeSlot(temporary_);
    fd_ = Descriptor(::open(temporary_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666));
    if (fd_.get() >= 0) {
      const bool swept = ::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
      struct stat info;
      if (!swept && ::fstat(fd_.get(), &info) == 0 && info.st_nlink > 0) return {};
      ::unlink(temporary_.c_str());
    } else if (errno != EEXIST) {
      FreeSlot(slot_);
      temporary_.clear();
      return SystemError(path_, "create a temporary file beside it");
    }
    FreeSlot(slot_);
  }
  temporary_.clear();
  return Fail(ErrorCode::kIo,
              "{}: cannot create a temporary file beside it: other processes remove them", path_);
}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::move(other.fd_)),
      reached_(other.reached_),
      waiting_(std::move(other.waiting_)),
      temporary_(std::exchange(other.temporary_, std::string())),
      slot_(std::exchange(other.slot_, -1)) {}

NewFile::~NewFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  FreeSlot(slot_);
}

Status NewFile::Write(std::span<const std::byte> bytes) {
  constexpr size_t kMost = 4 * kHugePage;  // at once
  while (!bytes.empty()) {
    size_t count;
    if (waiting_.empty() && bytes.size() >= kHugePage) {
      count = std::min(bytes.size() / kHugePage * kHugePage, kMost);
      EVOQ_TRY(WriteNow(bytes.first(count)));
    } else {
      count = std::min(bytes.size(), kHugePage - waiting_.size());
      waiting_.insert(waiting_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
      if (waiting_.size() == kHugePage) {
        EVOQ_TRY(WriteNow(waiting_));
        waiting_.clear();
      }
    }
    bytes = bytes.subspan(count);
  }
  return {};
}

// The disk begins now, so that Commit waits for little. Refused: it begins then.
void NewFile::StartDisk() {
#ifdef SYNC_FILE_RANGE_WRITE
  (void)::sync_file_range(fd_.get(), 0, 0, SYNC_FILE_RANGE_WRITE);
#endif
}

Status NewFile::WriteNow(std::span<const std::byte> bytes) {
  MapPages(bytes);
  if (!WriteAll(fd_.get(), bytes)) return SystemError(path_, "write");
  reached_ += static_cast<int64_t>(bytes.size());
  StartDisk();
  return {};
}

Status NewFile::WriteAt(int64_t offset, std::span<const std::byte> bytes) {
  if (!WriteAllAt(fd_.get(), offset, bytes)) return SystemError(path_, "write");
  StartDisk();
  return {};
}

Status NewFile::Flush() {
  EVOQ_TRY(WriteNow(waiting_));
  waiting_.clear();
  return {};
}

// Gives an unnamed file its place where nothing stands there, else a temporary name.
Status NewFile::Name() {
  const std::string link = fmt::format("/proc/self/fd/{}", fd_.get());
  if (::linkat(AT_FDCWD, link.c_str(), AT_FDCWD, path_.c_str(), AT_SYMLINK_FOLLOW) == 0) return {};
  if (errno != EEXIST) return SystemError(path_, "name a new file");
  const std::string name = TemporaryName(FolderOf(path_));
  slot_ = TakeSlot(name);
  if (::linkat(AT_FDCWD, link.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0)
    return SystemError(path_, "name a new file");
  temporary_ = name;
  return {};
}

Status NewFile::Commit() {
  EVOQ_TRY(Flush());
  if (::fsync(fd_.get()) != 0) return SystemError(path_, "sync");
  if (temporary_.empty()) EVOQ_TRY(Name());
  if (!temporary_.empty() && ::rename(temporary_.c_str(), path_.c_str()) != 0)
    return SystemError(path_, "rename a temporary file to");
  temporary_.clear();
  FreeSlot(slot_);
  if (!fd_.Close()) return SystemError(path_, "close");
  return {};
}

namespace {

// To a device, a pipe or a descriptor: the bytes as they are.
Status WriteThrough(const std::string& path, const Destination& to,
                    std::span<const std::span<const std::byte>> pieces) {
  if (to.descriptor == STDOUT_FILENO) stdout_takes_result = true;
  std::fflush(stdout);  // what was printed before stands before
  Descriptor opened;
  int fd = to.descriptor;
  if (to.device) {
    opened = Descriptor(::open(to.path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
    fd = opened.get();
    if (fd < 0) return SystemError(path, "open");
  }
  for (const auto& piece : pieces) {
    if (!WriteAll(fd, piece)) return SystemError(path, "write");
  }
  if (!opened.Close()) return SystemError(path, "close");
  return {};
}

}  // namespace

Status WriteFileAtomic(const std::string& path,
                       std::span<const std::span<const std::byte>> pieces) {
  EVOQ_TRY(NoDamagedFileOpen());
  EVOQ_ASSIGN(const Destination to, Resolve(path));
  if (to.device || to.descriptor >= 0) return WriteThrough(path, to, pieces);
  EVOQ_ASSIGN(NewFile file, NewFile::Create(to.path));
  for (const auto& piece : pieces) {
    EVOQ_TRY(file.Write(piece));
    ReleasePages(piece);  // all pieces may be more than the memory holds
  }
  return file.Commit();
}

Status WriteFileAtomic(const std::string& path, std::string_view text) {
  const std::span<const std::byte> piece = std::as_bytes(std::span(text.data(), text.size()));
  return WriteFileAtomic(path, std::span(&piece, 1));
}

Status CheckOutputPath(const std::string& path) {
  if (path.empty()) return Fail(ErrorCode::kUsage, "the path of an output is empty");
  EVOQ_ASSIGN(const Destination to, Resolve(path));
  if (to.descriptor >= 0) {
    if (to.descriptor == STDOUT_FILENO) stdout_takes_result = true;
    const int flags = ::fcntl(to.descriptor, F_GETFL);
    if (flags < 0) return SystemError(path, "write");
    if ((flags & O_ACCMODE) == O_RDONLY)
      return Fail(ErrorCode::kIo, "{}: cannot write: it is open for reading only", path);
    return {};
  }
  if (to.device) {
    if (::access(to.path.c_str(), W_OK) != 0) return SystemError(path, "write");
    return {};
  }
  const std::string folder = FolderOf(to.path);
  std::error_code code;
  if (!std::filesystem::is_directory(folder, code))
    return Fail(ErrorCode::kNotFound, "{}: cannot write: there is no folder {}", path, folder);
  if (::access(folder.c_str(), W_OK) != 0) return SystemError(path, "write into its folder");
  return {};
}

}  // namespace evoq
