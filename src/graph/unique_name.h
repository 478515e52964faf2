// Names that are not taken yet.
#pragma once

#include <functional>
#include <string>

namespace evoq {

// `wanted` where it is free, else wanted_1, wanted_2, ...: the first free one up to 64, and of
// larger numbers a free one behind one that is taken, found by doubling and halving, so that many
// calls that want one name ask `taken` a few times each.
std::string UniqueName(const std::string& wanted,
                       const std::function<bool(const std::string&)>& taken);

}  // namespace evoq
