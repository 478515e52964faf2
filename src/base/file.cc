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

namespace {
tl::unexpected<Error> CannotList(const std::string& directory, const std::error_code& code) {
  return Fail(ErrorCode::kNotFound, "{}: cannot list the directory: {}", directory, code.message());
}
}  // namespace

Result<std::vector<std::string>> ListFiles(const std::string& directory) {
  std::error_code code;
  std::filesystem::directory_iterator entries(directory, code);
  if (code) return CannotList(directory, code);
  std::vector<std::string> files;
  for (const auto& entry : entries) {
    if (entry.is_regular_file(code)) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Result<std::vector<std::string>> ListFolders(const std::string& directory) {
  std::error_code code;
  std::filesystem::directory_iterator entries(directory, code);
  std::vector<std::string> names;
  for (; !code && entries != std::filesystem::directory_iterator(); entries.increment(code)) {
    if (std::error_code of_entry; entries->is_directory(of_entry))
      names.push_back(entries->path().filename().string());
  }
  if (code) return CannotList(directory, code);
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::vector<std::string>> ListFilesBelow(const std::string& directory) {
  std::error_code code;
  std::filesystem::recursive_directory_iterator entries(directory, code);
  std::vector<std::string> names;
  for (; !code && entries != std::filesystem::recursive_directory_iterator();
       entries.increment(code)) {
    if (std::error_code of_entry; entries->is_regular_file(of_entry))
      names.push_back(entries->path().lexically_relative(directory).generic_string());
  }
  if (code) return CannotList(directory, code);
  std::sort(names.begin(), names.end());
  return names;
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
