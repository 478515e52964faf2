#include "encodings/encoding.h"

#include <set>

#include "base/file.h"
#include "base/json_file.h"
#include "base/rows.h"
#include "base/text.h"
#include "base/version.h"

namespace evoq {

#define EVOQ_ROW_TYPE EncodingsVersion
#define EVOQ_ROW_FILE "encodings/versions.inc"
#include "base/rows.inl.h"

using nlohmann::json;

std::span<const EncodingsVersion* const> AllEncodingsVersions() { return kAllRows; }

const EncodingsVersion* FindEncodingsVersion(std::string_view name) {
  return FindRow(AllEncodingsVersions(), name);
}

namespace {

std::string VersionNames() {
  std::vector<std::string> names;
  for (const EncodingsVersion* version : AllEncodingsVersions()) names.push_back(version->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Names and keys may hold any bytes.
std::string Dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

Result<std::vector<Encoding>> ParseEncodings(std::string_view text) {
  EVOQ_ASSIGN(const json root, ParseJson(text));
  if (!root.is_object())
    return InvalidInput("no encodings file: expected a JSON object with \"version\"");
  const auto named = root.find("version");
  if (named == root.end() || !named->is_string())
    return InvalidInput("\"version\" is missing, expected one of {}", VersionNames());
  const EncodingsVersion* version = FindEncodingsVersion(named->get<std::string>());
  if (version == nullptr)
    return Unsupported("encodings of version {}, expected one of {}", Dump(*named).substr(0, 40),
                       VersionNames());
  EVOQ_ASSIGN(std::vector<Encoding> encodings, version->read(root));
  std::set<std::string_view> names;
  for (const Encoding& e : encodings) {
    if (!names.insert(e.name).second)
      return InvalidInput("{}: the second entry of this tensor", e.place);
  }
  return encodings;
}

Result<std::vector<Encoding>> ReadEncodings(const std::string& path) {
  EVOQ_ASSIGN(const std::string text, ReadTextFile(path));
  return WithContext(ParseEncodings(text), path);
}

// An entry a line, so that files diff well.
Status WriteEncodings(std::span<const Encoding> encodings, const EncodingsVersion& version,
                      const std::string& path) {
  EVOQ_ASSIGN(const json sections, WithContext(version.write(encodings), path));
  std::string text = fmt::format(
      "{{\n\"version\": \"{}\",\n\"producer\": {{\"package\": \"evoq\", \"version\": "
      "\"{}\"}}",
      version.name, EVOQ_VERSION);
  for (const auto& [key, section] : sections.items()) {
    text += fmt::format(",\n{}: ", Dump(key));
    const bool object = section.is_object();
    text += object ? '{' : '[';
    const char* separator = "\n";
    for (const auto& [name, entry] : section.items()) {
      text += fmt::format("{}{}{}{}", separator, object ? Dump(name) : "", object ? ": " : "",
                          Dump(entry));
      separator = ",\n";
    }
    text += object ? "\n}" : "\n]";
  }
  return WriteFileAtomic(path, text + "\n}\n");
}

}  // namespace evoq
