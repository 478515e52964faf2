// Files: read whole, mapped read-only, written atomically.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace evoq {

// A file mapped read-only, shared by whoever points into it. The bytes stay valid as long as the object lives, also when
// the file is renamed over meanwhile.
class MappedFile {
 public:
  // Errors: kNotFound, kIo; kInvalidInput when `path` is not a regular file. An empty file maps to an empty span.
  static Result<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  // All of it is read now: its pages are mapped at once, where the system can (Linux 5.14), instead of by a fault for every few.
  void ReadsAll() const;

 private:
  MappedFile(std::string path, const std::byte* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}
  std::string path_;
  const std::byte* data_;
  size_t size_;
};

// The whole file as text. Errors as MappedFile::Open; kTooLarge over `max_bytes`.
Result<std::string> ReadTextFile(const std::string& path, size_t max_bytes = size_t{1} << 30);

// Writes the pieces, one after the other, to a temporary file beside `path`, syncs it and renames it over `path`: either
// the whole new file is there afterwards or the old one is untouched. Errors: kIo, with the system's reason.
Status WriteFileAtomic(const std::string& path, std::span<const std::span<const std::byte>> pieces);
Status WriteFileAtomic(const std::string& path, std::string_view text);

// Whether a file could be written at `path`, asked before long work whose result goes there: its folder exists and may be
// written to, and `path` is no folder itself. Errors: kNotFound, kIo.
Status CheckOutputPath(const std::string& path);

// Makes the directory and its parents where missing. Errors: kIo.
Status MakeDirectories(const std::string& path);

// Where evoq keeps `name` ("tuning.json") from run to run: $VARIABLE where it is set ("": nowhere), else evoq/NAME in $XDG_CACHE_HOME or
// in ~/.cache. "": nowhere.
std::string CachePath(const char* variable, const std::string& name);

// The regular files below `directory` (not below its subdirectories) as full paths, sorted by name.
// Errors: kNotFound when it is not a directory.
Result<std::vector<std::string>> ListFiles(const std::string& directory);

// "a/b/c.txt" -> "c.txt"; lower-cased extension with its dot: ".txt".
std::string BaseName(const std::string& path);
std::string LowerExtension(const std::string& path);

}  // namespace evoq
