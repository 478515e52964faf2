#include "base/file.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace evoq {

Status MakeDirectories(const std::string& path) {
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (code) return Fail(ErrorCode::kIo, "{}: cannot make the directory: {}", path, code.message());
  return {};
}

Status MakeParentOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? Status() : MakeDirectories(folder);
}

std::string CachePath(const char* variable, const std::string& name) {
  if (const char* path = std::getenv(variable)) return path;
  for (const auto& [folder, below] :
       {std::pair("XDG_CACHE_HOME", "/evoq/"), std::pair("HOME", "/.cache/evoq/")}) {
    const char* value = std::getenv(folder);
    if (value != nullptr && *value != 0) return value + (below + name);
  }
  return "";
}

Result<std::vector<std::string>> ListFiles(const std::string& directory) {
  std::error_code code;
  std::filesystem::directory_iterator entries(directory, code);
  if (code)
    return Fail(ErrorCode::kNotFound, "{}: cannot list the directory: {}", directory,
                code.message());
  std::vector<std::string> files;
  for (const auto& entry : entries) {
    if (entry.is_regular_file(code)) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string BaseName(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

std::string LowerExtension(const std::string& path) {
  std::string extension = std::filesystem::path(path).extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return extension;
}

}  // namespace evoq
