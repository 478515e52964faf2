// Files: read whole, mapped read-only, written atomically.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace evoq {

// A file mapped read-only, shared by whoever points into it. The bytes stay valid as long as the
// object lives, also when the file is renamed over meanwhile. Opened again while it is mapped and
// unchanged since, its bytes lie at the same place. When it is cut short in place, what
// is missing reads as zeros and counts as damage below; the process goes on. (The first file mapped
// installs a handler for SIGBUS, which passes on what is not evoq's.)
class MappedFile {
 public:
  // Errors: kNotFound, kIo; kInvalidInput when `path` is not a regular file. An empty file maps to
  // an empty span.
  static Result<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  // All of it is read now: its pages are mapped at once, where the system can (Linux 5.14), instead
  // of by a fault for every few; from the disk, huge ones (base/pages.h) where the file system has
  // them.
  void ReadsAll() const;

  struct Range;  // what the handler knows of a mapping

 private:
  explicit MappedFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  Range* range_ = nullptr;
};

// How often missing bytes of a mapped file were read in this process. Costs one load: asked after
// each run.
int64_t DamagesSoFar();
// Errors: kIo, naming the file, when DamagesSoFar() is not `before` any more: what was read since
// may be zeros.
Status NoDamageSince(int64_t before);
// Errors: kIo, naming one, while files that are mapped now are damaged.
Status NoDamagedFileOpen();
// Whether this is memory of a mapped file that is damaged.
bool LiesInDamagedFile(const void* data);

// The whole file as text; a pipe, as of `<(command)`, to its end. Errors as MappedFile::Open;
// kTooLarge over `max_bytes`.
Result<std::string> ReadTextFile(const std::string& path, size_t max_bytes = size_t{1} << 30);

// Writes the pieces, one after the other, to a new file, syncs it and puts it in the place of
// `path`: either the whole new file is there afterwards or the old one is untouched, also when the
// process ends meanwhile, and nothing else stays in the folder (output_file.h). A symbolic link is
// followed: what it points to is replaced. A device, a pipe and /dev/stdout are written to. Nothing
// is written while a mapped file is damaged: the result may come from it. Errors: kIo, kNotFound,
// with the system's reason.
Status WriteFileAtomic(const std::string& path, std::span<const std::span<const std::byte>> pieces);
Status WriteFileAtomic(const std::string& path, std::string_view text);

// Whether WriteFileAtomic could write to `path`, asked before long work whose result goes there.
// Errors: kNotFound when its folder does not exist; kIo when that or the device may not be written
// to, or `path` is a folder; kUsage when it is empty.
Status CheckOutputPath(const std::string& path);

// Makes the directory and its parents where missing. Errors: kIo.
Status MakeDirectories(const std::string& path);
// Makes the folder that `path` lies in: nothing for a bare name, which lies in the working
// directory. Errors: kIo.
Status MakeParentOf(const std::string& path);

// Where evoq keeps `name` ("tuning.json") from run to run: $VARIABLE where it is set ("": nowhere),
// else evoq/NAME in $XDG_CACHE_HOME or in ~/.cache. "": nowhere.
std::string CachePath(const char* variable, const std::string& name);

// The regular files below `directory` (not below its subdirectories) as full paths, sorted by name.
// Errors: kNotFound when it is not a directory.
Result<std::vector<std::string>> ListFiles(const std::string& directory);
// The names of its subdirectories, sorted. Errors: kNotFound when it is not a directory.
Result<std::vector<std::string>> ListFolders(const std::string& directory);
// The regular files in it and in its subdirectories at any depth, not behind links, as sorted paths
// from there ("a/b.png"). Errors: kNotFound when a directory cannot be listed.
Result<std::vector<std::string>> ListFilesBelow(const std::string& directory);

// "a/b/c.txt" -> "c.txt"; lower-cased extension with its dot: ".txt".
std::string BaseName(const std::string& path);
std::string LowerExtension(const std::string& path);

}  // namespace evoq
