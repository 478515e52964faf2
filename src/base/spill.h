// Large results that wait until they are written, in a file instead of in memory.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/mapped_part.h"
#include "base/thread_scope.h"

namespace evoq {

// While it lives, code far below it on this thread (base/thread_scope.h) may put results aside
// (Keep) that together are larger than the memory: in a file without a name in `folder`, which is
// made when the first one comes and is gone when the last one is, however the process ends. What
// was kept outlives the scope. Any thread may keep.
class SpillScope {
 public:
  explicit SpillScope(std::string folder) : folder_(std::move(folder)) {}

  // A copy in the file, mapped, at the beginning of a page. Nothing for no bytes, and where the
  // folder takes no such file or has no room for it: they stay where they are then.
  std::optional<KeptBytes> Keep(std::span<const std::byte> bytes);

 private:
  class File;
  std::string folder_;
  std::mutex mutex_;  // of the file's making
  std::shared_ptr<File> file_;
  ThreadScope<SpillScope> here_{this};
};

}  // namespace evoq
