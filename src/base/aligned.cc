#include "base/aligned.h"

#include "base/check.h"
#include "base/math.h"

namespace evoq {

AlignedBuffer::AlignedBuffer(size_t bytes) : size_(bytes) {
  const size_t rounded = static_cast<size_t>(RoundUp(static_cast<int64_t>(bytes == 0 ? 1 : bytes), kAlignment));
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
  EVOQ_CHECK(data_ != nullptr, "out of memory: {} bytes", rounded);
}

}  // namespace evoq
