// Where tests of this room find real models and the conformance cases.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace evoq {

// The data folder, "" when it is missing: a test then skips.
inline std::string DataFolder() {
  const char* env = std::getenv("EVOQ_DATA");
  const std::string folder =
      env != nullptr ? env : std::string(EVOQ_SOURCE_DIR) + "/../shared/data";
  return std::filesystem::is_directory(folder) ? folder : "";
}

}  // namespace evoq
