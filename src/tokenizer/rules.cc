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

Result<std::string> FromBase64(std::string_view text) {
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    int value = 0;
    if (c >= 'A' && c <= 'Z') {
      value = c - 'A';
    } else if (c >= 'a' && c <= 'z') {
      value = c - 'a' + 26;
    } else if (c >= '0' && c <= '9') {
      value = c - '0' + 52;
    } else if (c == '+' || c == '/') {
      value = c == '+' ? 62 : 63;
    } else if (c == '=') {
      break;
    } else {
      return InvalidInput("a text that is not base64");
    }
    bits = (bits << 6) | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>((bits >> count) & 0xFF);
  }
  return out;
}

}  // namespace evoq
