#include "base/mapped_part.h"

#include <sys/mman.h>

#include <map>
#include <mutex>

#include "base/pages.h"

namespace evoq {
namespace {

// The end of each part by its beginning.
struct Parts {
  std::mutex mutex;
  std::map<uintptr_t, uintptr_t> ends;
};
Parts& Mapped() {
  static Parts parts;
  return parts;
}

// From the page on in which it begins.
std::span<std::byte> WholePages(std::span<const std::byte> bytes) {
  const auto data = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t before = data % static_cast<uintptr_t>(PageBytes());
  return {reinterpret_cast<std::byte*>(data - before), before + bytes.size()};
}

}  // namespace

bool MappedPart::Map(int fd, int64_t offset, int64_t size) {
  const int64_t before = offset % PageBytes();
  // Together with its entry: the system may give out the address of a part that ends meanwhile.
  const std::lock_guard lock(Mapped().mutex);
  void* const mapped = ::mmap(nullptr, static_cast<size_t>(before + size), PROT_READ, MAP_SHARED,
                              fd, offset - before);
  if (mapped == MAP_FAILED) return false;
  bytes_ = {static_cast<const std::byte*>(mapped) + before, static_cast<size_t>(size)};
  const auto begin = reinterpret_cast<uintptr_t>(bytes_.data());
  Mapped().ends[begin] = begin + bytes_.size();
  return true;
}

MappedPart::~MappedPart() {
  if (bytes_.empty()) return;
  const std::lock_guard lock(Mapped().mutex);
  Mapped().ends.erase(reinterpret_cast<uintptr_t>(bytes_.data()));
  const std::span<std::byte> pages = WholePages(bytes_);
  ::munmap(pages.data(), pages.size());
}

bool LiesInMappedPart(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  const std::lock_guard lock(Mapped().mutex);
  const auto after = Mapped().ends.upper_bound(address);
  return after != Mapped().ends.begin() && address < std::prev(after)->second;
}

}  // namespace evoq
