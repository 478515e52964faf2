#include "base/json_file.h"

#include "base/file.h"

namespace evoq {

using nlohmann::json;

namespace {

constexpr int kMaxDepth = 64;

// Whether brackets outside of strings open more than kMaxDepth levels. Before parsing: the value
// itself is torn down and written by recursion, and the library's callback that could count levels
// looks at all elements of an array for each of them.
bool TooDeep(std::string_view text) {
  int depth = 0;
  bool string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (string) {
      i += c == '\\';  // what is escaped ends nothing
      string = c != '"';
    } else if (c == '"') {
      string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Result<json> ParseJson(std::string_view text) {
  if (TooDeep(text)) return InvalidInput("nested deeper than {} levels", kMaxDepth);
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return InvalidInput("not JSON ({} bytes)", text.size());
  return value;
}

Result<json> ReadJsonFile(const std::string& path, size_t max_bytes) {
  EVOQ_ASSIGN(const std::string text, ReadTextFile(path, max_bytes));
  return WithContext(ParseJson(text), path);
}

double JsonNumber(const json& object, const char* key, double fallback) {
  if (!object.is_object()) return fallback;
  const auto it = object.find(key);
  return it != object.end() && it->is_number() ? it->get<double>() : fallback;
}

std::string JsonText(const json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

const json& JsonArray(const json& object, const char* key) {
  static const json kEmpty = json::array();
  if (!object.is_object()) return kEmpty;
  const auto it = object.find(key);
  return it != object.end() && it->is_array() ? *it : kEmpty;
}

}  // namespace evoq
