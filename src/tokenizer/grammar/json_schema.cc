#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/json_file.h"
#include "tokenizer/grammar/digits.h"
#include "tokenizer/grammar/grammar.h"

namespace evoq {
namespace {

using Json = nlohmann::ordered_json;
using Symbol = Grammar::Symbol;
using Sequence = Grammar::Sequence;

// Members that say nothing of what a text must be.
constexpr const char* kNotes[] = {
    "title",    "description", "default",     "examples",         "$schema",        "$id",
    "$comment", "$defs",       "definitions", "deprecated",       "readOnly",       "writeOnly",
    "$anchor",  "format",      "strict",      "contentMediaType", "contentEncoding"};

Sequence operator+(Sequence a, const Sequence& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class SchemaGrammar {
 public:
  explicit SchemaGrammar(const Json& whole) : whole_(whole) {}

  Result<std::shared_ptr<const Grammar>> Make(std::string_view before, std::string_view behind) {
    MakeValues();
    EVOQ_ASSIGN(const Symbol root, Of(whole_, "#", 0));
    if (before.empty() && behind.empty()) return b_.Finish(root);
    return b_.Finish(b_.Choice({Word(before) + Sequence{root} + Word(behind)}));
  }

 private:
  static constexpr int kMaxDepth = 64;

  Sequence Word(std::string_view text) { return b_.Text(text); }
  Symbol Maybe(Sequence sequence) { return b_.Choice({std::move(sequence), {}}); }

  // Any values, and what they are made of.
  void MakeValues() {
    const auto byte_set = [&](const char* bytes) {
      Grammar::Bytes set;
      for (; *bytes != '\0'; ++bytes) set.set(static_cast<unsigned char>(*bytes));
      return b_.Set(set);
    };
    digit_ = byte_set("0123456789");
    const Symbol first = byte_set("123456789"), blank = byte_set(" \t");
    // Bounded, so that a text ends: some models like to write spaces.
    constexpr int64_t kMostBlanks = 20, kMostDigits = 15;
    space_ = b_.Choice({{}, Word(" "), Word("\n") + b_.Repeat(blank, 0, kMostBlanks)});
    const Symbol hex = byte_set("0123456789abcdefABCDEF");
    plain_ = b_.Character({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}, true);
    char_ = b_.Choice({{plain_},
                       Word("\\") + Sequence{byte_set("\"\\/bfnrt")},
                       Word("\\u") + b_.Repeat(hex, 4, 4)});
    string_ = b_.Choice({Word("\"") + b_.Repeat(char_, 0, -1) + Word("\"")});
    const Symbol minus = Maybe(Word("-"));
    whole_number_ = b_.Choice({Word("0"), Sequence{first} + b_.Repeat(digit_, 0, kMostDigits)});
    integer_ = b_.Choice({{minus, whole_number_}});
    const Symbol fraction = Maybe(Word(".") + b_.Repeat(digit_, 1, kMostDigits));
    constexpr int64_t kMostOfExponent = 2;
    const Symbol exponent = Maybe(Sequence{byte_set("eE"), Maybe({byte_set("+-")})} +
                                  b_.Repeat(digit_, 1, kMostOfExponent));
    not_negative_ = b_.Choice({{whole_number_, fraction, exponent}});
    number_ = b_.Choice({{minus, not_negative_}});
    value_ = b_.NewRule();
    object_ = b_.Choice({Word("{") + Sequence{space_, Entries({string_}, value_)} + Word("}")});
    array_ = b_.Choice({Word("[") + Sequence{space_, Maybe(List(value_, 1, -1))} + Word("]")});
    for (const Symbol s : {object_, array_, string_, number_}) b_.Add(value_, {s});
    for (const char* word : {"true", "false", "null"}) b_.Add(value_, Word(word));
  }

  // An entry of an object, and the space behind it.
  Sequence Entry(Sequence key, Symbol value) {
    return std::move(key) + Sequence{space_} + Word(":") + Sequence{space_, value, space_};
  }
  Sequence Comma() { return Word(",") + Sequence{space_}; }
  // Any number of entries with commas between them.
  Symbol Entries(Sequence key, Symbol value) {
    const Symbol entry = b_.Choice({Entry(std::move(key), value)});
    const Symbol next = b_.Choice({Comma() + Sequence{entry}});
    return Maybe(Sequence{entry} + b_.Repeat(next, 0, -1));
  }
  // `least` >= 1 to `most` values with commas between them, and the space behind each.
  Sequence List(Symbol value, int64_t least, int64_t most) {
    const Symbol next = b_.Choice({Comma() + Sequence{value, space_}});
    return Sequence{value, space_} + b_.Repeat(next, least - 1, most < 0 ? most : most - 1);
  }

  tl::unexpected<Error> Refused(const std::string& at, const std::string& key, const Json& value) {
    return Unsupported("schema {}: {} is {}, which is not supported", at, key, Shown(value));
  }
  static std::string Shown(const Json& value) { return JsonBriefly(nlohmann::json(value)); }
  // Errors: a member that is neither a note nor one of these.
  Status Only(const Json& schema, const std::string& at, std::initializer_list<const char*> known) {
    for (const auto& [key, value] : schema.items()) {
      const auto is_key = [&](const char* name) { return key == name; };
      if (std::ranges::any_of(known, is_key) || std::ranges::any_of(kNotes, is_key)) continue;
      return Refused(at, key, value);
    }
    return {};
  }
  Result<int64_t> Count(const Json& schema, const char* key, int64_t fallback,
                        const std::string& at) {
    if (!schema.contains(key)) return fallback;
    const Json& value = schema[key];
    if (!value.is_number_integer() || value < 0 || value > GrammarBuilder::kMaxRepeats)
      return InvalidInput("schema {}: {} is {}, expected 0 to {}", at, key, Shown(value),
                          GrammarBuilder::kMaxRepeats);
    return value.get<int64_t>();
  }

  Result<Symbol> Of(const Json& schema, const std::string& at, int depth) {
    if (depth > kMaxDepth) return Unsupported("schema {}: nested too deeply", at);
    if (schema == true) return value_;
    if (!schema.is_object())
      return Unsupported("schema {}: {}, expected an object or true", at, Shown(schema));
    if (schema.contains("$ref")) return Reference(schema, at, depth);
    if (schema.contains("const")) return Values(Json::array({schema["const"]}), at);
    if (schema.contains("enum")) return Values(schema["enum"], at);
    for (const char* key : {"anyOf", "oneOf", "allOf"}) {
      if (schema.contains(key)) return Either(schema, key, at, depth);
    }
    if (!schema.contains("type")) return OfType(schema, Guess(schema), at, depth);
    const Json& types = schema["type"];
    if (types.is_string()) return OfType(schema, types.get<std::string>(), at, depth);
    if (!types.is_array() || types.empty()) return Refused(at, "type", types);
    std::vector<Sequence> all;
    for (const Json& type : types) {
      if (!type.is_string()) return Refused(at, "type", types);
      EVOQ_ASSIGN(const Symbol one, OfType(schema, type.get<std::string>(), at, depth));
      all.push_back({one});
    }
    return b_.Choice(std::move(all));
  }

  // Where the schema does not say; "": any value.
  static std::string Guess(const Json& schema) {
    for (const char* key : {"properties", "additionalProperties", "required"}) {
      if (schema.contains(key)) return "object";
    }
    for (const char* key : {"items", "prefixItems", "minItems", "maxItems"}) {
      if (schema.contains(key)) return "array";
    }
    for (const char* key : {"minLength", "maxLength", "pattern"}) {
      if (schema.contains(key)) return "string";
    }
    return "";
  }

  Result<Symbol> Reference(const Json& schema, const std::string& at, int depth) {
    EVOQ_TRY(Only(schema, at, {"$ref"}));
    if (!schema["$ref"].is_string()) return Refused(at, "$ref", schema["$ref"]);
    const auto path = schema["$ref"].get<std::string>();
    if (const auto known = references_.find(path); known != references_.end()) return known->second;
    if (!path.starts_with("#")) return Refused(at, "$ref", schema["$ref"]);
    const Json* to = &whole_;
    for (size_t begin = 1; begin < path.size();) {
      const size_t end = std::min(path.find('/', begin + 1), path.size());
      const std::string key = Unescaped(path.substr(begin + 1, end - begin - 1));
      if (path[begin] != '/' || !to->is_object() || !to->contains(key))
        return InvalidInput("schema {}: $ref is {}, which is not there", at, Shown(schema["$ref"]));
      to = &(*to)[key];
      begin = end;
    }
    const Symbol rule = references_[path] = b_.NewRule();
    b_.Name(rule, path);
    EVOQ_ASSIGN(const Symbol symbol, Of(*to, path, depth + 1));
    b_.Add(rule, {symbol});
    return rule;
  }
  // Of a JSON pointer.
  static std::string Unescaped(const std::string& key) {
    std::string out;
    for (size_t i = 0; i < key.size(); ++i) {
      const bool escaped = key[i] == '~' && i + 1 < key.size();
      out += escaped ? (key[++i] == '1' ? '/' : '~') : key[i];
    }
    return out;
  }

  Result<Symbol> Values(const Json& values, const std::string& at) {
    if (!values.is_array() || values.empty())
      return InvalidInput("schema {}: enum is {}, expected a list of values", at, Shown(values));
    const Symbol rule = b_.NewRule();
    for (const Json& value : values)
      b_.Add(rule, Word(value.dump(-1, ' ', false, Json::error_handler_t::replace)));
    return rule;
  }

  Result<Symbol> Either(const Json& schema, const char* key, const std::string& at, int depth) {
    EVOQ_TRY(Only(schema, at, {key, "discriminator"}));
    const Json& all = schema[key];
    if (!all.is_array() || all.empty())
      return InvalidInput("schema {}: {} is {}, expected a list of schemas", at, key, Shown(all));
    if (key == std::string_view("allOf") && all.size() > 1) return Refused(at, key, all);
    const Symbol rule = b_.NewRule();
    for (size_t i = 0; i < all.size(); ++i) {
      EVOQ_ASSIGN(const Symbol one, Of(all[i], fmt::format("{}/{}/{}", at, key, i), depth + 1));
      b_.Add(rule, {one});
    }
    return rule;
  }

  Result<Symbol> OfType(const Json& schema, const std::string& type, const std::string& at,
                        int depth) {
    const bool several = schema.contains("type") && schema["type"].is_array();
    const auto only = [&](std::initializer_list<const char*> known) -> Status {
      return several ? Status() : Only(schema, at, known);
    };
    if (several)
      EVOQ_TRY(Only(schema, at,
                    {"type", "properties", "required", "additionalProperties", "items",
                     "prefixItems", "minItems", "maxItems", "minLength", "maxLength", "minimum",
                     "maximum", "exclusiveMinimum", "exclusiveMaximum"}));
    if (type.empty()) {
      EVOQ_TRY(only({}));
      return value_;
    }
    if (type == "object") {
      EVOQ_TRY(only({"type", "properties", "required", "additionalProperties"}));
      return Object(schema, at, depth);
    }
    if (type == "array") {
      EVOQ_TRY(only({"type", "items", "prefixItems", "minItems", "maxItems"}));
      return Array(schema, at, depth);
    }
    if (type == "string") {
      EVOQ_TRY(only({"type", "minLength", "maxLength"}));
      return String(schema, at);
    }
    if (type == "integer" || type == "number") {
      EVOQ_TRY(only({"type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}));
      return Number(schema, type == "integer", at);
    }
    EVOQ_TRY(only({"type"}));
    if (type == "boolean") return b_.Choice({Word("true"), Word("false")});
    if (type == "null") return b_.Choice({Word("null")});
    return Refused(at, "type", schema["type"]);
  }

  Result<Symbol> String(const Json& schema, const std::string& at) {
    EVOQ_ASSIGN(const int64_t least, Count(schema, "minLength", 0, at));
    EVOQ_ASSIGN(const int64_t most, Count(schema, "maxLength", -1, at));
    if (least == 0 && most < 0) return string_;
    if (most >= 0 && most < least)
      return InvalidInput("schema {}: maxLength is {}, expected at least minLength, {}", at, most,
                          least);
    return b_.Choice({Word("\"") + b_.Repeat(char_, least, most) + Word("\"")});
  }

  // One of the limits, as a whole number; `change`: what an exclusive one is off by.
  Status Limit(const Json& schema, const char* key, int64_t change, const std::string& at,
               std::optional<int64_t>& limit) {
    if (!schema.contains(key)) return {};
    const Json& value = schema[key];
    constexpr double kMost = 1e15;
    const double number = value.is_number() ? value.get<double>() : kMost * 2;
    if (number != static_cast<double>(static_cast<int64_t>(std::clamp(number, -kMost, kMost))))
      return Refused(at, key, value);
    limit = static_cast<int64_t>(number) + change;
    return {};
  }

  Result<Symbol> Number(const Json& schema, bool integer, const std::string& at) {
    std::optional<int64_t> least, most, above, below;
    EVOQ_TRY(Limit(schema, "minimum", 0, at, least));
    EVOQ_TRY(Limit(schema, "exclusiveMinimum", 1, at, above));
    EVOQ_TRY(Limit(schema, "maximum", 0, at, most));
    EVOQ_TRY(Limit(schema, "exclusiveMaximum", -1, at, below));
    if (above) least = std::max(least.value_or(*above), *above);
    if (below) most = std::min(most.value_or(*below), *below);
    if (!least && !most) return integer ? integer_ : number_;
    if (!integer) {
      if (least == 0 && !most && !schema.contains("exclusiveMinimum")) return not_negative_;
      return Unsupported(
          "schema {}: limits of numbers that are no integers are not supported, but "
          "minimum 0",
          at);
    }
    if (least && most && *most < *least)
      return InvalidInput("schema {}: from {} to {} there is no integer", at, *least, *most);
    return AddIntegers(b_, least, most);
  }

  Result<Symbol> Array(const Json& schema, const std::string& at, int depth) {
    EVOQ_ASSIGN(int64_t least, Count(schema, "minItems", 0, at));
    EVOQ_ASSIGN(const int64_t most, Count(schema, "maxItems", -1, at));
    if (most >= 0 && most < least)
      return InvalidInput("schema {}: maxItems is {}, expected at least minItems, {}", at, most,
                          least);
    // Those with a schema of their own, all of which are written, stand in front.
    Sequence first;
    const Json none = Json::array();
    const Json& prefix = schema.contains("prefixItems") ? schema["prefixItems"] : none;
    if (!prefix.is_array()) return Refused(at, "prefixItems", prefix);
    const auto count = static_cast<int64_t>(prefix.size());
    for (int64_t i = 0; i < count; ++i) {
      EVOQ_ASSIGN(const Symbol item, Of(prefix[static_cast<size_t>(i)],
                                        fmt::format("{}/prefixItems/{}", at, i), depth + 1));
      first = first + (i > 0 ? Comma() : Sequence()) + Sequence{item, space_};
    }
    if (most >= 0 && most < count) return Refused(at, "maxItems", schema["maxItems"]);
    const Json any = true;
    const Json& items = schema.contains("items") ? schema["items"] : any;
    if (items == false || most == count) {
      if (least > count) return InvalidInput("schema {}: fewer items than minItems, {}", at, least);
      return b_.Choice({Word("[") + Sequence{space_} + first + Word("]")});
    }
    EVOQ_ASSIGN(const Symbol item, Of(items, at + "/items", depth + 1));
    least = std::max<int64_t>(least - count, 0);
    const int64_t left = most < 0 ? most : most - count;
    Sequence rest = List(item, std::max<int64_t>(least, 1), left);
    if (count > 0) rest = Comma() + rest;
    if (least == 0) rest = {Maybe(std::move(rest))};
    return b_.Choice({Word("[") + Sequence{space_} + first + rest + Word("]")});
  }

  Result<Symbol> Object(const Json& schema, const std::string& at, int depth) {
    const Json none = Json::object(), no_names = Json::array();
    const Json& properties = schema.contains("properties") ? schema["properties"] : none;
    const Json& required = schema.contains("required") ? schema["required"] : no_names;
    if (!properties.is_object()) return Refused(at, "properties", properties);
    if (!required.is_array()) return Refused(at, "required", required);
    struct Property {
      Symbol entry;
      bool needed;
    };
    std::vector<Property> all;
    std::set<std::string> names, needed;
    for (const Json& name : required) {
      if (!name.is_string()) return Refused(at, "required", required);
      needed.insert(name.get<std::string>());
    }
    for (const auto& [name, of] : properties.items()) {
      EVOQ_ASSIGN(const Symbol value, Of(of, fmt::format("{}/properties/{}", at, name), depth + 1));
      const Sequence key = Word(Json(name).dump(-1, ' ', false, Json::error_handler_t::replace));
      all.push_back({b_.Choice({Entry(key, value)}), needed.contains(name)});
      names.insert(name);
    }
    for (const std::string& name : needed) {
      if (!names.contains(name))
        return Unsupported("schema {}: {} is required and not among the properties", at, name);
    }
    // Where nothing is said, an object with properties has no others.
    const Json others = schema.contains("additionalProperties") ? schema["additionalProperties"]
                                                                : Json(properties.empty());
    Symbol empty = b_.Choice({{}}), last = empty, last_first = empty;
    if (others != false) {
      EVOQ_ASSIGN(const Symbol value, Of(others, at + "/additionalProperties", depth + 1));
      const Symbol entry = b_.Choice({Entry({OtherKey({names.begin(), names.end()})}, value)});
      const Symbol next = b_.Choice({Comma() + Sequence{entry}});
      const Sequence more = b_.Repeat(next, 0, -1);
      last = b_.Choice({more});
      last_first = Maybe(Sequence{entry} + more);
    }
    // What follows, where entries stand before it and where none does.
    for (size_t i = all.size(); i-- > 0;) {
      const Sequence entry = {all[i].entry};
      std::vector<Sequence> behind = {Comma() + entry + Sequence{last}},
                            first = {entry + Sequence{last}};
      if (!all[i].needed) {
        behind.push_back({last});
        first.push_back({last_first});
      }
      last = b_.Choice(std::move(behind));
      last_first = b_.Choice(std::move(first));
    }
    return b_.Choice({Word("{") + Sequence{space_, last_first} + Word("}")});
  }

  // A key that is none of the sorted names, from the byte `at` on, where all of them are equal.
  Symbol OtherKey(const std::vector<std::string>& names) {
    return names.empty() ? string_ : b_.Choice({Word("\"") + Sequence{OtherRest(names, 0)}});
  }
  Symbol OtherRest(const std::vector<std::string>& names, size_t at) {
    const Symbol rule = b_.NewRule();
    bool is_name = false;
    Grammar::Bytes next;
    for (const std::string& name : names) {
      is_name |= name.size() == at;
      if (name.size() > at) next.set(static_cast<unsigned char>(name[at]));
    }
    if (!is_name) b_.Add(rule, Word("\""));
    std::vector<GrammarBuilder::Range> others = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
    for (uint32_t byte = 0; byte < next.size(); ++byte) {
      if (!next.test(byte)) continue;
      constexpr uint32_t kAscii = 0x80;
      others.push_back(byte < kAscii ? GrammarBuilder::Range{byte, byte}
                                     : GrammarBuilder::Range{kAscii, 0x10FFFF});
      std::vector<std::string> same;
      for (const std::string& name : names) {
        if (name.size() > at && static_cast<unsigned char>(name[at]) == byte) same.push_back(name);
      }
      if (byte >= kAscii || byte == '"' || byte == '\\' || byte < ' ') continue;
      b_.Add(rule,
             Word(std::string(1, static_cast<char>(byte))) + Sequence{OtherRest(same, at + 1)});
    }
    b_.Add(rule,
           Sequence{b_.Character(std::move(others), true)} + b_.Repeat(char_, 0, -1) + Word("\""));
    return rule;
  }

  const Json& whole_;
  GrammarBuilder b_;
  Symbol digit_{}, space_{}, plain_{}, char_{}, string_{}, whole_number_{}, integer_{},
      not_negative_{}, number_{}, value_{}, object_{}, array_{};
  std::map<std::string, Symbol> references_;
};

}  // namespace

Result<std::shared_ptr<const Grammar>> GrammarOfSchema(std::string_view schema,
                                                       std::string_view before,
                                                       std::string_view behind) {
  EVOQ_TRY(WithContext(ParseJson(schema), "schema"));
  Json whole = nlohmann::ordered_json::parse(schema);
  if (whole.is_object() && whole.empty()) whole = {{"type", "object"}};
  return SchemaGrammar(whole).Make(before, behind);
}

}  // namespace evoq
