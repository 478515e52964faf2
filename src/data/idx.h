// The idx format of MNIST: bytes 0 0 type rank, rank big-endian 32-bit sizes, then the data. Type 8
// is unsigned byte.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace evoq {

struct IdxArray {
  std::vector<int64_t> sizes;
  std::vector<std::byte> bytes;  // the whole file, unpacked
  size_t offset = 0;             // of the data
  std::span<const uint8_t> data() const {
    return {reinterpret_cast<const uint8_t*>(bytes.data()) + offset, bytes.size() - offset};
  }
};

// An idx file of unsigned bytes, plain or gzipped.
// Errors: kInvalidInput when the magic, the sizes or the length are wrong; kUnsupported for another
// element type; kTooLarge when it unpacks to more than the file's Budget.
Result<IdxArray> ReadIdx(const std::string& path);

}  // namespace evoq
