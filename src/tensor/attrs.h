// The attributes of a node or of a step: named values with defaults at the place of use.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tensor/tensor.h"

namespace evoq {

using AttrValue = std::variant<int64_t, float, std::string, std::vector<int64_t>,
                               std::vector<float>, std::vector<std::string>, Tensor>;

// Sorted by name, so that printing and comparing are deterministic. A getter returns its default
// when the attribute is missing or of another kind; operators validate kinds once, at type
// inference, with Has and KindIs.
class Attrs {
 public:
  // That one alone.
  template <typename T>
  static Attrs Of(const std::string& name, T value) {
    Attrs attrs;
    attrs.Set(name, std::move(value));
    return attrs;
  }

  bool Has(const std::string& name) const { return map_.count(name) > 0; }
  template <typename T>
  bool KindIs(const std::string& name) const {
    auto it = map_.find(name);
    return it != map_.end() && std::holds_alternative<T>(it->second);
  }
  int64_t Int(const std::string& name, int64_t fallback = 0) const {
    return Get<int64_t>(name, fallback);
  }
  float Float(const std::string& name, float fallback = 0) const {
    return Get<float>(name, fallback);
  }
  std::string String(const std::string& name, std::string fallback = "") const {
    return Get<std::string>(name, std::move(fallback));
  }
  std::vector<int64_t> Ints(const std::string& name, std::vector<int64_t> fallback = {}) const {
    return Get<std::vector<int64_t>>(name, std::move(fallback));
  }
  std::vector<float> Floats(const std::string& name, std::vector<float> fallback = {}) const {
    return Get<std::vector<float>>(name, std::move(fallback));
  }
  std::vector<std::string> Strings(const std::string& name) const {
    return Get<std::vector<std::string>>(name, {});
  }
  Tensor TensorOr(const std::string& name, Tensor fallback = {}) const {
    return Get<Tensor>(name, std::move(fallback));
  }

  void Set(const std::string& name, AttrValue value) { map_[name] = std::move(value); }
  void Set(const std::string& name, const char* value) { map_[name] = std::string(value); }
  void Set(const std::string& name, int value) { map_[name] = int64_t{value}; }
  void Set(const std::string& name, int64_t value) { map_[name] = value; }
  void Set(const std::string& name, float value) { map_[name] = value; }
  void Erase(const std::string& name) { map_.erase(name); }

  bool empty() const { return map_.empty(); }
  auto begin() const { return map_.begin(); }
  auto end() const { return map_.end(); }

  // "{group=1, pads=[1, 1, 1, 1]}", "" when empty.
  std::string ToString() const;
  bool operator==(const Attrs& other) const;

 private:
  template <typename T>
  T Get(const std::string& name, T fallback) const {
    auto it = map_.find(name);
    if (it == map_.end()) return fallback;
    const T* value = std::get_if<T>(&it->second);
    return value ? *value : fallback;
  }
  std::map<std::string, AttrValue> map_;
};

}  // namespace evoq
