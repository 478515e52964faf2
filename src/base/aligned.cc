#include "base/aligned.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "base/guarded_ends.h"
#include "base/pages.h"

namespace evoq {
namespace {

// From this size on, pages of the system.
constexpr size_t kLarge = kGuardsEnds ? std::numeric_limits<size_t>::max() : size_t{4} << 20;

size_t Rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// So many bytes of zeros that begin with a huge page; null where there is no memory.
std::byte* MapZeros(size_t bytes) {
  void* const all = ::mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(all);
  const size_t before = -reinterpret_cast<uintptr_t>(all) % kHugePage;
  std::byte* const begin = first + before;
  if (before > 0) ::munmap(first, before);
  if (before < kHugePage) ::munmap(begin + bytes, kHugePage - before);
#ifdef MADV_HUGEPAGE
  (void)::madvise(begin, bytes, MADV_HUGEPAGE);  // or pages of the usual size
#endif
  return begin;
}

}  // namespace

void AlignedBuffer::Free::operator()(std::byte* p) const {
  if (mapped > 0) {
    ::munmap(p, mapped);
  } else {
    std::free(p);
  }
}

AlignedBuffer::AlignedBuffer(size_t bytes) : size_(bytes) {
  constexpr size_t kPage = size_t{64} << 10;  // of any processor
  if (bytes > std::numeric_limits<size_t>::max() - kHugePage - kPage) throw std::bad_alloc();
  if (bytes >= kLarge) {
    const size_t mapped = Rounded(bytes, kPage);
    data_ = {MapZeros(mapped), Free(mapped)};
  } else {
    const size_t rounded = Rounded(bytes == 0 ? 1 : bytes, kAlignment);
    data_ = {static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)), Free()};
  }
  if (data_ == nullptr) throw std::bad_alloc();
}

AlignedBuffer AlignedBuffer::Zeros(size_t bytes) {
  AlignedBuffer zeros(bytes);
  if (bytes < kLarge) std::memset(zeros.data(), 0, bytes);
  return zeros;
}

}  // namespace evoq
