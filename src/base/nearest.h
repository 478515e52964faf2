// Names that somebody may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace evoq {

// Of `names`, the one that takes the fewest edits from `name`: inserting, deleting or replacing a
// character, or swapping two neighbours (optimal string alignment). The first of several; "" where
// there are none.
std::string_view Nearest(std::string_view name, std::span<const std::string_view> names);

}  // namespace evoq
