#include "base/aligned.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>

#include "base/guarded_ends.h"
#include "base/pages.h"
#include "base/spare_blocks.h"

namespace evoq {
namespace {

// From this size on, pages of the system.
constexpr size_t kLarge = kGuardsEnds ? std::numeric_limits<size_t>::max() : size_t{4} << 20;

constexpr size_t kPage = size_t{64} << 10;  // of any processor
constexpr size_t kMost = std::numeric_limits<size_t>::max() - kHugePage - kPage;

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

// Blocks that nobody has, the oldest first.
class Spares {
 public:
  void Limit(size_t bytes) {
    const std::lock_guard lock(mutex_);
    most_ = bytes;
    DropBeyond(most_);
  }
  size_t held() {
    const std::lock_guard lock(mutex_);
    return held_;
  }
  // Null where there is none of this size.
  std::byte* Take(size_t mapped) {
    const std::lock_guard lock(mutex_);
    for (size_t i = count_; i-- > 0;) {
      if (blocks_[i].mapped == mapped) return Remove(i);
    }
    return nullptr;
  }
  void Give(std::byte* p, size_t mapped) {
    const std::lock_guard lock(mutex_);
    if (mapped > most_) {
      ::munmap(p, mapped);
      return;
    }
    DropBeyond(most_ - mapped);
    if (count_ == kMostBlocks) DropBeyond(held_ - 1);
    blocks_[count_++] = {p, mapped};
    held_ += mapped;
  }

 private:
  static constexpr size_t kMostBlocks = 16;
  struct Block {
    std::byte* data;
    size_t mapped;
  };
  std::byte* Remove(size_t i) {
    std::byte* const data = blocks_[i].data;
    held_ -= blocks_[i].mapped;
    for (--count_; i < count_; ++i) blocks_[i] = blocks_[i + 1];
    return data;
  }
  void DropBeyond(size_t bytes) {
    while (held_ > bytes) {
      const size_t mapped = blocks_[0].mapped;
      ::munmap(Remove(0), mapped);
    }
  }
  std::mutex mutex_;
  Block blocks_[kMostBlocks] = {};
  size_t count_ = 0, held_ = 0, most_ = 0;
};

constinit Spares spares;

}  // namespace

void KeepSpareBlocks(size_t bytes) { spares.Limit(bytes); }
size_t SpareBytes() { return spares.held(); }

void AlignedBuffer::Free::operator()(std::byte* p) const {
  if (mapped > 0) {
    spares.Give(p, mapped);
  } else {
    std::free(p);
  }
}

AlignedBuffer::AlignedBuffer(size_t bytes) : size_(bytes) {
  if (bytes > kMost) throw std::bad_alloc();
  if (bytes >= kLarge) {
    const size_t mapped = Rounded(bytes, kPage);
    std::byte* const spare = spares.Take(mapped);
    data_ = {spare != nullptr ? spare : MapZeros(mapped), Free(mapped)};
  } else {
    const size_t rounded = Rounded(bytes == 0 ? 1 : bytes, kAlignment);
    data_ = {static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)), Free()};
  }
  if (data_ == nullptr) throw std::bad_alloc();
}

AlignedBuffer AlignedBuffer::Zeros(size_t bytes) {
  AlignedBuffer zeros;
  if (bytes < kLarge || bytes > kMost) {
    zeros = AlignedBuffer(bytes);
    std::memset(zeros.data(), 0, bytes);
    return zeros;
  }
  const size_t mapped = Rounded(bytes, kPage);
  std::byte* const spare = spares.Take(mapped);
  if (spare != nullptr) std::memset(spare, 0, bytes);  // a third of what new pages take
  zeros.data_ = {spare != nullptr ? spare : MapZeros(mapped), Free(mapped)};
  if (zeros.data_ == nullptr) throw std::bad_alloc();
  zeros.size_ = bytes;
  return zeros;
}

}  // namespace evoq
