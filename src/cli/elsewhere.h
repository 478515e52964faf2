// Options by the names that they have in other tools.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace evoq {

// The end of a sentence about an option that a verb with the options `names` does not have, and
// that others call so: "; here it is --output". "" where it says nothing, or the verb does not have
// that option either.
std::string OptionNamedElsewhere(std::string_view name, std::span<const std::string_view> names);

}  // namespace evoq
