#include "tokenizer/rules.h"

#include "tokenizer/steps.h"

namespace evoq {

using nlohmann::json;

const json& JsonMember(const json& object, const char* key) {
  static const json null;
  const auto it = object.is_object() ? object.find(key) : object.end();
  return it == object.end() ? null : *it;
}

Result<std::string> NeedText(const json& object, const char* key) {
  const auto it = object.is_object() ? object.find(key) : object.end();
  if (it == object.end() || !it->is_string()) return InvalidInput("expected a text as {}", key);
  return it->get<std::string>();
}

bool JsonFlag(const json& object, const char* key, bool fallback) {
  const auto it = object.is_object() ? object.find(key) : object.end();
  return it != object.end() && it->is_boolean() ? it->get<bool>() : fallback;
}

Result<Pattern> ReadPattern(const json& object) {
  const json& pattern = JsonMember(object, "pattern");
  if (const std::string regex = JsonText(pattern, "Regex"); !regex.empty())
    return Pattern::Make(regex);
  if (const std::string text = JsonText(pattern, "String"); !text.empty())
    return Pattern::Literal(text);
  return InvalidInput("expected a pattern with a String or a Regex");
}

}  // namespace evoq
