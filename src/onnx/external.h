// External tensor data: files beside the model.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/file.h"
#include "base/result.h"

namespace evoq {

// A piece of a mapped file, which `owner` keeps alive.
struct ExternalBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

// The files that tensors of one model may point into: those inside the model's folder, after
// symbolic links are resolved.
class ExternalFiles {
 public:
  // No folder (a model from memory): every request is refused.
  ExternalFiles() = default;
  explicit ExternalFiles(std::string folder) : folder_(std::move(folder)), has_folder_(true) {}

  // `length` bytes from `offset` of the file at `location`, relative to the folder; length -1: to
  // the end of the file. Errors: kInvalidInput for an empty or absolute location, one with "..", a
  // link that leaves the folder, a range past the end; kNotFound; kIo.
  Result<ExternalBytes> Read(const std::string& location, int64_t offset, int64_t length);
  // The whole file. Errors: as of Read.
  Result<std::shared_ptr<const MappedFile>> Open(const std::string& location);

 private:
  std::string folder_;
  bool has_folder_ = false;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace evoq
