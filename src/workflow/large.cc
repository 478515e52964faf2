#include "workflow/large.h"

#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

#include <filesystem>

#include "base/memory.h"
#include "base/output_file.h"

namespace evoq {
namespace {

// From this size on the disk's work is worth a start before the rest is done.
constexpr int64_t kEarlyBytes = int64_t{1} << 30;
constexpr int kMappedBytes = 1 << 20;

std::string FolderFor(const std::string& output) {
  std::error_code error;
  const auto to = Resolve(output);
  if (!to || to->device || to->descriptor >= 0)
    return std::filesystem::temp_directory_path(error).string();
  const std::string folder = std::filesystem::path(to->path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

LargeJob::LargeJob(int64_t bytes, const std::string& output) {
  const bool more_than_memory = bytes > FreeMemoryBytes() / 2;
  if (more_than_memory || bytes >= kEarlyBytes) early_.emplace(output);
  if (!more_than_memory) return;
  spill_.emplace(FolderFor(output));
#if defined(__GLIBC__)
  // Weights that come and go, each of its own size, go back to the system. Otherwise the threshold
  // grows with what is freed, and what small results stand between in the heap stays with it.
  ::mallopt(M_MMAP_THRESHOLD, kMappedBytes);
#endif
}

}  // namespace evoq
