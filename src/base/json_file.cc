#include "base/json_file.h"

#include "base/file.h"

namespace evoq {

using nlohmann::json;

Result<json> ParseJson(std::string_view text) {
  constexpr int kMaxDepth = 64;
  bool deep = false;
  const auto bound = [&](int depth, json::parse_event_t, json&) {
    deep = deep || depth > kMaxDepth;
    return depth <= kMaxDepth;
  };
  json value = json::parse(text, bound, /*allow_exceptions=*/false);
  if (deep) return InvalidInput("nested deeper than {} levels", kMaxDepth);
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
