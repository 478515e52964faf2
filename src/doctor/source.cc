#include "doctor/source.h"

#include "base/file.h"

namespace evoq {

#define EVOQ_ROW(name) extern const ForeignSource name;
#include "doctor/sources.inc"
#undef EVOQ_ROW

std::span<const ForeignSource* const> AllForeignSources() {
#define EVOQ_ROW(name) &name,
  static const ForeignSource* const kSources[] = {
#include "doctor/sources.inc"
  };
#undef EVOQ_ROW
  return kSources;
}

Result<nlohmann::json> ReadJsonFile(const std::string& path) {
  EVOQ_ASSIGN(const std::string text, ReadTextFile(path));
  constexpr int kMaxDepth = 64;
  bool deep = false;
  const auto bound = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    deep = deep || depth > kMaxDepth;
    return depth <= kMaxDepth;
  };
  nlohmann::json value = nlohmann::json::parse(text, bound, /*allow_exceptions=*/false);
  if (deep) return InvalidInput("{}: nested deeper than {} levels", path, kMaxDepth);
  if (value.is_discarded()) return InvalidInput("{}: not JSON ({} bytes)", path, text.size());
  return value;
}

double JsonNumber(const nlohmann::json& object, const char* key, double fallback) {
  if (!object.is_object()) return fallback;
  const auto it = object.find(key);
  return it != object.end() && it->is_number() ? it->get<double>() : fallback;
}

std::string JsonText(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

const nlohmann::json& JsonArray(const nlohmann::json& object, const char* key) {
  static const nlohmann::json kEmpty = nlohmann::json::array();
  if (!object.is_object()) return kEmpty;
  const auto it = object.find(key);
  return it != object.end() && it->is_array() ? *it : kEmpty;
}

}  // namespace evoq
