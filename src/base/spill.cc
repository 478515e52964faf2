#include "base/spill.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "base/mapped_part.h"
#include "base/math.h"
#include "base/output_file.h"
#include "base/pages.h"

namespace evoq {
namespace {

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

  static std::optional<KeptBytes> Keep(const std::shared_ptr<File>& file,
                                       std::span<const std::byte> bytes) {
    // The owner first: whatever goes wrong from here on, the file's space is free again.
    const auto size = static_cast<int64_t>(bytes.size());
    auto owner = std::make_shared<Stretch>(Space(file, size));
    const int64_t offset = owner->space.offset();
    if (!WriteAllAt(file->fd_.get(), offset, bytes) ||
        !owner->part.Map(file->fd_.get(), offset, size))
      return std::nullopt;
    const std::span<const std::byte> kept = owner->part.bytes();
    return KeptBytes{kept, std::move(owner)};
  }

 private:
  // Whole pages at the file's end.
  class Space {
   public:
    Space(std::shared_ptr<File> file, int64_t size)
        : file_(std::move(file)), size_(RoundUp(size, PageBytes())) {
      offset_ = file_->end_.fetch_add(size_);
    }
    Space(Space&&) = default;
    ~Space() {
#ifdef FALLOC_FL_PUNCH_HOLE
      // What the disk has not got yet need not be written. Refused: it is when the file is gone.
      if (file_ != nullptr)
        (void)::fallocate(file_->fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset_,
                          size_);
#endif
    }
    int64_t offset() const { return offset_; }

   private:
    std::shared_ptr<File> file_;
    int64_t size_, offset_;
  };
  struct Stretch {
    explicit Stretch(Space in) : space(std::move(in)) {}
    Space space;
    MappedPart part;  // goes first
  };

  Descriptor fd_;
  std::atomic<int64_t> end_ = 0;
};

std::optional<KeptBytes> SpillScope::Keep(std::span<const std::byte> bytes) {
  if (bytes.empty()) return std::nullopt;
  std::unique_lock lock(mutex_);
  if (file_ == nullptr) file_ = std::make_shared<File>(folder_);
  const std::shared_ptr<File> file = file_;
  lock.unlock();
  return File::Keep(file, bytes);
}

}  // namespace evoq
