#include "base/memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>

namespace evoq {

int64_t MemoryLimitBytes() {
  int64_t bytes = std::numeric_limits<int64_t>::max();
  const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_bytes > 0) bytes = int64_t{pages} * page_bytes;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    bytes = std::min(bytes, static_cast<int64_t>(std::min<rlim_t>(
                                limit.rlim_cur, std::numeric_limits<int64_t>::max())));
  return bytes;
}

int64_t FreeMemoryBytes() {
  const int64_t limit = MemoryLimitBytes();
  rlimit space{};
  const bool limited = getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY &&
                       static_cast<int64_t>(space.rlim_cur) == limit;
  long size = 0, resident = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &size, &resident) != 2) size = resident = 0;
    std::fclose(file);
  }
  return std::max<int64_t>(0, limit - int64_t{limited ? size : resident} * sysconf(_SC_PAGESIZE));
}

}  // namespace evoq
