// Memory aligned to a cache line, as the kernels want it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace evoq {

inline constexpr size_t kAlignment = 64;

// An uninitialized block, 64-byte aligned, whose size is rounded up to a multiple of 64. Throws
// std::bad_alloc where the machine has no memory left, as containers do (base/guarded.h).
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t bytes);

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte[], Free> data_;
  size_t size_ = 0;
};

}  // namespace evoq
