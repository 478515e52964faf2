#include "onnx/external.h"

#include <filesystem>

#include "base/budget_scope.h"
#include "base/math.h"

namespace evoq {
namespace fs = std::filesystem;

Result<std::shared_ptr<const MappedFile>> ExternalFiles::Open(const std::string& location) {
  if (auto it = files_.find(location); it != files_.end()) return it->second;
  if (!has_folder_)
    return InvalidInput("external data '{}' of a model read from memory, which has no folder",
                        location);
  if (location.empty() || location.find('\0') != std::string::npos)
    return InvalidInput(
        "external data without a file name, expected a path relative to the model's folder");
  const fs::path relative(location);
  if (relative.is_absolute())
    return InvalidInput(
        "external data '{}' is an absolute path, expected one relative to the model's folder",
        location);
  for (const fs::path& part : relative) {
    if (part == "..")
      return InvalidInput("external data '{}' leaves the model's folder through '..'", location);
  }
  std::error_code error;
  const fs::path root = fs::canonical(folder_.empty() ? "." : folder_, error);
  if (error) return Fail(ErrorCode::kIo, "folder '{}': {}", folder_, error.message());
  const fs::path target = fs::canonical(root / relative, error);
  if (error) return Fail(ErrorCode::kNotFound, "external data '{}': {}", location, error.message());
  const auto [root_end, unused] =
      std::mismatch(root.begin(), root.end(), target.begin(), target.end());
  if (root_end != root.end())
    return InvalidInput("external data '{}' is a link that leaves the model's folder", location);
  EVOQ_ASSIGN(auto file, MappedFile::Open(target.string()));
  files_[location] = file;
  BudgetScope::AddFile(static_cast<int64_t>(file->bytes().size()));
  return file;
}

Result<ExternalBytes> ExternalFiles::Read(const std::string& location, int64_t offset,
                                          int64_t length) {
  EVOQ_ASSIGN(const std::shared_ptr<const MappedFile> file, Open(location));
  const auto size = static_cast<int64_t>(file->bytes().size());
  if (length == -1 && offset >= 0 && offset <= size) length = size - offset;
  const auto end = CheckedAdd(offset, length);
  if (offset < 0 || length < 0 || !end || *end > size)
    return InvalidInput("external data '{}': {} bytes from {} lie outside the file of {} bytes",
                        location, length, offset, size);
  return ExternalBytes{file->bytes().subspan(offset, length), file};
}

}  // namespace evoq
