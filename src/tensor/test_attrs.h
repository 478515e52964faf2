// For tests: attributes in one expression.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "tensor/attrs.h"

namespace evoq {

inline Attrs With(std::initializer_list<std::pair<const char*, AttrValue>> items) {
  Attrs attrs;
  for (const auto& [name, value] : items) attrs.Set(name, value);
  return attrs;
}

template <typename T>
Attrs With(const std::string& name, T value) {
  Attrs attrs;
  attrs.Set(name, value);
  return attrs;
}

}  // namespace evoq
