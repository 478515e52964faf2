// Memory aligned to a cache line, as the kernels want it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace evoq {

inline constexpr size_t kAlignment = 64;

// A block, 64-byte aligned. Large ones are the system's own pages, of 2 MiB where it has such, and
// take memory where they are written to. Throws std::bad_alloc where the machine has no memory
// left, as containers do (base/guarded.h).
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t bytes);  // of any contents
  static AlignedBuffer Zeros(size_t bytes);

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  struct Free {
    Free() : mapped(0) {}
    explicit Free(size_t bytes) : mapped(bytes) {}
    size_t mapped;  // bytes; 0: the allocator's
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte[], Free> data_;
  size_t size_ = 0;
};

}  // namespace evoq
