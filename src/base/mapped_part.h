// Stretches of files that this process has made, mapped to be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace evoq {

class MappedPart {
 public:
  MappedPart() = default;
  ~MappedPart();
  MappedPart(const MappedPart&) = delete;
  MappedPart& operator=(const MappedPart&) = delete;

  // Once. `offset` is any; the mapping outlives the descriptor. False where the system refuses.
  bool Map(int fd, int64_t offset, int64_t size);
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

// What lies in a file instead of in memory: bytes that are not writable, and what holds them there.
struct KeptBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

// Whether this is memory of a MappedPart.
bool LiesInMappedPart(const void* data);

}  // namespace evoq
