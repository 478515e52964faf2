// Mapped files, each once however often it is opened, and what happens when somebody cuts one short
// while it is mapped: touching a page beyond the file's end raises SIGBUS, which would end the
// process. A handler puts a page of zeros there instead and marks the file as damaged; whoever
// reads the file asks for that mark before results leave evoq (docs/bad-input.md).
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/file.h"
#include "base/output_file.h"
#include "base/pages.h"

namespace evoq {
namespace {

// Which bytes a mapping shows: a file that is written to gets another time.
struct FileState {
  dev_t device;
  ino_t inode;
  off_t size;
  int64_t written_s, written_ns, changed_s, changed_ns;

  explicit FileState(const struct stat& info = {})
      : device(info.st_dev),
        inode(info.st_ino),
        size(info.st_size),
        written_s(info.st_mtim.tv_sec),
        written_ns(info.st_mtim.tv_nsec),
        changed_s(info.st_ctim.tv_sec),
        changed_ns(info.st_ctim.tv_nsec) {}
  bool operator==(const FileState&) const = default;
};

}  // namespace

// A mapping that the handler knows. Entries are used again and never freed: the handler may look at
// one at any time.
struct MappedFile::Range {
  std::atomic<uintptr_t> begin{0}, end{0};  // `begin` 0: free
  std::atomic<int64_t> damaged{0};          // the number of its last damage, from 1 on; 0: whole
  Range* next = nullptr;
  // Not for the handler, under Mutex().
  std::string path;  // by which it was opened first
  FileState state;
  int64_t files = 0;  // that are in use
};

namespace {

std::atomic<MappedFile::Range*> first{nullptr};
std::atomic<int64_t> damages{0};
struct sigaction before;  // what the process did on SIGBUS when the first file was mapped
uintptr_t page_bytes = 4096;

// Whether a process sent it (kill, raise), not an access to memory.
bool IsSent(const siginfo_t* info) { return info->si_code <= 0; }

// What the process would have done without us.
void PassOn(int signal, siginfo_t* info, void* context) {
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {  // whatever the flags say
    if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(signal, info, context);
    return before.sa_handler(signal);
  }
  if (before.sa_handler == SIG_IGN && IsSent(info)) return;
  // The access is repeated when the handler returns, and ends the process; what was sent is sent
  // again.
  ::signal(signal, SIG_DFL);
  if (IsSent(info)) ::raise(signal);
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
// The zeros that the handler maps are a write to the thread sanitizer, and race with whoever reads.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "race:OnBusError\n"; }
#endif
#endif

// Only system calls and lock-free atomics.
extern "C" void OnBusError(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (MappedFile::Range* range = IsSent(info) ? nullptr : first.load(); range != nullptr;
       range = range->next) {
    const uintptr_t begin = range->begin.load(), end = range->end.load();
    if (address < begin || address >= end) continue;
    // All that follows lies beyond the file's end too, and is read at the cost of one signal.
    const uintptr_t page = address & ~(page_bytes - 1);
    void* const zeros = ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (zeros == MAP_FAILED) break;
    range->damaged.store(damages.fetch_add(1) + 1);
    errno = saved;
    return;
  }
  errno = saved;
  PassOn(signal, info, context);
}

void Install() {
  page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction ours = {};
  ours.sa_sigaction = OnBusError;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&ours.sa_mask);
  ::sigaction(SIGBUS, &ours, &before);
}

std::mutex& Mutex() {
  static std::mutex mutex;
  return mutex;
}

struct OpenFile {
  Descriptor fd;
  size_t size;
  bool pipe;
  FileState state;
};

Result<OpenFile> Open(const std::string& path) {
  // Non-blocking, so that nothing waits for a FIFO's writer.
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return SystemError(path, "open");
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return SystemError(path, "stat");
  const bool pipe = S_ISFIFO(info.st_mode);
  if (!pipe && !S_ISREG(info.st_mode)) return InvalidInput("{}: not a regular file", path);
  return OpenFile{std::move(fd), static_cast<size_t>(info.st_size), pipe, FileState(info)};
}

Result<OpenFile> OpenRegular(const std::string& path) {
  EVOQ_ASSIGN(OpenFile open, Open(path));
  if (open.pipe) return InvalidInput("{}: not a regular file", path);
  return open;
}

// What is mapped already in this state and whole. Under Mutex().
MappedFile::Range* FindMapped(const FileState& state) {
  for (MappedFile::Range* range = first.load(); range != nullptr; range = range->next) {
    if (range->files > 0 && range->state == state && range->damaged.load() == 0) return range;
  }
  return nullptr;
}

// One that is free, not yet in use. Under Mutex().
MappedFile::Range* FreeRange() {
  static const bool installed = (Install(), true);
  (void)installed;
  for (MappedFile::Range* range = first.load(); range != nullptr; range = range->next) {
    if (range->files == 0) return range;
  }
  auto* const range = new MappedFile::Range;
  range->next = first.load();
  first.store(range);
  return range;
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  EVOQ_ASSIGN(const OpenFile open, OpenRegular(path));
  // The owner first: whatever throws from here on, nothing stays mapped.
  std::shared_ptr<MappedFile> file(new MappedFile(path));
  if (open.size == 0) return file;
  const std::lock_guard lock(Mutex());
  Range* range = FindMapped(open.state);
  if (range == nullptr) {
    range = FreeRange();
    range->path = path;
    void* const mapped = ::mmap(nullptr, open.size, PROT_READ, MAP_PRIVATE, open.fd.get(), 0);
    if (mapped == MAP_FAILED) return SystemError(path, "map");
    range->state = open.state;
    range->damaged.store(0);
    range->end.store(reinterpret_cast<uintptr_t>(mapped) + open.size);
    range->begin.store(reinterpret_cast<uintptr_t>(mapped));
  }
  ++range->files;
  file->data_ = reinterpret_cast<const std::byte*>(range->begin.load());
  file->size_ = open.size;
  file->range_ = range;
  return file;
}

MappedFile::~MappedFile() {
  if (range_ == nullptr) return;
  const std::lock_guard lock(Mutex());
  if (--range_->files > 0) return;
  // Before its addresses are another file's.
  range_->end.store(0);
  range_->begin.store(0);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

int64_t DamagesSoFar() { return damages.load(std::memory_order_relaxed); }

Status NoDamageSince(int64_t before) {
  if (DamagesSoFar() == before) return {};
  const std::lock_guard lock(Mutex());
  for (const MappedFile::Range* range = first.load(); range != nullptr; range = range->next) {
    if (range->damaged.load() > before)
      return Fail(ErrorCode::kIo, "{}: the file was cut short while evoq read it", range->path);
  }
  return Fail(ErrorCode::kIo, "a file was cut short while evoq read it");
}

Status NoDamagedFileOpen() {
  if (DamagesSoFar() == 0) return {};
  const std::lock_guard lock(Mutex());
  for (const MappedFile::Range* range = first.load(); range != nullptr; range = range->next) {
    if (range->damaged.load() > 0 && range->begin.load() != 0)
      return Fail(ErrorCode::kIo, "{}: the file was cut short: nothing is written from it",
                  range->path);
  }
  return {};
}

bool LiesInDamagedFile(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  for (const MappedFile::Range* range = first.load(); range != nullptr; range = range->next) {
    if (range->damaged.load() > 0 && address >= range->begin.load() && address < range->end.load())
      return true;
  }
  return false;
}

bool LiesInMappedFile(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  for (const MappedFile::Range* range = first.load(); range != nullptr; range = range->next) {
    if (address >= range->begin.load() && address < range->end.load()) return true;
  }
  return false;
}

void MappedFile::ReadsAll() const {
  // Each may be refused: then pages are small, and faults map them.
#ifdef MADV_HUGEPAGE
  if (size_ >= kHugePage) ::madvise(const_cast<std::byte*>(data_), size_, MADV_HUGEPAGE);
#endif
#ifdef MADV_POPULATE_READ
  if (data_ != nullptr) ::madvise(const_cast<std::byte*>(data_), size_, MADV_POPULATE_READ);
#endif
}

namespace {

// Without a mapping: a file that changes meanwhile is read as it is at one moment or another, and
// no signal is raised.
Result<std::string> ReadDescriptor(const std::string& path, int fd, size_t size) {
  std::string text(size, '\0');
  size_t read = 0;
  while (read < size) {
    const ssize_t n = ::read(fd, text.data() + read, size - read);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError(path, "read");
    if (n == 0) break;
    read += static_cast<size_t>(n);
  }
  text.resize(read);
  return text;
}

// To the end of what its writers write.
Result<std::string> ReadPipe(const std::string& path, int fd, size_t max_bytes) {
  if (::fcntl(fd, F_SETFL, 0) != 0) return SystemError(path, "read");  // blocking
  std::string text;
  char piece[1 << 14];
  while (true) {
    const ssize_t n = ::read(fd, piece, sizeof(piece));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError(path, "read");
    if (n == 0) return text;
    text.append(piece, static_cast<size_t>(n));
    if (text.size() > max_bytes)
      return Fail(ErrorCode::kTooLarge, "{}: more than {} bytes", path, max_bytes);
  }
}

}  // namespace

Result<std::string> ReadTextFile(const std::string& path, size_t max_bytes) {
  EVOQ_ASSIGN(const OpenFile open, Open(path));
  if (open.pipe) return ReadPipe(path, open.fd.get(), max_bytes);
  if (open.size > max_bytes)
    return Fail(ErrorCode::kTooLarge, "{}: {} bytes, expected at most {}", path, open.size,
                max_bytes);
  return ReadDescriptor(path, open.fd.get(), open.size);
}

}  // namespace evoq
