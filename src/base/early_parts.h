// Large parts of a result file that are in it before the rest of it is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/mapped_part.h"
#include "base/output_file.h"
#include "base/thread_scope.h"

namespace evoq {

// While it lives, code far below it on this thread (base/thread_scope.h) may put parts of the file
// `path` in their place as they come: they leave the memory, the disk begins with them, and who
// writes the file at the end (Take) copies none of them. Until then the file has no name (NewFile).
// For one thread at a time.
class EarlyParts {
 public:
  static constexpr int64_t kBegin = 4096;    // where the first part stands
  static constexpr int64_t kAlignment = 64;  // of each part; zeros stand between them

  // Takes nothing where `path` leads to a folder, a device or a pipe.
  explicit EarlyParts(const std::string& path);

  bool Takes() const { return !path_.empty(); }

  class Part;
  // Puts a copy behind the parts before it. Null for no bytes, and where the file cannot be made or
  // has no room: it takes nothing more then.
  std::shared_ptr<const Part> Append(std::span<const std::byte> bytes);
  // The part where it lies in the file, which may outlive the scope. Nothing while its end waits
  // for whole huge pages (NewFile::Write), and when the file has failed.
  std::optional<KeptBytes> Map(const std::shared_ptr<const Part>& part);
  // What waits is written. False when the file has failed.
  bool Flush();

  // What was made of the file at `path`.
  struct Begun {
    NewFile file;   // the next Write goes behind the parts; the front is WriteAt's
    size_t pieces;  // that are in it
    Crc32cSum sum;  // of the bytes since kBegin
  };
  // The file, where its parts, all of them mapped and alive, and the zeros between them are the
  // first of `pieces`, which are to stand from `begin` on. Takes nothing more afterwards.
  std::optional<Begun> Take(const std::string& path, int64_t begin,
                            std::span<const std::span<const std::byte>> pieces);

 private:
  bool Write(std::span<const std::byte> bytes);
  bool Start();
  void GiveUp();
  bool IsDead() const;
  std::optional<size_t> PiecesOf(std::span<const std::span<const std::byte>> pieces) const;

  std::string path_;  // of a Destination; "": it takes nothing (more)
  std::optional<NewFile> file_;
  std::vector<std::shared_ptr<Part>> parts_;
  int64_t end_ = kBegin;
  Crc32cSum sum_;
  ThreadScope<EarlyParts> here_{this};
};

}  // namespace evoq
