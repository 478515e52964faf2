#include "base/json_file.h"

#include <algorithm>

#include "base/brief.h"
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

// Where text stops being JSON: "line 2, column 7", bytes counted from 1.
struct FirstFault : nlohmann::json_sax<json> {
  explicit FirstFault(std::string_view text) : text_(text) {
    json::sax_parse(text.begin(), text.end(), this);
  }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t bytes_read, const std::string&, const json::exception&) override {
    const std::string_view before = text_.substr(0, bytes_read == 0 ? 0 : bytes_read - 1);
    const size_t line_end = before.rfind('\n');
    where = fmt::format(
        "line {}, column {}", 1 + std::ranges::count(before, '\n'),
        line_end == std::string_view::npos ? before.size() + 1 : before.size() - line_end);
    return false;
  }

  std::string where;

 private:
  std::string_view text_;
};

// Whether the first character is one that a value begins with: that of a binary file seldom is,
// whose brackets tell nothing.
bool BeginsAsJson(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";  // of byte order
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos &&
         std::string_view("{[\"-0123456789tfn").find(text[first]) != std::string_view::npos;
}

}  // namespace

Result<json> ParseJson(std::string_view text) {
  const bool begins = BeginsAsJson(text);
  if (begins && TooDeep(text)) return InvalidInput("nested deeper than {} levels", kMaxDepth);
  json value = begins ? json::parse(text, nullptr, /*allow_exceptions=*/false)
                      : json(json::value_t::discarded);
  if (value.is_discarded())
    return InvalidInput("not JSON ({} bytes): {}", text.size(), FirstFault(text).where);
  return value;
}

Result<json> ReadJsonFile(const std::string& path, size_t max_bytes) {
  EVOQ_ASSIGN(const std::string text, ReadTextFile(path, max_bytes));
  return WithContext(ParseJson(text), path);
}

std::string JsonBriefly(const json& value) {
  return Shorten(value.dump(-1, ' ', false, json::error_handler_t::replace));
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
