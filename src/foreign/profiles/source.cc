#include "foreign/profiles/source.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/budget.h"
#include "base/file.h"
#include "data/zip.h"

namespace evoq {

#define EVOQ_ROW_TYPE ForeignSource
#define EVOQ_ROW_FILE "foreign/profiles/sources.inc"
#include "base/rows.inl.h"

std::span<const ForeignSource* const> AllForeignSources() { return kAllRows; }

namespace {

constexpr std::string_view kGzip = "\x1f\x8b\x08";

// Of a regular file; nothing of pipes, which can be read once.
std::string HeadOf(const std::string& path) {
  constexpr size_t kBytes = size_t{64} << 10;
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) return "";
  std::string head(kBytes, 0);
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), static_cast<std::streamsize>(kBytes));
  head.resize(static_cast<size_t>(file.gcount()));
  return head;
}

// Text has no zeros, as models have; what is compressed begins with its mark.
const ForeignSource* SourceOf(const std::string& head) {
  const bool is_text = head.find('\0') == head.npos;
  for (const ForeignSource* source : kAllRows) {
    for (const std::string_view mark : source->marks) {
      if (mark.empty()) continue;
      const bool compressed = mark == kGzip;
      if (compressed ? head.starts_with(mark) : is_text && head.find(mark) != head.npos)
        return source;
    }
  }
  return nullptr;
}

bool TakesFolder(const ForeignSource& source) { return std::string_view(source.takes) == "DIR"; }

}  // namespace

Result<std::string> ReadProfile(const std::string& path) {
  EVOQ_ASSIGN(std::string text, ReadTextFile(path));
  if (!text.starts_with(kGzip)) return text;
  Budget budget = Budget::ForFile(static_cast<int64_t>(text.size()));
  EVOQ_ASSIGN(const std::vector<std::byte> bytes,
              WithContext(Gunzip(std::as_bytes(std::span(text)), budget), path));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<ForeignFile> FindForeignFile(const std::string& path) {
  std::error_code code;
  if (!std::filesystem::is_directory(path, code)) return ForeignFile{SourceOf(HeadOf(path)), path};
  EVOQ_ASSIGN(const std::vector<std::string> paths, ListFiles(path));
  ForeignFile found;
  for (const std::string& one : paths) {
    const std::string head = HeadOf(one);
    if (head.starts_with(kGzip) && !one.ends_with(".json.gz")) continue;
    const ForeignSource* source = SourceOf(head);
    if (source == nullptr || (source == found.source && TakesFolder(*source))) continue;
    if (found.source != nullptr)
      return Fail(ErrorCode::kUsage, "{}: {} and {} are profiles: name one of them", path,
                  BaseName(found.path), BaseName(one));
    found = {source, one};
  }
  if (found.source != nullptr && TakesFolder(*found.source)) found.path = path;
  return found;
}

}  // namespace evoq
