// Bytes as text.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace evoq {

// RFC 4648, section 4: A-Z, a-z, 0-9, + and /, filled up with = to a multiple of four characters.
std::string ToBase64(std::string_view bytes);
// Errors: kInvalidInput naming the first character that cannot be there.
Result<std::string> FromBase64(std::string_view text);

}  // namespace evoq
