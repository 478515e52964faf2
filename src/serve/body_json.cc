#include "serve/body_json.h"

#include <simdjson.h>

#include "base/json_file.h"

namespace evoq::serve {
namespace {

using nlohmann::json;
namespace dom = simdjson::dom;

constexpr size_t kMaxDepth = 64;  // conversion is recursive

json Converted(dom::element from) {
  switch (from.type()) {
    case dom::element_type::ARRAY: {
      json list = json::array();
      auto& items = list.get_ref<json::array_t&>();
      const dom::array array = from.get_array().value_unsafe();
      items.reserve(array.size());
      for (const dom::element item : array) items.push_back(Converted(item));
      return list;
    }
    case dom::element_type::OBJECT: {
      json object = json::object();
      for (const auto& [key, value] : from.get_object().value_unsafe())
        object[std::string(key)] = Converted(value);
      return object;
    }
    case dom::element_type::INT64: {
      const int64_t value = from.get_int64().value_unsafe();
      // Numbers without a sign are unsigned to the other parser.
      if (value >= 0) return static_cast<uint64_t>(value);
      return value;
    }
    case dom::element_type::UINT64: return from.get_uint64().value_unsafe();
    case dom::element_type::DOUBLE: return from.get_double().value_unsafe();
    case dom::element_type::STRING: return std::string(from.get_string().value_unsafe());
    case dom::element_type::BOOL: return from.get_bool().value_unsafe();
    case dom::element_type::NULL_VALUE: break;
  }
  return nullptr;
}

}  // namespace

Result<json> ParseBody(std::string_view text) {
  dom::parser parser;
  if (parser.allocate(text.size(), kMaxDepth) == simdjson::SUCCESS) {
    dom::element root;
    // The copy has the bytes behind the text that the parser may read.
    if (parser.parse(text.data(), text.size()).get(root) == simdjson::SUCCESS)
      return Converted(root);
  }
  return ParseJson(text);  // which says what is wrong
}

}  // namespace evoq::serve
