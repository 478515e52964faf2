// Lists of a file in a message.
#pragma once

#include <span>
#include <string>

#include "base/text.h"

namespace evoq {

// As Bracketed, of at most the first 16: "[1, 2, ... 243 in all]". A file may say as many as it is
// long.
template <typename T>
std::string BracketedBriefly(std::span<const T> items) {
  constexpr size_t kMost = 16;
  if (items.size() <= kMost) return Bracketed(items);
  std::string text = Bracketed(items.first(kMost));
  text.pop_back();
  return fmt::format("{}, ... {} in all]", text, items.size());
}

}  // namespace evoq
