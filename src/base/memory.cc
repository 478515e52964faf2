#include "base/memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>

namespace evoq {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

int64_t PageBytes() { return sysconf(_SC_PAGESIZE); }

// kMost: unlimited.
int64_t Limit(int resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kMost;
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, kMost));
}

int64_t MachineBytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? int64_t{pages} * PageBytes() : kMost;
}

}  // namespace

int64_t MemoryLimitBytes() {
  return std::min({MachineBytes(), Limit(RLIMIT_AS), Limit(RLIMIT_DATA)});
}

int64_t FreeMemoryBytes() {
  long size = 0, resident = 0, data = 0;  // in pages
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld %*d %*d %*d %ld", &size, &resident, &data) != 3)
      size = resident = data = 0;
    std::fclose(file);
  }
  const auto left = [](int64_t limit, int64_t pages) {
    return limit == kMost ? kMost : limit - pages * PageBytes();
  };
  return std::max<int64_t>(0,
                           std::min({left(MachineBytes(), resident), left(Limit(RLIMIT_AS), size),
                                     left(Limit(RLIMIT_DATA), data)}));
}

}  // namespace evoq
