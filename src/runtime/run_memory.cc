#include "runtime/run_memory.h"

#include <cstring>

namespace evoq {

Result<std::shared_ptr<std::byte>> RunMemory::Get(const MemorySpace& space, size_t lane, Use use,
                                                  size_t bytes) {
  const std::lock_guard lock(mutex_);
  Block& block = largest_[{&space, lane, use}];
  if (block.memory != nullptr && block.bytes >= bytes) return block.memory;
  EVOQ_ASSIGN(std::shared_ptr<std::byte> fresh, space.allocate(bytes));
  if (&space == &kHostMemory && use == Use::kArena) std::memset(fresh.get(), 0, bytes);
  std::erase_if(outgrown_, [](const auto& old) { return old.second.expired(); });
  if (block.memory != nullptr) outgrown_.emplace_back(block.bytes, block.memory);
  block = {bytes, std::move(fresh)};
  return block.memory;
}

int64_t RunMemory::bytes() const {
  const std::lock_guard lock(mutex_);
  size_t sum = 0;
  for (const auto& [key, block] : largest_) sum += block.bytes;
  for (const auto& [bytes, memory] : outgrown_) sum += memory.expired() ? 0 : bytes;
  return static_cast<int64_t>(sum);
}

}  // namespace evoq
