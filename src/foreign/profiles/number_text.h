// Numbers of files that hold text.
#pragma once

#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>

namespace evoq {

// The finite number that is the whole text.
inline std::optional<double> NumberOf(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != 0 || !std::isfinite(number)) return std::nullopt;
  return number;
}

}  // namespace evoq
