// CRC-32C (Castagnoli, polynomial 0x1EDC6F41 reflected), as in RFC 3720.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace evoq {

// The checksum of bytes that come one piece after the other.
class Crc32cSum {
 public:
  void Add(std::span<const std::byte> bytes);
  uint32_t value() const { return ~state_; }

 private:
  uint32_t state_ = ~uint32_t{0};
};

uint32_t Crc32c(std::span<const std::byte> bytes);

}  // namespace evoq
