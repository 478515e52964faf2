#include "base/aligned.h"

#include <limits>
#include <new>

namespace evoq {

AlignedBuffer::AlignedBuffer(size_t bytes) : size_(bytes) {
  if (bytes > std::numeric_limits<size_t>::max() - kAlignment) throw std::bad_alloc();
  const size_t rounded =
      (bytes == 0 ? kAlignment : bytes + kAlignment - 1) / kAlignment * kAlignment;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
  if (data_ == nullptr) throw std::bad_alloc();
}

}  // namespace evoq
