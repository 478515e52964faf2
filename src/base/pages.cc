#include "base/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/mapped_part.h"
#include "base/math.h"

namespace evoq {
namespace {

bool IsOfAFile(std::span<const std::byte> bytes) {
  return !bytes.empty() && (LiesInMappedFile(bytes.data()) || LiesInMappedPart(bytes.data()));
}

#ifdef MADV_POPULATE_READ
constexpr int kMapNow = MADV_POPULATE_READ;
#else
constexpr int kMapNow = MADV_WILLNEED;
#endif

// What the system does not do, it does later, page by page.
void Advise(int64_t begin, int64_t end, int advice) {
  if (begin < end)
    (void)::madvise(reinterpret_cast<void*>(begin), static_cast<size_t>(end - begin), advice);
}

}  // namespace

int64_t PageBytes() {
  static const auto bytes = static_cast<int64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

void ReleasePages(std::span<const std::byte> bytes) {
  if (!IsOfAFile(bytes)) return;
  const int64_t page = PageBytes();
  const auto data = static_cast<int64_t>(reinterpret_cast<uintptr_t>(bytes.data()));
  Advise(RoundUp(data, page), (data + static_cast<int64_t>(bytes.size())) / page * page,
         MADV_DONTNEED);
}

void MapPages(std::span<const std::byte> bytes) {
  if (!IsOfAFile(bytes)) return;
  const int64_t page = PageBytes();
  const auto data = static_cast<int64_t>(reinterpret_cast<uintptr_t>(bytes.data()));
  Advise(data / page * page, RoundUp(data + static_cast<int64_t>(bytes.size()), page), kMapNow);
}

}  // namespace evoq
