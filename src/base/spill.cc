#include "base/spill.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <utility>

#include "base/math.h"
#include "base/output_file.h"
#include "base/pages.h"

namespace evoq {
namespace {

thread_local SpillScope* active = nullptr;

int64_t PageBytes() {
  static const auto bytes = static_cast<int64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

// Where kept bytes are mapped: the end of each range by its beginning.
struct Ranges {
  std::mutex mutex;
  std::map<uintptr_t, uintptr_t> ends;
};
Ranges& Mapped() {
  static Ranges ranges;
  return ranges;
}

bool WriteAt(int fd, std::span<const std::byte> bytes, int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += n;
  }
  return true;
}

// A file that only its descriptor names.
Descriptor Unnamed(const std::string& folder) {
#ifdef O_TMPFILE
  Descriptor fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd.get() >= 0) return fd;
#endif
  const std::string name = TemporaryName(folder);
  Descriptor named(::open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (named.get() >= 0) ::unlink(name.c_str());
  return named;
}

}  // namespace

class SpillScope::File {
 public:
  explicit File(const std::string& folder) : fd_(Unnamed(folder)) {}

  static std::optional<Kept> Keep(const std::shared_ptr<File>& file,
                                  std::span<const std::byte> bytes) {
    const int64_t offset = file->end_;
    const auto size = static_cast<int64_t>(bytes.size());
    // The owner first: whatever goes wrong from here on, the file's space is free again.
    auto owner = std::make_shared<Stretch>(file, offset, size);
    file->end_ += RoundUp(size, PageBytes());
    if (!WriteAt(file->fd_.get(), bytes, offset) || !owner->Map()) return std::nullopt;
    const std::span<const std::byte> kept(owner->data(), bytes.size());
    return Kept{kept, std::move(owner)};
  }

 private:
  // One result in the file, mapped.
  class Stretch {
   public:
    Stretch(std::shared_ptr<File> file, int64_t offset, int64_t size)
        : file_(std::move(file)), offset_(offset), size_(size) {}
    ~Stretch() {
      if (data_ != nullptr) {
        const std::lock_guard lock(Mapped().mutex);
        Mapped().ends.erase(reinterpret_cast<uintptr_t>(data_));
        ::munmap(data_, static_cast<size_t>(size_));
      }
#ifdef FALLOC_FL_PUNCH_HOLE
      // What the disk has not got yet need not be written. Refused: it is when the file is gone.
      (void)::fallocate(file_->fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset_,
                        RoundUp(size_, PageBytes()));
#endif
    }
    Stretch(const Stretch&) = delete;
    Stretch& operator=(const Stretch&) = delete;

    bool Map() {
      const std::lock_guard lock(Mapped().mutex);
      void* const mapped = ::mmap(nullptr, static_cast<size_t>(size_), PROT_READ, MAP_SHARED,
                                  file_->fd_.get(), offset_);
      if (mapped == MAP_FAILED) return false;
      data_ = mapped;
      const auto begin = reinterpret_cast<uintptr_t>(mapped);
      Mapped().ends[begin] = begin + static_cast<uintptr_t>(size_);
      return true;
    }
    const std::byte* data() const { return static_cast<const std::byte*>(data_); }

   private:
    std::shared_ptr<File> file_;
    int64_t offset_, size_;
    void* data_ = nullptr;
  };

  Descriptor fd_;
  int64_t end_ = 0;
};

SpillScope::SpillScope(std::string folder) : folder_(std::move(folder)), outer_(active) {
  active = this;
}
SpillScope::~SpillScope() { active = outer_; }
bool SpillScope::Active() { return active != nullptr; }

std::optional<SpillScope::Kept> SpillScope::Keep(std::span<const std::byte> bytes) {
  if (active == nullptr || bytes.empty()) return std::nullopt;
  if (active->file_ == nullptr) active->file_ = std::make_shared<File>(active->folder_);
  return File::Keep(active->file_, bytes);
}

bool SpillScope::Keeps(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  const std::lock_guard lock(Mapped().mutex);
  const auto after = Mapped().ends.upper_bound(address);
  return after != Mapped().ends.begin() && address < std::prev(after)->second;
}

void ReleasePages(std::span<const std::byte> bytes) {
  if (bytes.empty() || (!LiesInMappedFile(bytes.data()) && !SpillScope::Keeps(bytes.data())))
    return;
  const int64_t page = PageBytes();
  const auto data = static_cast<int64_t>(reinterpret_cast<uintptr_t>(bytes.data()));
  const int64_t begin = RoundUp(data, page),
                end = (data + static_cast<int64_t>(bytes.size())) / page * page;
  if (begin < end)
    ::madvise(reinterpret_cast<void*>(begin), static_cast<size_t>(end - begin), MADV_DONTNEED);
}

}  // namespace evoq
