#include "tokenizer/files.h"

#include <filesystem>

#include "base/file.h"
#include "base/json_file.h"
#include "tokenizer/kinds.h"

namespace evoq {

TokenizerFiles TokenizerFiles::In(std::string folder) {
  TokenizerFiles files;
  files.folder_ = std::move(folder);
  return files;
}

TokenizerFiles TokenizerFiles::Of(std::map<std::string, std::string> bytes, std::string label) {
  TokenizerFiles files;
  files.in_memory_ = true;
  files.folder_ = std::move(label);
  files.bytes_ = std::move(bytes);
  return files;
}

bool TokenizerFiles::Has(const std::string& name) const {
  std::error_code error;
  return in_memory_ ? bytes_.contains(name) : std::filesystem::exists(Label(name), error);
}

Result<std::string> TokenizerFiles::Text(const std::string& name) const {
  if (!in_memory_) return ReadTextFile(Label(name), kMaxTokenizerBytes);
  const auto found = bytes_.find(name);
  if (found == bytes_.end()) return Fail(ErrorCode::kNotFound, "{}: not there", Label(name));
  if (found->second.size() > kMaxTokenizerBytes)
    return Fail(ErrorCode::kTooLarge, "{}: {} bytes, expected at most {}", Label(name),
                found->second.size(), kMaxTokenizerBytes);
  return found->second;
}

Result<nlohmann::json> TokenizerFiles::Json(const std::string& name) const {
  EVOQ_ASSIGN(const std::string text, Text(name));
  return WithContext(ParseJson(text), Label(name));
}

}  // namespace evoq
