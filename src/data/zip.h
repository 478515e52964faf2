// Reading compressed containers: zip archives (for .npz) and gzip files (for idx).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/result.h"

namespace evoq {

struct ZipMember {
  std::string name;
  int method = 0;  // 0 stored, 8 deflated
  uint32_t crc = 0;
  int64_t bytes = 0;                      // when unpacked
  std::span<const std::byte> compressed;  // into the archive
};

// The members in the order of the central directory; zip64 sizes and offsets are understood.
// Errors: kInvalidInput for a broken directory, an encrypted member or one outside the file.
Result<std::vector<ZipMember>> ReadZipDirectory(std::span<const std::byte> archive);

// The member's bytes. Draws their memory, and the work of unpacking them: members may share
// compressed bytes. Errors: kInvalidInput when the data or its CRC-32 is wrong; kUnsupported for
// another method; kTooLarge over the budget.
Result<std::vector<std::byte>> UnpackMember(const ZipMember& member, Budget& budget);

// The bytes of a gzip file (members one after the other count as one). Draws the memory of the
// result. Errors: kInvalidInput for corrupt or truncated data; kTooLarge over the budget.
Result<std::vector<std::byte>> Gunzip(std::span<const std::byte> bytes, Budget& budget);

}  // namespace evoq
