#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

namespace evoq {
namespace {

tl::unexpected<Error> SystemError(const std::string& path, const char* what) {
  const int code = errno;
  return Fail(code == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "{}: cannot {}: {}", path, what,
              std::strerror(code));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool Close() {
    if (fd_ < 0) return true;
    const bool ok = ::close(fd_) == 0;
    fd_ = -1;
    return ok;
  }

 private:
  int fd_;
};

bool WriteAll(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  // Non-blocking, so that a FIFO is refused below instead of waiting for a writer.
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return SystemError(path, "open");
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return SystemError(path, "stat");
  if (!S_ISREG(info.st_mode)) return InvalidInput("{}: not a regular file", path);
  const size_t size = static_cast<size_t>(info.st_size);
  const std::byte* data = nullptr;
  if (size > 0) {
    void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (mapped == MAP_FAILED) return SystemError(path, "map");
    data = static_cast<const std::byte*>(mapped);
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(path, data, size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::ReadsAll() const {
#ifdef MADV_POPULATE_READ
  if (data_ != nullptr) ::madvise(const_cast<std::byte*>(data_), size_, MADV_POPULATE_READ);  // refused: faults map them
#endif
}

Result<std::string> ReadTextFile(const std::string& path, size_t max_bytes) {
  EVOQ_ASSIGN(auto file, MappedFile::Open(path));
  const auto bytes = file->bytes();
  if (bytes.size() > max_bytes)
    return Fail(ErrorCode::kTooLarge, "{}: {} bytes, expected at most {}", path, bytes.size(), max_bytes);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Status WriteFileAtomic(const std::string& path, std::span<const std::span<const std::byte>> pieces) {
  std::string temporary = path + ".tmp-XXXXXX";
  Descriptor fd(::mkstemp(temporary.data()));
  if (fd.get() < 0) return SystemError(path, "create a temporary file beside it");
  const auto fail = [&](const char* what) -> Status {
    auto error = SystemError(path, what);
    ::unlink(temporary.c_str());
    return error;
  };
  for (const auto& piece : pieces) {
    if (!WriteAll(fd.get(), piece)) return fail("write");
  }
  // mkstemp gives 0600; a result file gets what the user's umask gives any other file.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if (::fchmod(fd.get(), 0666 & ~mask) != 0) return fail("set the mode of");
  if (::fsync(fd.get()) != 0) return fail("sync");
  if (!fd.Close()) return fail("close");
  if (::rename(temporary.c_str(), path.c_str()) != 0) return fail("rename a temporary file to");
  return {};
}

Status WriteFileAtomic(const std::string& path, std::string_view text) {
  const std::span<const std::byte> piece = std::as_bytes(std::span(text.data(), text.size()));
  return WriteFileAtomic(path, std::span(&piece, 1));
}

Status CheckOutputPath(const std::string& path) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) return Fail(ErrorCode::kIo, "{}: cannot write: it is a folder", path);
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  if (!std::filesystem::is_directory(folder, code))
    return Fail(ErrorCode::kNotFound, "{}: cannot write: there is no folder {}", path, folder);
  if (::access(folder.c_str(), W_OK) != 0) return SystemError(path, "write into its folder");
  return {};
}

Status MakeDirectories(const std::string& path) {
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (code) return Fail(ErrorCode::kIo, "{}: cannot make the directory: {}", path, code.message());
  return {};
}

std::string CachePath(const char* variable, const std::string& name) {
  if (const char* path = std::getenv(variable)) return path;
  for (const auto& [folder, below] : {std::pair("XDG_CACHE_HOME", "/evoq/"), std::pair("HOME", "/.cache/evoq/")}) {
    const char* value = std::getenv(folder);
    if (value != nullptr && *value != 0) return value + (below + name);
  }
  return "";
}

Result<std::vector<std::string>> ListFiles(const std::string& directory) {
  std::error_code code;
  std::filesystem::directory_iterator entries(directory, code);
  if (code) return Fail(ErrorCode::kNotFound, "{}: cannot list the directory: {}", directory, code.message());
  std::vector<std::string> files;
  for (const auto& entry : entries) {
    if (entry.is_regular_file(code)) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string BaseName(const std::string& path) { return std::filesystem::path(path).filename().string(); }

std::string LowerExtension(const std::string& path) {
  std::string extension = std::filesystem::path(path).extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(), [](unsigned char c) { return std::tolower(c); });
  return extension;
}

}  // namespace evoq
