// Numbers of tables that are written as text.
#pragma once

#include <cmath>
#include <cstdlib>
#include <string>

#include "encodings/table.h"

namespace evoq {

// The entry of a tensor whose largest magnitude is written in `text`. Errors: kInvalidInput.
inline Result<TableEntry> EntryOfMagnitude(std::string tensor, const std::string& text) {
  char* end = nullptr;
  const float largest = std::fabs(std::strtof(text.c_str(), &end));
  if (text.empty() || end != text.c_str() + text.size() || !std::isfinite(largest))
    return InvalidInput("{}: \"{}\", expected the largest magnitude, a finite number", tensor,
                        text.substr(0, 40));
  return TableEntry{std::move(tensor), -largest, largest};
}

}  // namespace evoq
