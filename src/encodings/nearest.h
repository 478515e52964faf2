// Names like one that is not there.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace evoq {

// The at most `count` of `names` that take the fewest insertions, deletions and replacements of
// bytes (Levenshtein, 1966) to become `name`, nearest first, of equals the first by the alphabet;
// none that shares less than half of the longer name. Costs sum of sizes times the name's size: of
// names of more than 256 bytes only the last 256 count.
std::vector<std::string> NearestNames(std::string_view name, std::span<const std::string> names,
                                      size_t count);

}  // namespace evoq
