// Facts of a graph's metadata in listings.
#pragma once

#include <fmt/format.h>

#include <string>

namespace evoq {

// The value, or how long it is where it is longer than a listing should show: a whole file, such as
// a tokenizer.
inline std::string ShortFact(const std::string& value) {
  constexpr size_t kMost = 4096;
  return value.size() <= kMost ? value : fmt::format("({} bytes)", value.size());
}

}  // namespace evoq
