// What other tools call what a scheme does.
#pragma once

#include <string>
#include <string_view>

namespace evoq {

// The scheme of that name elsewhere ("w8a8": "int8"), several with commas; "" where there is none.
std::string_view SchemeNamedElsewhere(std::string_view name);

// The end of a sentence about a scheme that there is not: "; here it is int8", else NearestHint.
std::string SchemeHint(std::string_view name);

}  // namespace evoq
