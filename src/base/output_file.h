// How a result file comes into its place: whole, or not at all.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace evoq {

// A file descriptor that is closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const { return fd_; }
  // False when the system reports an error of an earlier write.
  bool Close();

 private:
  int fd_;
};

// `path: cannot WHAT: reason` of errno; kNotFound where it is ENOENT, else kIo.
tl::unexpected<Error> SystemError(const std::string& path, const char* what);

// Where writing to a path leads: symbolic links are followed, also one whose target does not exist
// yet. "-" is the standard output.
struct Destination {
  std::string path;     // no symbolic link
  int descriptor = -1;  // of this process: -, /dev/stdout, /dev/fd/3, ...
  bool device = false;  // a device, a pipe or a socket: written to, never replaced
};
// Errors: kIo for a folder and for a loop of links.
Result<Destination> Resolve(const std::string& path);

// A file under way. Until Commit it has no name where the file system can do that (O_TMPFILE), so
// that nothing of it stays however the process ends. Elsewhere, and for the moment of replacing an
// existing file, its name is TemporaryName(); the owner holds a lock (flock) on it, by which later
// writers tell what a dead process left.
class NewFile {
 public:
  enum class Naming { kLate, kAtOnce };
  // `path` is a Destination's. The file gets the mode of the one it replaces, else what the umask
  // leaves of 0666.
  static Result<NewFile> Create(const std::string& path, Naming naming = Naming::kLate);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  // In whole huge pages (base/pages.h); what does not fill one waits for more, or for Commit. A
  // system keeps in one page of its memory what was written at once, if at all, and maps it so: a
  // Zen 4 reads weights up to a sixth faster then.
  Status Write(std::span<const std::byte> bytes);
  // What waits is written too.
  Status Flush();
  int64_t reached() const {
    return reached_;
  }  // so many bytes of what was given to Write are in it
  // Over what Write has put at an offset.
  Status WriteAt(int64_t offset, std::span<const std::byte> bytes);
  int descriptor() const { return fd_.get(); }  // to be mapped
  // Syncs it and puts it in place: afterwards `path` is this file, or what it was before.
  Status Commit();

 private:
  explicit NewFile(std::string path) : path_(std::move(path)) {}
  void StartDisk();
  Status WriteNow(std::span<const std::byte> bytes);
  Status Name();
  Status CreateNamed();

  std::string path_;
  Descriptor fd_;
  int64_t reached_ = 0;
  std::vector<std::byte> waiting_;  // less than a huge page, behind whole ones
  std::string temporary_;           // "": it has no name
  int slot_ = -1;                   // of the names that a signal removes
};

// Whether the standard output gets, or got, a result file (since CheckOutputPath named it): what
// else there is to say does not belong there.
bool StdoutTakesResult();

// All bytes to a descriptor that may be a pipe. False with errno.
bool WriteAll(int fd, std::span<const std::byte> bytes);

// All bytes at an offset of a file. False with errno.
bool WriteAllAt(int fd, int64_t offset, std::span<const std::byte> bytes);

// Bytes of a result that was written: 0 where it went to a device or a pipe.
int64_t WrittenBytes(const std::string& path);

// A fresh name in a folder for a file under way: ".evoq-tmp-", the time, the process and a count.
std::string TemporaryName(const std::string& folder);
// Removes what dead processes left under such names.
void RemoveStale(const std::string& folder);

// From now on SIGINT, SIGTERM and SIGHUP, where they would end the process at once, remove its
// temporary files first.
void EndCleanlyOnSignals();

}  // namespace evoq
