// Large results that wait until they are written, in a file instead of in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace evoq {

// While it lives, code far below it on this thread may put results aside (Keep) that together are
// larger than the memory: in a file without a name in `folder`, which is made when the first one
// comes and is gone when the last one is, however the process ends. What was kept outlives the
// scope. Of scopes inside of each other the innermost one keeps.
class SpillScope {
 public:
  explicit SpillScope(std::string folder);
  ~SpillScope();
  SpillScope(const SpillScope&) = delete;
  SpillScope& operator=(const SpillScope&) = delete;

  static bool Active();  // whether there is one on this thread

  struct Kept {
    std::span<const std::byte> bytes;  // page-aligned and not writable
    std::shared_ptr<const void> owner;
  };
  // A copy in the file, mapped. Nothing outside of any scope, for no bytes, and where the folder
  // takes no such file or has no room for it: they stay where they are then.
  static std::optional<Kept> Keep(std::span<const std::byte> bytes);
  // Whether this is memory of what some scope keeps.
  static bool Keeps(const void* data);

 private:
  class File;
  std::string folder_;
  std::shared_ptr<File> file_;
  SpillScope* outer_;
};

}  // namespace evoq
