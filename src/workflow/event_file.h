// Event files, which TensorBoard shows: one record for each epoch.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace evoq {

// An event file is records, each
//   uint64 length, uint32 masked CRC-32C of these 8 bytes, the bytes of an Event, uint32 masked
//   CRC-32C of them
// all little-endian, with masked(crc) = (crc >> 15 | crc << 17) + 0xa282ead8. An Event is a message
// of protocol buffers: wall_time (1, double), step (2, int64), file_version (3, string), summary
// (5: value (1: tag (1, string), simple_value (2, float))).
class EventFile {
 public:
  // Begins a file of the folder, which is made where it is missing. `seconds` since 1970. Errors:
  // kIo.
  static Result<EventFile> Create(const std::string& folder, double seconds);
  const std::string& path() const { return path_; }

  // Adds values by their names, and leaves the file whole. Errors: kIo.
  Status Add(double seconds, int64_t step,
             const std::vector<std::pair<std::string, double>>& values);

 private:
  explicit EventFile(std::string path) : path_(std::move(path)) {}
  Status Append(const std::string& event);
  std::string path_;
};

}  // namespace evoq
