// The members of a JSON object, read one by one: each has a type and a range, and none is left
// over.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace evoq::serve {

// Keeps the first error, which Done() gives; what was read after it means nothing. Refers to the
// object.
class Fields {
 public:
  // `where` stands before messages: "config.json: dynamic_batching". Anything but an object is an
  // error.
  Fields(const nlohmann::json& object, std::string where);

  bool has(const char* key) const;
  // Nothing where the key is missing or null. Integers may be strings, as protobuf writes them.
  void Read(const char* key, int64_t& value, int64_t low, int64_t high);
  void Read(const char* key, int& value, int low, int high);
  void Read(const char* key, double& value, double low, double high);
  void Read(const char* key, bool& value);
  void Read(const char* key, std::string& value);
  void Read(const char* key, std::vector<int64_t>& value, int64_t low, int64_t high);
  // The member, which may be of any type; null where it is missing.
  const nlohmann::json& Member(const char* key);
  // A key that may be there and changes nothing.
  void Accept(const char* key) { known_.insert(key); }

  std::string at(const char* key) const;
  void Fail(const char* key, const std::string& expected);
  void Keep(const Status& status);
  // The first error; else one for a key that nothing asked for, unless `others` may be there.
  Status Done(bool others = false) const;
  // The keys that nothing asked for.
  std::vector<std::string> Others() const;

 private:
  const nlohmann::json* Find(const char* key);
  const nlohmann::json& object_;
  std::string where_;
  std::set<std::string_view> known_;
  Status first_;
};

// A whole number, also one that is written as a string; none for any other value.
std::optional<int64_t> IntegerOf(const nlohmann::json& value);

// Text of a value for a message, cut short.
std::string Brief(const nlohmann::json& value);

}  // namespace evoq::serve
